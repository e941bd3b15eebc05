"""Code point ranges and their UTF-8 byte ranges; where and why a byte string is ill-formed.

Source: The Unicode Standard, section 3.9, table 3-7 (well-formed UTF-8 byte sequences). Scalar values are
U+0000..U+D7FF and U+E000..U+10FFFF; nothing else has an encoding. This module knows bytes and numbers, no
grammars and no tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from oracle import OracleError

CodePointRange = tuple[int, int]
"""First and last code point, both inclusive."""

ByteRange = tuple[int, int]
"""First and last byte value, both inclusive."""

SURROGATES: CodePointRange = (0xD800, 0xDFFF)
LAST_CODE_POINT = 0x10FFFF
SCALAR_VALUES: tuple[CodePointRange, ...] = ((0, SURROGATES[0] - 1), (SURROGATES[1] + 1, LAST_CODE_POINT))

_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, LAST_CODE_POINT)
"""Largest code point that takes one, two, three and four bytes."""


class Offence(StrEnum):
    """Why bytes stop being well-formed UTF-8."""

    OVERLONG = "overlong"
    SURROGATE = "surrogate"
    BEYOND_UNICODE = "beyond-unicode"
    INVALID_LEAD = "invalid-lead"
    STRAY_CONTINUATION = "stray-continuation"
    BROKEN_SEQUENCE = "broken-sequence"


class Scan(NamedTuple):
    """What scanning a byte string found.

    ``offence`` is None for a string that is well-formed or can still become so; ``offset`` is then the length
    of the string, else the offset of the first byte that no well-formed string has there. ``pending`` counts
    the continuation bytes that are still missing at the end (0 after an offence).
    """

    offence: Offence | None
    offset: int
    pending: int


def normalise(ranges: Iterable[CodePointRange]) -> tuple[CodePointRange, ...]:
    """Sort, merge and clip ranges to scalar values: the canonical form of a set of code points.

    Raises:
        OracleError: a range's end lies before its start.
    """
    merged: list[list[int]] = []
    for low, high in sorted(ranges):
        if high < low:
            raise OracleError(f"reversed range U+{low:04X}-U+{high:04X}: put the smaller code point first")
        if merged and low <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    clipped = (
        (max(low, first), min(high, last))
        for low, high in merged
        for first, last in SCALAR_VALUES
        if max(low, first) <= min(high, last)
    )
    return tuple(clipped)


def complement(ranges: Iterable[CodePointRange]) -> tuple[CodePointRange, ...]:
    """All scalar values that are in none of the ranges, in canonical form."""
    gaps: list[CodePointRange] = []
    begin = 0
    for low, high in normalise(ranges):
        if begin < low:
            gaps.append((begin, low - 1))
        begin = high + 1
    gaps.append((begin, LAST_CODE_POINT))
    return normalise(gap for gap in gaps if gap[0] <= gap[1])


def byte_ranges(ranges: Iterable[CodePointRange]) -> tuple[tuple[ByteRange, ...], ...]:
    """Sequences of byte ranges that match exactly the encodings of the given code points.

    Each result is a sequence of one to four byte ranges; a byte string is an encoding of a member iff one of
    the sequences matches it byte by byte. The sequences are disjoint and sorted. Code points are never
    enumerated.
    """
    found: list[tuple[ByteRange, ...]] = []
    for low, high in normalise(ranges):
        first = low
        for last in _LAST_OF_LENGTH:
            if first <= min(high, last):
                found.extend(_split(first, min(high, last)))
                first = min(high, last) + 1
    return tuple(sorted(found))


def _split(low: int, high: int) -> list[tuple[ByteRange, ...]]:
    """Byte ranges of code points that all take the same number of bytes.

    Cuts where a suffix of continuation bytes does not run over its full 80..BF, so that what is left is a
    product of ranges.
    """
    todo = [(low, high)]
    done: list[tuple[ByteRange, ...]] = []
    while todo:
        low, high = todo.pop()
        for size in range(1, len(chr(low).encode())):
            tail = (1 << (6 * size)) - 1
            if low & ~tail == high & ~tail:
                continue
            if low & tail:
                todo += [(low, low | tail), ((low | tail) + 1, high)]
                break
            if high & tail != tail:
                todo += [(low, (high & ~tail) - 1), (high & ~tail, high)]
                break
        else:
            done.append(tuple(zip(chr(low).encode(), chr(high).encode(), strict=True)))
    return done


def scan(data: bytes | Sequence[int]) -> Scan:
    """Scan bytes for the first offence against well-formed UTF-8 (a cut-off sequence at the end is none)."""
    position, size = 0, len(data)
    while position < size:
        lead = data[position]
        if lead < 0x80:
            position += 1
            continue
        if lead < 0xC0:
            return Scan(Offence.STRAY_CONTINUATION, position, 0)
        if lead < 0xC2:
            return Scan(Offence.OVERLONG, position, 0)
        if lead >= 0xF8:
            return Scan(Offence.INVALID_LEAD, position, 0)
        if lead >= 0xF5:
            return Scan(Offence.BEYOND_UNICODE, position, 0)
        length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        for index in range(1, length):
            if position + index >= size:
                return Scan(None, size, length - index)
            byte = data[position + index]
            if not 0x80 <= byte <= 0xBF:
                return Scan(Offence.BROKEN_SEQUENCE, position + index, 0)
            if index == 1:
                offence = _second_byte_offence(lead, byte)
                if offence is not None:
                    return Scan(offence, position + index, 0)
        position += length
    return Scan(None, size, 0)


def _second_byte_offence(lead: int, second: int) -> Offence | None:
    """What is wrong with a continuation byte behind this lead, by table 3-7."""
    if (lead == 0xE0 and second < 0xA0) or (lead == 0xF0 and second < 0x90):
        return Offence.OVERLONG
    if lead == 0xED and second >= 0xA0:
        return Offence.SURROGATE
    if lead == 0xF4 and second >= 0x90:
        return Offence.BEYOND_UNICODE
    return None
