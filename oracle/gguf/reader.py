"""Reads a GGUF file that may be hostile: every count, length and offset is checked before it is used.

Invariants: nothing is allocated in proportion to a number from the file before that number was compared with
the bytes that are left; the file is mapped and tensor data never copied; the only exception is ``GGUFError``.
Absolute limits come on top of the format's own rules, so that an 18 GiB file does not become as much memory.
"""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path

from oracle.gguf.cursor import Cursor
from oracle.gguf.directory import GGUFFile
from oracle.gguf.errors import GGUFError, Rule
from oracle.gguf.formats import MAGIC, MIN_KEY_VALUE_BYTES, MIN_TENSOR_BYTES, VERSIONS
from oracle.gguf.metadata import alignment_of, check_token_types, read_metadata
from oracle.gguf.tensors import contiguous, read_tensors

MAX_KEY_VALUES = 2**16
MAX_TENSORS = 2**18


def read_gguf(path: str | os.PathLike[str]) -> GGUFFile:
    """Map ``path`` and check all of it but the contents of tensors.

    Raises:
        GGUFError: the file cannot be opened or mapped, or breaks a rule; with the byte offset.
    """
    source = Path(path).name.encode("ascii", "backslashreplace").decode()
    try:
        # Without O_NONBLOCK, opening a FIFO waits for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise GGUFError(Rule.UNREADABLE, "this is not a regular file", offset=None, source=source)
            if status.st_size == 0:
                raise GGUFError(Rule.TRUNCATED, "the file is empty", offset=0, source=source)
            mapped = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
    except (OSError, ValueError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise GGUFError(Rule.UNREADABLE, reason, offset=None, source=source) from error
    return parse_gguf(mapped, source=source)


def parse_gguf(data: bytes | mmap.mmap | memoryview, *, source: str = "<memory>") -> GGUFFile:
    """Check a whole file that is already in memory; ``source`` names it in errors.

    Raises:
        GGUFError: the file breaks a rule; with the byte offset.
    """
    cursor = Cursor(memoryview(data).toreadonly(), source)
    if cursor.take(4, "the magic bytes").tobytes() != MAGIC:
        raise cursor.error(Rule.MAGIC, 0, "this does not start with GGUF")
    version = cursor.number("<I", "the version")
    if version not in VERSIONS:
        big_endian = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        what = "the file is big-endian" if big_endian else f"version {version} is neither 2 nor 3"
        raise cursor.error(Rule.VERSION, 4, what)
    n_tensors = cursor.number("<Q", "the number of tensors")
    n_values = cursor.number("<Q", "the number of key-value pairs")
    _check_count(cursor, n_tensors, MIN_TENSOR_BYTES, MAX_TENSORS, 8, "tensors")
    _check_count(cursor, n_values, MIN_KEY_VALUE_BYTES, MAX_KEY_VALUES, 16, "key-value pairs")
    metadata = read_metadata(cursor, n_values)
    alignment = alignment_of(cursor, metadata)
    check_token_types(cursor, metadata)
    tensors, data_offset = read_tensors(cursor, n_tensors, alignment)
    return GGUFFile(
        source=source,
        version=version,
        alignment=alignment,
        metadata=metadata,
        tensors={tensor.name: tensor for tensor in tensors},
        data_offset=data_offset,
        nbytes=len(cursor.buffer),
        contiguous=contiguous(tensors, data_offset, alignment),
        buffer=cursor.buffer,
    )


def _check_count(cursor: Cursor, count: int, least: int, limit: int, offset: int, what: str) -> None:
    if count > cursor.left // least:
        raise cursor.error(
            Rule.COUNT, offset, f"{count} {what} take {count * least} bytes or more, {cursor.left} are left"
        )
    if count > limit:
        raise cursor.error(Rule.LIMIT, offset, f"{count} {what} are more than the limit of {limit}")
