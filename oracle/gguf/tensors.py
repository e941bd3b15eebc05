"""Reads the tensors' directory and checks where their bytes are against the file.

Python's integers do not wrap around, so an offset near 2^64 plus a size is what it is; the checks rely on it.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from oracle.gguf.cursor import Cursor
from oracle.gguf.directory import TensorInfo
from oracle.gguf.errors import Rule, shown
from oracle.gguf.formats import BLOCK, MAX_NAME_BYTES, MAX_RANK, GGMLType

_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Descriptor:
    """A tensor as the directory has it: at ``relative`` in the data section, as said at ``offset_at``."""

    name: str
    shape: tuple[int, ...]
    type: GGMLType
    relative: int
    offset_at: int


def read_tensors(cursor: Cursor, count: int, alignment: int) -> tuple[list[TensorInfo], int]:
    """The next ``count`` tensors and the offset of the data section. GGUFError when one breaks a rule."""
    descriptors: dict[str, _Descriptor] = {}
    for i in range(count):
        start = cursor.at
        name = _name(cursor, i)
        if name in descriptors:
            raise cursor.error(Rule.NAME_DUPLICATE, start, f"two tensors have the name {name!a}")
        descriptors[name] = _descriptor(cursor, name, alignment)
    data_offset = round_up(cursor.at, alignment)
    placed = [_placed(cursor, descriptor, data_offset) for descriptor in descriptors.values()]
    _check_overlap(cursor, placed, list(descriptors.values()))
    return placed, data_offset


def round_up(offset: int, alignment: int) -> int:
    """The next multiple of ``alignment``."""
    return -(-offset // alignment) * alignment


def contiguous(tensors: Sequence[TensorInfo], data_offset: int, alignment: int) -> bool:
    """Whether tensors lie in the order of the directory, with nothing but padding between them."""
    following = data_offset
    for tensor in tensors:
        if tensor.offset != following:
            return False
        following = round_up(tensor.offset + tensor.nbytes, alignment)
    return True


def _name(cursor: Cursor, i: int) -> str:
    start = cursor.at
    raw = cursor.string(f"the name of tensor {i}", MAX_NAME_BYTES, Rule.NAME_LONG).tobytes()
    if b"\0" in raw:
        at = start + 8 + raw.index(0)
        raise cursor.error(Rule.NAME_NUL, at, f"the name {shown(raw)} has a NUL in it")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        at = start + 8 + error.start
        raise cursor.error(Rule.NAME_UTF8, at, f"the name {shown(raw)} is not UTF-8") from error


def _descriptor(cursor: Cursor, name: str, alignment: int) -> _Descriptor:
    shape = _shape(cursor, name)
    type_at = cursor.at
    number = cursor.number("<I", f"the type of tensor {name!a}")
    try:
        kind = GGMLType(number)
    except ValueError as error:
        what = f"tensor {name!a} has the unknown type {number}"
        raise cursor.error(Rule.TENSOR_TYPE, type_at, what) from error
    if shape[0] % BLOCK[kind][0]:
        raise cursor.error(
            Rule.BLOCK,
            type_at,
            f"tensor {name!a} has rows of {shape[0]}, {kind.name} comes in blocks of {BLOCK[kind][0]}",
        )
    offset_at = cursor.at
    relative = cursor.number("<Q", f"the offset of tensor {name!a}")
    if relative % alignment:
        raise cursor.error(
            Rule.OFFSET_ALIGNMENT,
            offset_at,
            f"the offset {relative} of tensor {name!a} is not aligned to {alignment}",
        )
    return _Descriptor(name, shape, kind, relative, offset_at)


def _shape(cursor: Cursor, name: str) -> tuple[int, ...]:
    start = cursor.at
    rank = cursor.number("<I", f"the rank of tensor {name!a}")
    if rank > MAX_RANK:
        raise cursor.error(Rule.RANK, start, f"tensor {name!a} has {rank} dimensions, {MAX_RANK} are allowed")
    if rank == 0:
        raise cursor.error(Rule.RANK_ZERO, start, f"tensor {name!a} has no dimensions")
    shape: tuple[int, ...] = struct.unpack(
        f"<{rank}Q", cursor.take(8 * rank, f"the shape of tensor {name!a}")
    )
    # A zero must not hide an overflow of the others: readers multiply in any order.
    if math.prod(max(dimension, 1) for dimension in shape) > _INT64_MAX:
        raise cursor.error(
            Rule.DIMENSION_RANGE, start + 4, f"tensor {name!a} has more elements than int64 counts"
        )
    if 0 in shape:
        raise cursor.error(Rule.DIMENSION_ZERO, start + 4, f"tensor {name!a} has a dimension of 0")
    return shape


def _placed(cursor: Cursor, descriptor: _Descriptor, data_offset: int) -> TensorInfo:
    per_block, block_bytes = BLOCK[descriptor.type]
    tensor = TensorInfo(
        name=descriptor.name,
        shape=descriptor.shape,
        type=descriptor.type,
        offset=data_offset + descriptor.relative,
        nbytes=math.prod(descriptor.shape) // per_block * block_bytes,
    )
    if tensor.offset + tensor.nbytes > len(cursor.buffer):
        raise cursor.error(
            Rule.EXTENT,
            descriptor.offset_at,
            f"tensor {tensor.name!a} takes {tensor.nbytes} bytes from byte {tensor.offset}, "
            f"the file has {len(cursor.buffer)}",
        )
    return tensor


def _check_overlap(cursor: Cursor, placed: list[TensorInfo], descriptors: list[_Descriptor]) -> None:
    in_order = sorted(range(len(placed)), key=lambda i: placed[i].offset)
    for one, other in itertools.pairwise(in_order):
        if placed[one].offset + placed[one].nbytes > placed[other].offset:
            raise cursor.error(
                Rule.OVERLAP,
                descriptors[other].offset_at,
                f"tensors {placed[one].name!a} and {placed[other].name!a} share bytes",
            )
