"""One build tree kept from build to build, for when there is no compiler cache.

The next source is written over the copy of the last one, and Ninja compiles what has changed. A stale object
must never end in a build, so as little as possible is trusted:

- Of a build only objects and Ninja's two logs are kept; CMake's cache, libraries and generated files are made
  anew.
- A file of the same content keeps its time, any other gets the present one. A clock that stands before what
  was built is not believed: everything is compiled.
- Nor can Ninja know that an #include would find another file now. Where a new file, or a header outside of
  the tree that is not what it was, could be meant, everything is compiled.
- The kept tree leaves its place while it is in use and comes back after success only.

    kept/<name>/tree/          the source that was built last
    kept/<name>/build/         its objects, below the folders of CMake
    kept/<name>/outside.json   digests of the headers used that lie outside of the tree

Knows files and Ninja, not what is built.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracker.cache import Cache
from tracker.toolchain import NINJA, environment

_NINJA_LOGS = {".ninja_log", ".ninja_deps"}
_SOURCES = {".c", ".cpp"}


@contextmanager
def kept_tree(cache: Cache, name: str, tree: Path, working: Path) -> Iterator[Path]:
    """A copy of a tree to build in ``working/build``, with what is still good of the last build of that name.

    The copy lies in ``working``. What is built is kept unless the body raises.
    """
    place, home = cache.folder("kept") / name, working / "kept"
    try:
        os.replace(place, home)
        os.replace(home / "build", working / "build")
        usable = _outside_is_as_it_was(home) and _update(home / "tree", tree, working / "build")
    except (OSError, ValueError):
        usable = False
    if not usable:
        for folder in (home, working / "build"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tree, home / "tree")
    yield home / "tree"
    try:
        (home / "outside.json").write_text(json.dumps(_outside(working / "build", cache.root)))
        os.replace(working / "build", home / "build")
        os.replace(home, place)
    except (OSError, subprocess.CalledProcessError):
        # A build that ran at the same time has put its own there, or the disk is full: this one is done.
        return


def _update(kept: Path, tree: Path, build: Path) -> bool:
    """Make the kept copy equal to a tree; false when its objects cannot be trusted then."""
    old, new = _files(kept), _files(tree)
    names = [path.name for path in new]
    if any(path.suffix not in _SOURCES or names.count(path.name) > 1 for path in new - old):
        return False
    now = time.time_ns()
    for path in build.rglob("*"):
        if path.lstat().st_mtime_ns >= now:
            return False
        if not path.is_dir() and path.suffix != ".o" and path.name not in _NINJA_LOGS:
            path.unlink()
    for path in old - new:
        (kept / path).unlink()
    for path in new:
        if path not in old or not _same(kept / path, tree / path):
            (kept / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree / path, kept / path)
            os.utime(kept / path, ns=(now, now))
    return True


def _files(tree: Path) -> set[Path]:
    return {path.relative_to(tree) for path in tree.rglob("*") if not path.is_dir()}


def _same(one: Path, other: Path) -> bool:
    return filecmp.cmp(one, other, shallow=False) and one.stat().st_mode == other.stat().st_mode


def _outside_is_as_it_was(home: Path) -> bool:
    recorded: dict[str, str] = json.loads((home / "outside.json").read_text())
    return all(_digest(Path(path)) == digest for path, digest in recorded.items())


def _outside(build: Path, cache: Path) -> dict[str, str]:
    """Digests of what objects were made of outside of the cache, by path."""
    done = subprocess.run(
        [NINJA, "-C", build, "-t", "deps"],
        env=environment({}, build),
        capture_output=True,
        text=True,
        check=True,
    )
    # An object's name, then its dependencies with four spaces before them.
    named = {line.strip() for line in done.stdout.splitlines() if line.startswith("    /")}
    return {path: _digest(Path(path)) for path in sorted(named) if not Path(path).is_relative_to(cache)}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
