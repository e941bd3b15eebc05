"""The frames that parent and child exchange: a JSON header and raw bytes, each with its length in front.

A frame is a little-endian u32 (length of the header), a u64 (length of the payload), the header as UTF-8
JSON, and the payload. Nothing in a frame can name code to run. Knows file descriptors and deadlines, no
meaning.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import Any

_LENGTHS = struct.Struct("<IQ")
MAXIMUM_HEADER = 16 << 20
MAXIMUM_PAYLOAD = 256 << 20


class Closed(Exception):
    """The other side closed the pipe, at a frame's boundary or inside a frame."""


class Malformed(Exception):
    """What came is no frame."""


class DeadlinePassed(Exception):
    """The deadline passed before the frame was whole."""


def write_frame(fd: int, header: dict[str, Any], payload: bytes = b"", deadline: float | None = None) -> None:
    """Write one frame. ``deadline`` is on the monotonic clock; with one, ``fd`` has to be non-blocking."""
    head = json.dumps(header, separators=(",", ":")).encode()
    for part in (_LENGTHS.pack(len(head), len(payload)) + head, payload):
        view = memoryview(part)
        while view:
            _wait(fd, select.POLLOUT, deadline)
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise Closed from None


def read_frame(fd: int, deadline: float | None = None) -> tuple[dict[str, Any], bytes]:
    """Read one frame; raises Closed, Malformed, and DeadlinePassed when a deadline is given."""
    head_length, payload_length = _LENGTHS.unpack(_read_exactly(fd, _LENGTHS.size, deadline))
    if head_length > MAXIMUM_HEADER or payload_length > MAXIMUM_PAYLOAD:
        raise Malformed(f"a frame of {head_length} + {payload_length} bytes")
    try:
        header = json.loads(_read_exactly(fd, head_length, deadline))
    except ValueError:
        raise Malformed("a header that is no JSON") from None
    if not isinstance(header, dict):
        raise Malformed("a header that is no JSON object")
    return header, bytes(_read_exactly(fd, payload_length, deadline))


def _read_exactly(fd: int, count: int, deadline: float | None) -> bytearray:
    # Grown as bytes arrive: the length comes from the other side and is not believed in advance.
    data = bytearray()
    while len(data) < count:
        _wait(fd, select.POLLIN, deadline)
        try:
            chunk = os.read(fd, min(count - len(data), 1 << 20))
        except BlockingIOError:
            continue
        if not chunk:
            raise Closed
        data += chunk
    return data


def _wait(fd: int, event: int, deadline: float | None) -> None:
    if deadline is None:
        return
    poll = select.poll()
    poll.register(fd, event)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeadlinePassed
        if poll.poll(min(left, 3600.0) * 1000):
            return
