"""The layout of the cache: which folder holds what.

Knows names of folders and how a file or folder gets into them whole or not at all; it does not know what a
release or a build is. ``LLAMA_TRACKER_CACHE`` overrides the platform's own place.

    downloads/      archives as published, by name; only ever complete and verified
    sources/<id>/   unpacked trees; ``release.json`` is written last
    builds/<key>/   built libraries; ``build.json`` is written last, ``failed.json`` remembers a failure
    git/            bare clones
    vocabularies/   vocabulary files, by name
    compiler-cache/ of sccache or ccache
    locks/          lock files; empty, and safe to delete when nothing runs
    work/           what is being made right now
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock

ENVIRONMENT_VARIABLE = "LLAMA_TRACKER_CACHE"


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
