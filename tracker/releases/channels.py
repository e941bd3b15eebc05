"""From what a user writes to sources: the one place that knows all channels."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.cache import Cache
from tracker.errors import UsageError
from tracker.releases import (
    Channel,
    ChannelName,
    Release,
    ReleaseError,
    Source,
    parse_range,
    parse_release,
)
from tracker.releases.git import GitChannel
from tracker.releases.local import LocalChannel
from tracker.releases.pypi import IndexChannel


def open_channel(name: ChannelName, cache: Cache) -> Channel:
    """The channel of that name. Asks no network yet."""
    match name:
        case ChannelName.PYTHON | ChannelName.BIN:
            return IndexChannel(name, cache)
        case ChannelName.GIT:
            return GitChannel(cache)
        case ChannelName.PATH:
            return LocalChannel(cache)


def fetch(release: Release, cache: Cache) -> Source:
    """The release's source. Raises ReleaseError and UsageError."""
    return open_channel(release.channel, cache).fetch(release)


def list_range(good: Release, bad: Release, cache: Cache) -> Sequence[Release]:
    """All exact releases between two of one channel, oldest first. Raises ReleaseError and UsageError."""
    if good.channel is not bad.channel or good.url != bad.url:
        raise UsageError(f"{good} and {bad}: both ends of a range have to be of one channel")
    return open_channel(good.channel, cache).list_range(good, bad)


def expand(text: str, cache: Cache) -> Sequence[Release]:
    """The exact releases that a text names: one release, or a range such as ``llama-cpp-python>=0.3.24``.

    Oldest first. Raises UsageError, and ReleaseError when nothing fits.
    """
    named = parse_range(text)
    if named is None:
        release = parse_release(text)
        return [open_channel(release.channel, cache).pin(release)]
    name, specifier = named
    releases = [r for r in IndexChannel(name, cache).list_all() if specifier.contains(r.version)]
    if not releases:
        raise ReleaseError(f"{text}: no release on the package index fits; see `builds list`")
    return releases
