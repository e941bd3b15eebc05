"""One state: what the oracle allows against what the build allows, token for token.

End-of-generation tokens of the build are no text: they are compared once, as "may the output end here". A
token that only its name made an end of generation (an ordinary or user-defined one) still has a text, so its
absence from the mask is a deviation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oracle.mask import Mask, Oracle
from oracle.vocabulary import TokenKind, Vocabulary
from tracker.audits.grammar.causes import cause_of_unsound, cause_of_unsound_end, missing_bytes
from tracker.results import Cause, Deviation, Kind

BoolMask = NDArray[np.bool_]

SURROGATE_LEAD = b"\xed"
LAST_LEAD = b"\xf4"

ELSEWHERE = frozenset({Cause.PARSER, Cause.TOKEN_TERMINAL, Cause.EOG_TEXT, Cause.NUL})
"""Causes that have nothing to do with the matching of partial code points, wherever they show."""


@dataclass(frozen=True, eq=False)
class Ends:
    """The build's end-of-generation tokens over one vocabulary.

    Attributes:
        all: bool array of shape (vocabulary size,).
        proper: those among them that the vocabulary marks as control tokens; they are never text.
    """

    all: BoolMask
    proper: BoolMask

    @cached_property
    def index(self) -> NDArray[np.intp]:
        """All of them by id, ascending."""
        return np.flatnonzero(self.all)

    @cached_property
    def text(self) -> BoolMask:
        """Tokens that end no generation: bool array of shape (vocabulary size,)."""
        return ~self.all

    @classmethod
    def of(cls, vocabulary: Vocabulary, eog: BoolMask) -> Ends:
        """Split the build's end-of-generation tokens by the vocabulary's kinds."""
        return cls(eog, eog & (vocabulary.kinds == TokenKind.CONTROL))

    @property
    def ids(self) -> frozenset[int]:
        """All of them by id."""
        return frozenset(self.index.tolist())


@dataclass(frozen=True)
class Place:
    """A state of the walk.

    Attributes:
        state: the oracle's state.
        path: token ids from the start.
        prefix: the bytes that they emit.
        text_start: where in ``prefix`` text began after the last token terminal; UTF-8 is judged from there.
    """

    state: int
    path: tuple[int, ...] = ()
    prefix: bytes = b""
    text_start: int = 0

    @property
    def text(self) -> bytes:
        """The bytes since the last token terminal."""
        return self.prefix[self.text_start :]

    def after(self, oracle: Oracle, token: int, state: int) -> Place:
        """The place behind a token that leads to ``state``."""
        piece = oracle.vocabulary.pieces[token]
        prefix = self.prefix + piece
        by_bytes = bool(piece) and oracle.automaton.step(self.state, piece) != 0
        return Place(state, (*self.path, token), prefix, self.text_start if by_bytes else len(prefix))


@dataclass(frozen=True, eq=False)
class Comparison:
    """What comparing one state gave.

    Attributes:
        deviations: grouped by kind, cause and whether they lie inside a code point.
        both: tokens that both sides allow and that are no end of generation.
        build_eos: whether the build lets the output end here.
    """

    deviations: tuple[Deviation, ...]
    both: BoolMask
    build_eos: bool


@dataclass(frozen=True, eq=False)
class Reading:
    """What is known of how the build reads a grammar, to name causes by.

    Attributes:
        surrogates: the text names surrogates, which have no encoding and which upstream lets match.
        beyond: the text names numbers above U+10FFFF, likewise.
        other: the oracle of the grammar that upstream's parser makes of the text, if that is another one.
    """

    surrogates: bool = False
    beyond: bool = False
    other: Oracle | None = None

    def explains(self, place: Place) -> Mask | None:
        """The mask of the other reading at a place."""
        return None if self.other is None else self.other.mask(self.other.walk(place.path))


def compare_state(
    oracle: Oracle, place: Place, allowed: BoolMask, ends: Ends, reading: Reading | None = None
) -> Comparison:
    """Compare the build's mask at a place with the oracle's.

    Args:
        oracle: of the grammar in question.
        place: where.
        reading: how the build is known to read the text.
        allowed: the build's raw mask, bool array of shape (vocabulary size,).
        ends: the build's end-of-generation tokens.
    """
    right = oracle.mask(place.state)
    reading = reading or Reading()
    build_eos = bool(allowed[ends.index].any())
    differing = np.flatnonzero(allowed != right.tokens)
    unsound = differing[allowed[differing] & ~ends.all[differing]]
    missing = differing[right.tokens[differing]].tolist()
    # A control token that ends generation is no text, but a token terminal may name it.
    named = oracle.automaton.token_edges(place.state).positive
    missing = [token for token in missing if token in named or not ends.proper[token]]
    ends_differ = build_eos != right.eos
    other = reading.explains(place) if len(unsound) or missing or ends_differ else None
    groups: dict[tuple[Kind, Cause, bool], list[int]] = {}
    inside = oracle.automaton.inside(place.state) > 0
    for token in unsound.tolist():
        tail = place.text + oracle.vocabulary.pieces[token]
        mid = inside or missing_bytes(tail) > 0
        cause = cause_of_unsound(tail)
        if cause is Cause.NOT_IN_LANGUAGE:
            if other is not None and other.tokens[token]:
                cause = Cause.PARSER
            elif reading.surrogates and tail.endswith(SURROGATE_LEAD):
                # The language has no code point here that begins so, hence the build means a surrogate.
                cause = Cause.SURROGATE
            elif reading.beyond and tail.endswith(LAST_LEAD):
                cause = Cause.BEYOND_UNICODE
            elif b"\0" in oracle.vocabulary.pieces[token]:
                # The build reads a token's text only up to its first NUL.
                cause = Cause.NUL
            elif _taken_half_way(oracle, place.state, token):
                cause = Cause.TOKEN_TERMINAL
        groups.setdefault((Kind.UNSOUND, cause, mid and cause not in ELSEWHERE), []).append(token)
    for token in missing:
        tail = place.text + oracle.vocabulary.pieces[token]
        mid = inside or missing_bytes(tail) > 0
        cause = cause_of_missing(oracle, place, token, ends)
        if other is not None and not other.tokens[token] and cause is not Cause.EOG_TEXT:
            cause = Cause.PARSER
        groups.setdefault((Kind.OVER_RESTRICTIVE, cause, mid and cause not in ELSEWHERE), []).append(token)
    deviations = [
        deviation(place, kind, cause, mid, tokens, oracle.vocabulary)
        for (kind, cause, mid), tokens in sorted(groups.items())
    ]
    if build_eos and not right.eos:
        read_so = other is not None and other.eos
        cause = Cause.PARSER if read_so else cause_of_unsound_end(place.text)
        deviations.append(deviation(place, Kind.EOS_UNSOUND, cause, inside and cause not in ELSEWHERE))
    if right.eos and not build_eos and len(ends.index):
        read_so = other is not None and not other.eos
        cause = Cause.PARSER if read_so else Cause.UNEXPLAINED
        deviations.append(deviation(place, Kind.EOS_MISSING, cause, inside and cause not in ELSEWHERE))
    return Comparison(tuple(deviations), allowed & right.tokens & ends.text, build_eos)


def _taken_half_way(oracle: Oracle, state: int, token: int) -> bool:
    """Whether a token terminal stands behind some of the token's first bytes and takes its id.

    A build that compares ids wherever it is lets the terminal take a token of which the text has begun.
    """
    for byte in oracle.vocabulary.pieces[token]:
        state = oracle.automaton.step(state, bytes([byte]))
        edges = oracle.automaton.token_edges(state)
        if token in edges.positive or any(excluded != token for excluded, _ in edges.negated):
            return True
    return False


def cause_of_missing(oracle: Oracle, place: Place, token: int, ends: Ends) -> Cause:
    """Why a viable token may be masked."""
    piece = oracle.vocabulary.pieces[token]
    if b"\0" in piece:
        return Cause.NUL
    if ends.all[token]:
        return Cause.EOG_TEXT
    state = oracle.automaton.step(place.state, piece) if piece else 0
    if state == 0 or (place.text_start == len(place.prefix) and missing_bytes(place.prefix)):
        # Only a token terminal takes it, or one has just taken a token that ended inside a code point.
        return Cause.TOKEN_TERMINAL
    return Cause.NEGATED_PARTIAL if oracle.automaton.inside(state) == 2 else Cause.UNEXPLAINED


def deviation(
    place: Place,
    kind: Kind,
    cause: Cause,
    mid_code_point: bool,
    tokens: Iterable[int] = (),
    vocabulary: Vocabulary | None = None,
    detail: str = "",
) -> Deviation:
    """A deviation at a place, its tokens sorted by bytes."""
    ids = tuple(tokens)
    if vocabulary is not None:
        ids = tuple(sorted(ids, key=lambda token: (vocabulary.pieces[token], token)))
    return Deviation(
        kind=kind,
        cause=cause,
        mid_code_point=mid_code_point,
        prefix=place.prefix.hex(),
        path=place.path,
        tokens=tuple(vocabulary.pieces[token].hex() for token in ids) if vocabulary else (),
        token_ids=ids,
        detail=detail,
    )
