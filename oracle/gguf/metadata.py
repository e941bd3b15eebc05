"""Reads the key-value pairs of a file and checks those two that reading depends on.

Invariant: an array is allocated only after its length was compared with the bytes that are left. It knows
nothing of what values mean, but for the alignment of tensors and the range of token types.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from oracle.gguf.cursor import Cursor
from oracle.gguf.directory import Content, StringArray, Value
from oracle.gguf.errors import Rule, shown
from oracle.gguf.formats import (
    ALIGNMENT_KEY,
    ARRAY_DTYPE,
    DEFAULT_ALIGNMENT,
    MAX_KEY_BYTES,
    MIN_VALUE_BYTES,
    SCALAR_FORMAT,
    TOKEN_TYPE_KEY,
    ValueType,
)

MAX_STRINGS = 2**24
"""In all arrays of a file together: 128 MiB of index."""

_INT32 = np.iinfo(np.int32)
_LENGTH = struct.Struct("<Q")


def read_metadata(cursor: Cursor, count: int) -> dict[str, Value]:
    """The next ``count`` key-value pairs. GGUFError when one of them breaks a rule."""
    metadata: dict[str, Value] = {}
    strings_left = MAX_STRINGS
    for i in range(count):
        start = cursor.at
        raw = cursor.string(f"key {i}", MAX_KEY_BYTES, Rule.KEY_LONG).tobytes()
        if not raw:
            raise cursor.error(Rule.KEY_EMPTY, start, f"key {i} is empty")
        if b"\0" in raw:
            at = start + _LENGTH.size + raw.index(0)
            raise cursor.error(Rule.KEY_NUL, at, f"key {shown(raw)} has a NUL in it")
        try:
            key = raw.decode()
        except UnicodeDecodeError as error:
            at = start + _LENGTH.size + error.start
            raise cursor.error(Rule.KEY_UTF8, at, f"key {shown(raw)} is not UTF-8") from error
        if key in metadata:
            raise cursor.error(Rule.KEY_DUPLICATE, start, f"key {shown(raw)} is there twice")
        metadata[key] = value = _value(cursor, shown(raw), strings_left)
        if isinstance(value.content, StringArray):
            strings_left -= len(value.content)
    return metadata


def alignment_of(cursor: Cursor, metadata: Mapping[str, Value]) -> int:
    """The alignment of tensors, in bytes. GGUFError when it is no power of two or no uint32."""
    value = metadata.get(ALIGNMENT_KEY)
    if value is None:
        return DEFAULT_ALIGNMENT
    if value.type is not ValueType.UINT32 or not isinstance(value.content, int):
        raise cursor.error(
            Rule.ALIGNMENT_TYPE, value.offset, f"the alignment is {value.type.name} and not UINT32"
        )
    if value.content.bit_count() != 1:
        raise cursor.error(
            Rule.ALIGNMENT, value.offset, f"the alignment {value.content} is not a power of two"
        )
    return value.content


def check_token_types(cursor: Cursor, metadata: Mapping[str, Value]) -> None:
    """Refuse token types that are not integers of 32 bits: readers convert them without a check."""
    value = metadata.get(TOKEN_TYPE_KEY)
    if value is None:
        return
    types = value.content
    if not isinstance(types, np.ndarray) or types.dtype.kind not in "iu":
        raise cursor.error(Rule.TOKEN_TYPE, value.offset, "the token types are not an array of integers")
    if len(types) and not (_INT32.min <= int(types.min()) and int(types.max()) <= _INT32.max):
        raise cursor.error(Rule.TOKEN_TYPE, value.offset, "a token type is outside int32")


def _value(cursor: Cursor, key: str, strings_left: int) -> Value:
    kind = _value_type(cursor, key)
    start = cursor.at
    if kind is ValueType.STRING:
        return Value(kind, None, start, cursor.string(key, cursor.left, Rule.LENGTH))
    if kind is not ValueType.ARRAY:
        return Value(kind, None, start, _scalar(cursor, kind, key))
    element = _value_type(cursor, key)
    if element is ValueType.ARRAY:
        raise cursor.error(Rule.NESTED_ARRAY, cursor.at - 4, f"{key} is an array of arrays")
    count_at = cursor.at
    count = cursor.number("<Q", f"the length of {key}")
    if count > cursor.left // MIN_VALUE_BYTES[element]:
        least = MIN_VALUE_BYTES[element]
        raise cursor.error(
            Rule.ARRAY_LENGTH,
            count_at,
            f"{key} has {count} elements of {least} bytes or more, {cursor.left} bytes are left",
        )
    if element is not ValueType.STRING:
        return Value(kind, element, start, _numbers(cursor, element, count, key))
    if count > strings_left:
        raise cursor.error(
            Rule.LIMIT,
            count_at,
            f"{key} has {count} strings, {strings_left} are left of {MAX_STRINGS} a file",
        )
    return Value(kind, element, start, _strings(cursor, count, key))


def _value_type(cursor: Cursor, key: str) -> ValueType:
    start = cursor.at
    number = cursor.number("<I", f"the type of {key}")
    if number >= len(ValueType):
        raise cursor.error(Rule.VALUE_TYPE, start, f"{key} has the unknown type {number}")
    return ValueType(number)


def _scalar(cursor: Cursor, kind: ValueType, key: str) -> int | float | bool:
    start = cursor.at
    form = SCALAR_FORMAT[kind]
    content: int | float = struct.unpack(form, cursor.take(struct.calcsize(form), key))[0]
    if kind is not ValueType.BOOL:
        return content
    if content > 1:
        raise cursor.error(Rule.BOOL, start, f"{key} is {content} and not 0 or 1")
    return bool(content)


def _numbers(cursor: Cursor, element: ValueType, count: int, key: str) -> Content:
    start = cursor.at
    dtype = np.dtype(ARRAY_DTYPE[element])
    numbers: npt.NDArray[np.generic] = np.frombuffer(cursor.take(count * dtype.itemsize, key), dtype)
    if element is not ValueType.BOOL:
        return numbers
    if count and int(numbers.view(np.uint8).max()) > 1:
        raise cursor.error(Rule.BOOL, start, f"{key} has an element that is not 0 or 1")
    return numbers.view(np.bool_)


def _strings(cursor: Cursor, count: int, key: str) -> StringArray:
    # A loop over 150,000 strings; attribute look-ups and calls inside it would triple its time.
    starts = np.empty(count + 1, np.uint64)
    buffer, size, at = cursor.buffer, len(cursor.buffer), cursor.at
    unpack = _LENGTH.unpack_from
    for i in range(count):
        if size - at < 8:
            raise cursor.error(Rule.TRUNCATED, at, f"the file ends inside the length of string {i} of {key}")
        length = unpack(buffer, at)[0]
        at += 8
        if length > size - at:
            raise cursor.error(
                Rule.LENGTH,
                at - 8,
                f"string {i} of {key} has {length} bytes, {size - at} are left in the file",
            )
        starts[i] = at
        at += length
    starts[count] = at + 8
    cursor.at = at
    return StringArray(buffer, starts)
