"""UTF-8: every scalar value, every short string, and classes at any bounds, held against Python's codec."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracle import OracleError, utf8
from oracle.utf8 import Offence, Scan

SCALARS = np.array([*range(0xD800), *range(0xE000, 0x110000)], dtype=np.uint32)


def encodings() -> dict[int, np.ndarray]:
    """All scalar values by the codec: number of bytes to an array of shape (count, bytes)."""
    found = {}
    for size, (low, high) in {
        1: (0, 0x80),
        2: (0x80, 0x800),
        3: (0x800, 0x10000),
        4: (0x10000, 0x110000),
    }.items():
        text = "".join(chr(c) for c in range(low, high) if not 0xD800 <= c < 0xE000)
        found[size] = np.frombuffer(text.encode("utf-8"), dtype=np.uint8).reshape(-1, size)
    return found


@pytest.fixture(scope="module")
def encoded() -> dict[int, np.ndarray]:
    return encodings()


def matching(sequences: tuple[tuple[tuple[int, int], ...], ...], encoded: np.ndarray) -> np.ndarray:
    """How many of the byte range sequences match each encoding: int array of shape (count,)."""
    hits = np.zeros(len(encoded), dtype=int)
    for sequence in sequences:
        if len(sequence) == encoded.shape[1]:
            inside = np.ones(len(encoded), dtype=bool)
            for index, (low, high) in enumerate(sequence):
                inside &= (encoded[:, index] >= low) & (encoded[:, index] <= high)
            hits += inside
    return hits


def size_of(sequence: tuple[tuple[int, int], ...]) -> int:
    """Number of byte strings that a sequence of ranges matches."""
    return int(np.prod([high - low + 1 for low, high in sequence], dtype=np.int64))


def test_the_scalar_values_are_1112064():
    assert sum(high - low + 1 for low, high in utf8.SCALAR_VALUES) == 1_112_064 == len(SCALARS)


def test_every_scalar_value_has_exactly_one_sequence_and_nothing_else_has(encoded):
    sequences = utf8.byte_ranges(utf8.SCALAR_VALUES)
    for size in range(1, 5):
        assert (matching(sequences, encoded[size]) == 1).all()
    assert sum(map(size_of, sequences)) == len(SCALARS)


def test_the_ranges_of_all_scalar_values_are_the_nine_rows_of_table_3_7():
    tail = (0x80, 0xBF)
    assert utf8.byte_ranges(utf8.SCALAR_VALUES) == (
        ((0x00, 0x7F),),
        ((0xC2, 0xDF), tail),
        ((0xE0, 0xE0), (0xA0, 0xBF), tail),
        ((0xE1, 0xEC), tail, tail),
        ((0xED, 0xED), (0x80, 0x9F), tail),
        ((0xEE, 0xEF), tail, tail),
        ((0xF0, 0xF0), (0x90, 0xBF), tail, tail),
        ((0xF1, 0xF3), tail, tail, tail),
        ((0xF4, 0xF4), (0x80, 0x8F), tail, tail),
    )


code_points = st.one_of(
    st.integers(0, 0x10FFFF),
    st.sampled_from([0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]),
)
ranges = st.lists(st.tuples(code_points, code_points).map(lambda ends: (min(ends), max(ends))), max_size=4)


def members(chosen: list[tuple[int, int]], among: np.ndarray) -> np.ndarray:
    inside = np.zeros(len(among), dtype=bool)
    for low, high in chosen:
        inside |= (among >= low) & (among <= high)
    return inside


@given(ranges)
@settings(max_examples=6, deadline=None)
@example([(0xD7FF, 0xE000)])
@example([(0x7F, 0x10000)])
@example([(0xD800, 0xDFFF)])
def test_the_byte_ranges_of_a_class_match_the_encodings_of_its_members_once_each(chosen):
    sequences = utf8.byte_ranges(chosen)
    first = 0
    total = 0
    for _, encoded in sorted(ENCODED.items()):
        inside = members(chosen, SCALARS[first : first + len(encoded)])
        assert np.array_equal(matching(sequences, encoded), inside.astype(int))
        first += len(encoded)
        total += int(inside.sum())
    assert sum(map(size_of, sequences)) == total
    assert list(sequences) == sorted(sequences)


ENCODED = encodings()


@given(ranges)
@settings(max_examples=20, deadline=None)
def test_normal_form_and_complement_divide_the_scalar_values(chosen):
    normal = utf8.normalise(chosen)
    assert np.array_equal(members(list(normal), SCALARS), members(chosen, SCALARS))
    assert np.array_equal(members(list(utf8.complement(chosen)), SCALARS), ~members(chosen, SCALARS))
    for found in (normal, utf8.complement(chosen)):
        assert all(low <= high for low, high in found)
        # No two ranges touch, but for the two sides of the surrogates.
        assert all(
            high + 1 < low or (high, low) == (0xD7FF, 0xE000)
            for (_, high), (low, _) in itertools.pairwise(found)
        )


def test_a_reversed_range_is_refused_with_its_bounds():
    with pytest.raises(OracleError, match=r"U\+007A-U\+0061"):
        utf8.normalise([(ord("z"), ord("a"))])


# -- scan ----------------------------------------------------------------------------------------------------


def codec_verdict(data: bytes) -> tuple[bool, int]:
    """Whether bytes are (the beginning of) a text, and else the offset of the first impossible byte."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            return True, len(data)
        return False, error.start if error.reason == "invalid start byte" else error.end
    return True, len(data)


