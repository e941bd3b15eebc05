"""Hypothesis strategies for grammars, and small vocabularies to hold masks against definitions."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from oracle.vocabulary import TokenKind, Vocabulary
from tracker.audits.engines.drawing import CHARACTERS, Shape, draw_rules
from tracker.audits.engines.expressions import Rules

AWKWARD_PIECES = (
    b"",
    b"ab",
    b"abc",
    b"aa",
    b"bca",
    b"\x00a",
    b"a\x00",
    b"\xc3\xa9",
    b"\xc3\xa9a",
    b"a\xc3",
    b"\xa9a",
    b"\xa9\xc3",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xe4\xb8",
    b"\xb8\x96",
    b"\x96a",
    b"\xe4\xb8\x96\xe4\xb8",
    b"\xe4a",
    b"\xed\xa0\x80",
    b"\xed\x9f\xbf",
    b"\xef\xbf\xbfa",
    b"\xf0\x84\xb8\x96",
    b"\xf0\x9f\x98\x80",
    b"\xf0\x9f",
    b"\x98\x80",
    b"\x9f\x98",
    b"\xf4\x8f\xbf\xbf",
    b"\xf4\x90",
    b"aa",
)
"""Tokens of several bytes that cut characters, join them, repeat one another or are no UTF-8 at all."""


def vocabulary_of(pieces: list[bytes], end_tokens: frozenset[int] = frozenset()) -> Vocabulary:
    kinds = np.full(len(pieces), TokenKind.NORMAL, dtype=np.uint8)
    return Vocabulary(tuple(pieces), kinds, end_tokens)


def small_vocabulary() -> Vocabulary:
    """Every single byte (id = byte), the awkward pieces, and an end-of-generation token at the end."""
    pieces = [bytes([byte]) for byte in range(256)] + list(AWKWARD_PIECES) + [b"<end>"]
    return vocabulary_of(pieces, frozenset({len(pieces) - 1}))


class Drawn:
    """Decisions made by hypothesis, which shrinks them."""

    def __init__(self, draw: st.DrawFn):
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))


@st.composite
def grammars(
    draw: st.DrawFn,
    recursive: bool = True,
    tokens: tuple[int, ...] = (),
    characters: str = CHARACTERS,
    rules: int = 3,
    depth: int = 2,
) -> Rules:
    shape = Shape(recursive, rules, depth, tokens, characters)
    return draw_rules(Drawn(draw), shape)


def texts_over(characters: str, longest: int) -> st.SearchStrategy[bytes]:
    """Byte strings: whole characters, sometimes cut off or spoiled at the end."""
    whole = st.text(st.sampled_from(characters), max_size=longest).map(str.encode)
    cut = st.tuples(whole, st.sampled_from(characters), st.integers(1, 3)).map(
        lambda parts: parts[0] + parts[1].encode()[: parts[2]]
    )
    spoiled = st.tuples(whole, st.binary(min_size=1, max_size=2)).map(lambda parts: parts[0] + parts[1])
    return st.one_of(whole, cut, spoiled)
