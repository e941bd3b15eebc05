"""Files that are either the old ones or the new ones, never half of something.

It knows how to write one file so that a kill at any moment leaves no trace that a reader could take for
content, and how to sweep away what killed writers have left. It does not know what is in a file.

A writer holds a lock on its temporary file for as long as it lives; a temporary file that can be locked is
therefore an orphan, on whatever machine or at whatever time it was left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

_SUFFIX = ".tmp"
_MODE = 0o644


def write_atomic(path: Path, content: bytes) -> bool:
    """Make a file hold exactly these bytes; False when it already does, and then it is not touched.

    The content is on disk before the name points to it. Raises OSError.
    """
    try:
        if path.read_bytes() == content:
            return False
    except (FileNotFoundError, NotADirectoryError):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(path) as (descriptor, temporary):
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
        temporary.rename(path)
    _sync_folder(path.parent)
    return True


def sweep(folder: Path) -> list[Path]:
    """Remove the temporary files in a folder whose writers are gone; says which."""
    removed = []
    for path in sorted(folder.glob(f".*{_SUFFIX}")):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
            removed.append(path)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)
    return removed


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[tuple[int, Path]]:
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}{_SUFFIX}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Between the creation and the lock somebody may have taken it for an orphan.
        with contextlib.suppress(FileNotFoundError):
            if temporary.stat().st_ino == os.fstat(descriptor).st_ino:
                break
        os.close(descriptor)
    try:
        yield descriptor, temporary
    finally:
        temporary.unlink(missing_ok=True)
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