def test_scan_agrees_with_the_codec_on_every_string_of_one_and_two_bytes():
    for size in (1, 2):
        for data in map(bytes, itertools.product(range(256), repeat=size)):
            found = utf8.scan(data)
            assert (found.offence is None, found.offset) == codec_verdict(data), data.hex()


@pytest.mark.extended
def test_scan_agrees_with_the_codec_on_every_string_of_three_bytes():
    for data in map(bytes, itertools.product(range(256), repeat=3)):
        found = utf8.scan(data)
        assert (found.offence is None, found.offset) == codec_verdict(data), data.hex()


def test_the_byte_ranges_accept_exactly_the_three_byte_strings_that_are_texts(encoded):
    """All 16,777,216 of them; a text is encodings one after another, and the codec made the encodings."""
    texts = np.zeros((256, 256, 256), dtype=bool)
    one, two, three = (tuple(encoded[size].T) for size in (1, 2, 3))
    texts[:128, :128, :128] = True
    texts[:128, *two] = True
    texts[two[0], two[1], :128] = True
    texts[three] = True
    assert len(one[0]) == 128
    # A table made straight from the ranges: node 0 is dead, node 1 stands between characters.
    nodes: dict[tuple[tuple[tuple[int, int], ...], ...], int] = {}
    rows = [np.zeros(256, dtype=np.int16), np.zeros(256, dtype=np.int16)]
    todo = [(1, utf8.byte_ranges(utf8.SCALAR_VALUES))]
    while todo:
        node, sequences = todo.pop()
        for first in {sequence[0] for sequence in sequences}:
            tails = tuple(s[1:] for s in sequences if s[0] == first and len(s) > 1)
            if tails and tails not in nodes:
                nodes[tails] = len(rows)
                rows.append(np.zeros(256, dtype=np.int16))
                todo.append((nodes[tails], tails))
            rows[node][first[0] : first[1] + 1] = nodes[tails] if tails else 1
    step = np.stack(rows)
    assert np.array_equal(step[step[step[1]]] == 1, texts)


@given(st.binary(max_size=8))
@settings(max_examples=300)
def test_scan_agrees_with_the_codec_on_any_bytes(data):
    found = utf8.scan(data)
    assert (found.offence is None, found.offset) == codec_verdict(data)


@given(st.text(max_size=4), st.characters(min_codepoint=0x80, exclude_categories=["Cs"]), st.integers(0, 3))
def test_scan_counts_the_continuation_bytes_that_are_missing(text, last, missing):
    whole = last.encode()
    missing = min(missing, len(whole) - 1)
    data = text.encode() + whole[: len(whole) - missing]
    assert utf8.scan(data) == Scan(None, len(data), missing)


@pytest.mark.parametrize(
    ("data", "offence", "offset"),
    [
        ("80", Offence.STRAY_CONTINUATION, 0),
        ("61bf", Offence.STRAY_CONTINUATION, 1),
        ("c0", Offence.OVERLONG, 0),
        ("c1bf", Offence.OVERLONG, 0),
        ("e09f", Offence.OVERLONG, 1),
        ("f08f", Offence.OVERLONG, 1),
        ("61f084b896", Offence.OVERLONG, 2),
        ("eda0", Offence.SURROGATE, 1),
        ("edbf", Offence.SURROGATE, 1),
        ("f490", Offence.BEYOND_UNICODE, 1),
        ("f5", Offence.BEYOND_UNICODE, 0),
        ("f7", Offence.BEYOND_UNICODE, 0),
        ("f8", Offence.INVALID_LEAD, 0),
        ("ff", Offence.INVALID_LEAD, 0),
        ("c361", Offence.BROKEN_SEQUENCE, 1),
        ("e4b8c3", Offence.BROKEN_SEQUENCE, 2),
        ("f09f98ff", Offence.BROKEN_SEQUENCE, 3),
    ],
)
def test_scan_names_the_offence_as_the_audit_defines_its_causes(data, offence, offset):
    assert utf8.scan(bytes.fromhex(data)) == Scan(offence, offset, 0)
