"""Makes a file smaller, or more like its seed, while something stays true of it.

It knows bytes and the layout of the seed; what has to stay true is a question it is given. All candidates of
a round are asked in one go, because a reader that dies has to be started again for every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from tracker.audits.gguf.writer import Field, FieldKind, Layout

FirstTrue: TypeAlias = Callable[[Sequence[bytes]], int | None]
"""The index of the first candidate of which it is still true, or None."""

_TENSOR_COUNT_AT, _KV_COUNT_AT = 8, 16


def minimised(data: bytes, layout: Layout, first_true: FirstTrue, rounds: int = 40) -> bytes:
    """A file no longer than ``data``, reached in at most ``rounds`` steps; deterministic.

    First as many fields as possible get the seed's bytes again, then whole key-value pairs and tensors go,
    then any runs of bytes.
    """
    for candidates in (_restored, _without_owner, _without_run):
        while rounds > 0:
            rounds -= 1
            tried = [candidate for candidate in candidates(data, layout) if candidate != data]
            found = first_true(tried) if tried else None
            if found is None:
                break
            data = tried[found]
    return data


def broken_fields(data: bytes, layout: Layout) -> tuple[Field, ...]:
    """The seed's fields whose bytes differ in ``data``; the first missing one, where it is shorter."""
    broken = [
        field
        for field in layout.fields
        if field.offset < len(data) and _bytes(field, layout.data) != _bytes(field, data)
    ]
    if len(data) < len(layout.data) and not broken:
        broken.append(layout.at(len(data)))
    return tuple(broken)


def _bytes(field: Field, data: bytes) -> bytes:
    return data[field.offset : field.offset + field.size]


def _restored(data: bytes, layout: Layout) -> Iterator[bytes]:
    """Half, a quarter, ... of the broken fields as in the seed. For files of the seed's length only."""
    if len(data) != len(layout.data):
        return
    fields = [field for field in layout.fields if _bytes(field, data) != _bytes(field, layout.data)]
    width = len(fields)
    while width > 1:
        width = (width + 1) // 2
        for start in range(0, len(fields), width):
            restored = bytearray(data)
            for field in fields[start : start + width]:
                restored[field.offset : field.offset + field.size] = _bytes(field, layout.data)
            yield bytes(restored)


def _without_owner(data: bytes, layout: Layout) -> Iterator[bytes]:
    """Without one key-value pair or tensor, wherever the seed's bytes around it are still in place.

    Works on a file from which others have gone already: an owner is found by the bytes of its name.
    """
    owners = dict.fromkeys(field.owner for field in layout.fields if field.owner != "header")
    for owner in owners:
        fields = [field for field in layout.fields if field.owner == owner]
        is_tensor = fields[0].kind is FieldKind.NAME_LENGTH
        directory = [field for field in fields if field.kind not in (FieldKind.DATA, FieldKind.PADDING)]
        start = data.find(_bytes(directory[0], layout.data) + _bytes(directory[1], layout.data))
        count_at = _TENSOR_COUNT_AT if is_tensor else _KV_COUNT_AT
        count = int.from_bytes(data[count_at : count_at + 8], "little")
        if start < 0 or count == 0:
            continue
        stop = start + sum(field.size for field in directory)
        smaller = bytearray(data[:start] + data[stop:])
        smaller[count_at : count_at + 8] = (count - 1).to_bytes(8, "little")
        yield bytes(smaller)


def _without_run(data: bytes, layout: Layout) -> Iterator[bytes]:
    width = len(data)
    while width > 1:
        width = (width + 1) // 2
        for start in range(0, len(data), width):
            yield data[:start] + data[start + width :]
