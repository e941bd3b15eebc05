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


def restored(data: bytes, layout: Layout, first_true: FirstTrue) -> bytes:
    """A file in which as many fields as possible have the seed's bytes again; deterministic."""
    return _reduced(data, first_true, lambda current: _restored(current, layout))


def minimised(data: bytes, layout: Layout, first_true: FirstTrue) -> bytes:
    """A shorter file: first whole key-value pairs and tensors go, then any runs of bytes; deterministic."""
    data = _reduced(data, first_true, lambda current: _without_owner(current, layout))
    width = len(data)
    while width > 1:
        width = (width + 1) // 2
        data = _without_runs(data, first_true, width)
    return data


def _reduced(data: bytes, first_true: FirstTrue, candidates: Callable[[bytes], Iterator[bytes]]) -> bytes:
    """Take the first candidate that will do, again and again; each is smaller, or nearer to the seed."""
    while True:
        tried = [candidate for candidate in candidates(data) if candidate != data]
        found = first_true(tried) if tried else None
        if found is None:
            return data
        data = tried[found]


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
    """Without one key-value pair or tensor; tensors behind it move up, so that no gap is left.

    Works on a file from which others have gone already: an owner is found by its name as the seed has it.
    """
    owners = dict.fromkeys(field.owner for field in layout.fields if field.owner != "header")
    for owner in owners:
        directory = _directory(owner, layout)
        start = _find(data, directory, layout)
        is_tensor = directory[0].kind is FieldKind.NAME_LENGTH
        count_at = _TENSOR_COUNT_AT if is_tensor else _KV_COUNT_AT
        count = int.from_bytes(data[count_at : count_at + 8], "little")
        if start is None or count == 0:
            continue
        smaller = bytearray(data[:start] + data[start + sum(field.size for field in directory) :])
        smaller[count_at : count_at + 8] = (count - 1).to_bytes(8, "little")
        if is_tensor:
            _move_up(smaller, layout, layout.field(f"{owner}:offset"))
        yield bytes(smaller)


def _directory(owner: str, layout: Layout) -> list[Field]:
    return [
        field
        for field in layout.fields
        if field.owner == owner and field.kind not in (FieldKind.DATA, FieldKind.PADDING)
    ]


def _find(data: bytes | bytearray, directory: list[Field], layout: Layout) -> int | None:
    """Where an owner's entry begins in ``data``: a length and a name."""
    at = data.find(_bytes(directory[0], layout.data) + _bytes(directory[1], layout.data))
    return at if at >= 0 else None


def _move_up(data: bytearray, layout: Layout, gone: Field) -> None:
    """Lower the offsets of the tensors behind one that is gone by the room it had."""
    old = {
        field.owner: _number(field, layout.data) for field in layout.fields if field.kind is FieldKind.OFFSET
    }
    behind = [owner for owner, offset in old.items() if offset > old[gone.owner]]
    if not behind:
        return
    room = old[behind[0]] - old[gone.owner]
    for owner in behind:
        directory = _directory(owner, layout)
        start = _find(data, directory, layout)
        if start is not None:
            at = start + directory[-1].offset - directory[0].offset
            offset = int.from_bytes(data[at : at + 8], "little")
            data[at : at + 8] = ((offset - room) % 2**64).to_bytes(8, "little")[: len(data) - at]


def _number(field: Field, data: bytes) -> int:
    return int.from_bytes(_bytes(field, data), "little")


def _without_runs(data: bytes, first_true: FirstTrue, width: int) -> bytes:
    """Without as many runs of ``width`` bytes as possible, each tried once, from the front."""
    at = 0
    while at < len(data):
        tried = [data[:start] + data[start + width :] for start in range(at, len(data), width)]
        found = first_true(tried)
        if found is None:
            break
        at += found * width
        data = tried[found]
    return data
