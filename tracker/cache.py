"""The layout of the cache: which folder holds what.

Knows names of folders and how a file or folder gets into them whole or not at all; it does not know what a
release or a build is. ``LLAMA_TRACKER_CACHE`` overrides the platform's own place.

    downloads/      archives as published, by name; only ever complete and verified
    sources/<id>/   unpacked trees; ``release.json`` is written last
    builds/<key>/   built libraries; ``build.json`` is written last, ``failed.json`` remembers a failure
    git/            bare clones
    vocabularies/   vocabulary files, by name
    audit-versions/ versions that take long to compute
    compiler-cache/ of sccache or ccache
    kept/<name>/    a source and its objects, for the next build; only without a compiler cache
    slots/          links to what is compiled just now, for paths that stay the same
    locks/          lock files; empty, and safe to delete when nothing runs
    work/           what is being made right now
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

ENVIRONMENT_VARIABLE = "LLAMA_TRACKER_CACHE"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in the cache: ``size`` in bytes, ``used`` the time of its last use in seconds since 1970."""

    kind: str
    path: Path
    size: int
    used: float
    lock: str

    @classmethod
    def of(cls, kind: str, path: Path, lock: str) -> Entry:
        """The entry at a path."""
        times, size = [path.lstat().st_mtime], 0
        for below in path.rglob("*") if path.is_dir() else [path]:
            status = below.lstat()
            if not stat.S_ISDIR(status.st_mode):
                size += status.st_size
            if below.parent == path or kind == "work":
                times.append(status.st_mtime)
        return cls(kind, path, size, max(times), lock)


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache below ``root``; folders are made when asked for."""

    root: Path

    @classmethod
    def default(cls) -> Cache:
        """The cache of this user, or what ``LLAMA_TRACKER_CACHE`` says."""
        override = os.environ.get(ENVIRONMENT_VARIABLE)
        return cls(
            Path(override).absolute() if override else Path(platformdirs.user_cache_dir("llama-tracker"))
        )

    def folder(self, *names: str) -> Path:
        """A folder below the root, made if it is not there."""
        path = self.root.joinpath(*names)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def entries(self) -> list[Entry]:
        """Sources, builds (failed ones too), downloads, kept trees, work folders; longest unused first."""
        found = [
            *(Entry.of("source", path, f"source-{path.name}") for path in self.folder("sources").iterdir()),
            *(Entry.of("build", path, f"build-{path.name}") for path in self.folder("builds").iterdir()),
            *(Entry.of("kept", path, f"kept-{path.name}") for path in self.folder("kept").iterdir()),
            *(
                Entry.of("download", path, f"download-{path.name[:16]}")
                for path in self.folder("downloads").iterdir()
            ),
            *(Entry.of("work", path, "work") for path in self.folder("work").iterdir()),
        ]
        return sorted(found, key=lambda entry: (entry.used, entry.path))

    def prune(self, *, unused_seconds: float, keep_bytes: int) -> list[Entry]:
        """Remove what was not used for that long, and the longest unused until the rest fits.

        Returns what is gone. What another process holds the lock of stays. Work folders go by age alone: a
        live one is young.
        """
        entries = self.entries()
        total = sum(entry.size for entry in entries)
        now = time.time()
        removed = []
        for entry in entries:
            too_old = now - entry.used > unused_seconds
            too_much = total > keep_bytes and entry.kind != "work"
            if (too_old or too_much) and self._remove(entry):
                total -= entry.size
                removed.append(entry)
        return removed

    def _remove(self, entry: Entry) -> bool:
        try:
            with self.lock(entry.lock, timeout=0):
                if entry.path.is_dir():
                    # Out of sight first: a folder that is half removed may still have its stamp.
                    with self.working_folder() as folder:
                        os.replace(entry.path, folder / "removed")
                else:
                    entry.path.unlink(missing_ok=True)
        except (Timeout, OSError):
            return False
        return True

    def lock(self, name: str, timeout: float = -1) -> FileLock:
        """The lock of that name, to be used in a ``with`` statement; ``timeout`` in seconds, -1 for ever."""
        return FileLock(self.folder("locks") / f"{name}.lock", timeout=timeout)

    @contextmanager
    def working_folder(self) -> Iterator[Path]:
        """A new empty folder on the cache's file system, removed at the end unless it was moved away."""
        path = Path(tempfile.mkdtemp(dir=self.folder("work")))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
