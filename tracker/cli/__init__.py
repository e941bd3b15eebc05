"""The command line: parses, calls, prints. What is done is done elsewhere.

Every command lives in a module of its own with a ``register`` function; this one puts them together and turns
errors into one line and an exit code.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Annotated

import typer

from tracker import __version__
from tracker.cli import (
    actions,
    audit,
    bisect,
    builds,
    check,
    compare,
    control,
    gguf,
    notify,
    report,
    sampler,
    try_patch,
)
from tracker.cli.output import OUTPUT
from tracker.errors import FULL_DISK, ExitCode, TrackerError

COMMANDS = (
    audit, check, control, sampler, gguf, compare, report, bisect, try_patch, notify, actions, builds,
)  # fmt: skip

INTERRUPTED = 130
"""What Typer's newer versions exit with when a command is interrupted."""

INTERRUPTED_TEXT = "interrupted: what was finished is kept, run it again to go on"

_OF_THE_MACHINE = FULL_DISK | {errno.EACCES, errno.ENOTDIR}
"""Errors that are no bug of ours: a full or write-protected disk, a file where a folder should be."""

app = typer.Typer(
    name="llama-tracker",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Watches llama.cpp releases for regressions in constrained decoding.",
    epilog="Exit codes: 0 done; 10 deviations changed (with --exit-code); 2 wrong usage or configuration; "
    "3 incomplete (a build, an audit or a control failed, or nothing was audited); 70 a bug in the program; "
    "130 interrupted.",
)

for _module in COMMANDS:
    _module.register(app)


def _version(value: bool) -> None:
    if value:
        OUTPUT.result(f"llama-tracker {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    _open_standard_streams()
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def _open_standard_streams() -> None:
    """Open closed ones of descriptors 0 to 2 on nothing, so that no pipe of ours gets their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _terminated(number: int, frame: FrameType | None) -> None:
    """Stop as after Ctrl-C, so that nothing is left running or half-written."""
    OUTPUT.problem(f"llama-tracker: {INTERRUPTED_TEXT}")
    raise SystemExit(128 + number)


def run(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code.

    Every error that is meant to reach the user becomes one line on standard error.
    """
    OUTPUT.quiet = OUTPUT.verbose = False
    try:
        return int(app(list(arguments), standalone_mode=False) or 0)
    except typer.Exit as leaving:
        if leaving.exit_code == INTERRUPTED:
            OUTPUT.problem(f"llama-tracker: {INTERRUPTED_TEXT}")
        return leaving.exit_code
    except (typer.Abort, KeyboardInterrupt):
        OUTPUT.problem(f"llama-tracker: {INTERRUPTED_TEXT}")
        return INTERRUPTED
    except TrackerError as error:
        if OUTPUT.verbose:
            OUTPUT.problem(traceback.format_exc())
        OUTPUT.problem(f"llama-tracker: {error}")
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            where = f"{error.filename}: " if error.filename else ""
            OUTPUT.problem(f"llama-tracker: {where}{error.strerror}: make room or give another place")
            return ExitCode.INCOMPLETE
        mistake = _usage_mistake(error)
        if mistake is not None:
            if mistake:
                OUTPUT.problem(f"llama-tracker: {mistake}")
            return ExitCode.USAGE
        if OUTPUT.verbose:
            OUTPUT.problem(traceback.format_exc())
        OUTPUT.problem(
            f"llama-tracker: a bug in the program: {type(error).__name__}: {error}: run again with --verbose "
            "and report what it prints"
        )
        return ExitCode.INTERNAL


def _usage_mistake(error: Exception) -> str | None:
    """The line about a wrong command line, empty when its help was printed; None for any other error.

    Typer carries a copy of click in newer versions and uses the installed one in older ones, so the parser's
    errors are known by what they offer, not by their class.
    """
    message = getattr(error, "format_message", None)
    if message is None or not hasattr(error, "show"):
        return None
    context = getattr(error, "ctx", None)
    line = " ".join(str(message()).split())
    return f"{line} (see '{context.command_path} --help')" if context and line else line
