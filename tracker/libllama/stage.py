"""What the library is doing, said by the child in one byte of shared memory: it is there after any death."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


class Stage(IntEnum):
    """The call of the library that a child is in."""

    OTHER = 0
    READING = 1
    ACCEPTING = 2
    APPLYING = 3

    @property
    def words(self) -> str:
        """For people; empty for ``OTHER``."""
        return ("", "reading the grammar", "accepting a token", "in apply")[self]


class SharedStage:
    """The byte, on the parent's side; the child gets the file descriptor ``fd``."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("stage")
        os.truncate(self.fd, 1)
        self._byte = mmap.mmap(self.fd, 1)

    def read(self) -> Stage:
        """What the child is, or was last, in."""
        return Stage(self._byte[0]) if self._byte[0] in set(Stage) else Stage.OTHER

    def close(self) -> None:
        """Give the memory back."""
        if not self._byte.closed:
            self._byte.close()
            os.close(self.fd)


_byte: mmap.mmap | None = None


def share(fd: int) -> None:
    """Called once in the child: what ``during`` says from now on is seen by the parent."""
    global _byte
    _byte = mmap.mmap(fd, 1)


@contextmanager
def during(stage: Stage) -> Iterator[None]:
    """Say that the library is in a call while the block runs; for handlers."""
    if _byte is not None:
        _byte[0] = stage
    try:
        yield
    finally:
        if _byte is not None:
            _byte[0] = Stage.OTHER
