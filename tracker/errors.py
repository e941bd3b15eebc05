"""The errors that llama-tracker raises on purpose, and the exit codes they stand for.

A message is one line: what went wrong, where, and what to do about it.
"""

from __future__ import annotations

import errno
from enum import IntEnum


class ExitCode(IntEnum):
    """Process exit codes of the command line."""

    OK = 0
    CHANGED = 10
    """Done, and the deviations differ from the last result (only with ``--exit-code``)."""
    USAGE = 2
    """The command line or a configuration file is wrong."""
    INCOMPLETE = 3
    """A build or an audit could not be completed, a control failed, or nothing was audited."""
    INTERNAL = 70
    """A bug in llama-tracker."""


FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""Errors of a disk that takes nothing more."""


class TrackerError(Exception):
    """Base of every error that the tracker raises on purpose; exits with ``exit_code``.

    ``passing`` when this machine, its disk or its network is to blame: the same may work later.
    """

    exit_code: ExitCode = ExitCode.INCOMPLETE
    passing: bool = False


class UsageError(TrackerError):
    """What the user typed or configured cannot be carried out as it stands."""

    exit_code = ExitCode.USAGE
