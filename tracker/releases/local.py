"""The channel of source trees on this machine: ``path:DIR``.

The identity is the content of the files that a build needs, so that a changed file is another release and a
touched one is not. The tree is used where it lies; nothing is copied.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from tracker.cache import Cache
from tracker.errors import UsageError
from tracker.releases import (
    ChannelName,
    DateKind,
    Release,
    ReleaseError,
    ResolvedRelease,
    Source,
)
from tracker.releases.gitfiles import commit_date, head_commit
from tracker.releases.tree import is_wanted

_VERSION_DIGITS = 12


class LocalChannel:
    """A ``Channel`` over folders of this machine; it has no order and needs no cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def pin(self, release: Release) -> Release:
        """See ``Channel``: the same with an absolute path."""
        return Release(ChannelName.PATH, str(Path(release.version).expanduser().absolute()))

    def fetch(self, release: Release) -> Source:
        """See ``Channel``."""
        tree = Path(self.pin(release).version)
        if not (tree / "CMakeLists.txt").is_file() or not (tree / "include" / "llama.h").is_file():
            raise ReleaseError(
                f"path:{release.version}: no llama.cpp there (CMakeLists.txt, include/llama.h)"
            )
        digest = content_sha256(tree)
        git = tree / ".git"
        commit = head_commit(git) if git.is_dir() else ""
        date = commit_date(git, commit) if commit else ""
        resolved = ResolvedRelease(
            channel=ChannelName.PATH,
            version=digest[:_VERSION_DIGITS],
            id=f"path-{digest[:_VERSION_DIGITS]}",
            commit=commit,
            date=date,
            date_kind=DateKind.COMMIT if date else DateKind.NONE,
            build_number=None,
            sha256=digest,
        )
        return Source(resolved, tree)

    def list_range(self, good: Release, bad: Release) -> Sequence[Release]:
        """See ``Channel``: folders have no order."""
        raise UsageError("path: releases have no order; write git+URL@REF to search a range of commits")


def content_sha256(tree: Path) -> str:
    """A digest of names and contents of the files of a tree that a build needs."""
    digest = hashlib.sha256()
    for name in sorted(_wanted_files(tree)):
        with open(tree / name, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{content} {name}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _wanted_files(tree: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(tree):
        below = PurePosixPath(Path(folder).relative_to(tree))
        folders[:] = [name for name in folders if name not in (".git", "build")]
        for name in files:
            path = below / name
            if is_wanted(path) and (tree / path).is_file():
                yield str(path)
