"""The documented faults of xgrammar, as predictions of its masks.

*Surrogates count as characters.* What a grammar would allow if they did is computed by the oracle itself,
one level down: every class becomes the byte sequences of its members, with those of the surrogates added,
and bytes are spelled as the characters of Latin-1 in the grammar and in the vocabulary. So surrogates need no
place in the oracle.

*Masks contradict the parser.* A mask is put together from parts made for each rule alone, which goes wrong
for some tokens that run over the ends of rules. The prediction is that xgrammar's own parser, handed such a
token, says the opposite of its mask, and is right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from oracle import gbnf
from oracle.gbnf import Characters, Choice, Grammar, Reference, Repeat, Rule, Token
from oracle.mask import Mask, Oracle
from oracle.utf8 import SURROGATES, ByteRange, byte_ranges
from oracle.vocabulary import Vocabulary
from tracker.audits.engines.comparisons import agree

SURROGATES_ALLOWED = "surrogates count as characters"
"""Smallest case: ``root ::= [^a]`` after byte ED; A0 is allowed, which begins no character there."""

MASK_AGAINST_PARSER = "masks contradict the parser"
"""Smallest cases: ``root ::= "" | "b" root "a"`` after ``bb``, where the mask lacks the token ``aa``, which
the parser takes; ``root ::= [\\u0800]? [a-z]`` at the start, where it has E0 A0 80 E0, which the parser
refuses."""

ENCODED_SURROGATES = ((0xED, 0xED), (0xA0, 0xBF), (0x80, 0xBF))
"""The bytes that U+D800 to U+DFFF would have."""


_SURROGATE = re.compile(rb"\xed(?:[\xa0-\xbf]|$)")
"""What an output has in it, or ends with, that a surrogate has a part in."""


class Acceptor(Protocol):
    """A party that can be handed single tokens."""

    def accepts(self, path: list[int], tokens: list[int]) -> list[bool]:
        """Whether each of the tokens can follow a path."""
        ...


class XgrammarFaults:
    """Says which fault predicts a mask that differs from the right one."""

    def __init__(self, oracle: Oracle, parser: Acceptor):
        self._oracle = oracle
        self._parser = parser
        self._surrogates = SurrogateReading(oracle)

    def __call__(self, path: list[int], allowed: NDArray[np.bool_], end: bool) -> str | None:
        """The fault that predicts exactly this mask after this path; None if none does."""
        oracle = self._oracle
        right = oracle.mask(oracle.walk(path))
        with_surrogates = self._surrogates.mask(path)
        lawful = self._by_surrogates(path, right, with_surrogates)
        if lawful and agree(oracle, with_surrogates, allowed, end):
            return SURROGATES_ALLOWED
        for predicted in (right, with_surrogates) if lawful else (right,):
            tokens = np.flatnonzero(predicted.tokens != allowed).tolist()
            settled = allowed.copy()
            settled[tokens] = self._parser.accepts(path, tokens)
            if agree(oracle, predicted, settled, end):
                return MASK_AGAINST_PARSER
        return None

    def _by_surrogates(self, path: list[int], right: Mask, with_surrogates: Mask) -> bool:
        """Whether two masks differ by surrogates alone.

        The second one comes from another vocabulary, so by another way through the oracle: where it differs
        in anything else, one of the two is wrong, and that is no fault of xgrammar's.
        """
        pieces = self._oracle.vocabulary.pieces
        before = b"".join(pieces[token] for token in path)[-2:]
        different = np.flatnonzero(right.tokens != with_surrogates.tokens).tolist()
        return right.eos == with_surrogates.eos and all(
            with_surrogates.tokens[token] and _SURROGATE.search(before + pieces[token]) for token in different
        )


class SurrogateReading:
    """The masks of a grammar whose classes have the surrogates that were written into them."""

    def __init__(self, oracle: Oracle):
        self._right = oracle
        self._reading: Oracle | None = None

    def mask(self, path: list[int]) -> Mask:
        """The mask after a token path."""
        if self._reading is None:
            vocabulary = self._right.vocabulary
            grammar = with_surrogates(self._right.grammar, vocabulary.ids_by_text)
            self._reading = Oracle(
                grammar, _as_latin1(vocabulary), end_tokens=self._right.end_tokens, remember=16
            )
        return self._reading.mask(self._reading.walk(path))


@lru_cache(maxsize=2)
def _as_latin1(vocabulary: Vocabulary) -> Vocabulary:
    """The vocabulary with every byte written as the character of its number."""
    pieces = tuple(piece.decode("latin-1").encode() for piece in vocabulary.pieces)
    return Vocabulary(pieces, vocabulary.kinds, vocabulary.end_tokens)


def with_surrogates(grammar: Grammar, token_ids: Mapping[bytes, int]) -> Grammar:
    """The grammar over bytes, each written as a character, with surrogates where classes were written so."""
    nodes: list[gbnf.Node] = []
    place: list[int] = []

    def add(node: gbnf.Node) -> int:
        nodes.append(node)
        return len(nodes) - 1

    def in_order(bytes_: tuple[ByteRange, ...]) -> int:
        return add(gbnf.Sequence(tuple([add(Characters((one,))) for one in bytes_])))

    for node in grammar.nodes:
        match node:
            case Characters(ranges):
                sequences = [*byte_ranges(ranges), *([ENCODED_SURROGATES] * _has_surrogates(node))]
                place.append(add(Choice(tuple([in_order(sequence) for sequence in sequences]))))
            case Token(identity, text, negated, position):
                known = identity if identity is not None else token_ids[(text or "").encode()]
                place.append(add(Token(known, None, negated, position)))
            case Reference():
                place.append(add(node))
            case gbnf.Sequence(items):
                place.append(add(gbnf.Sequence(tuple(place[item] for item in items))))
            case Choice(options):
                place.append(add(Choice(tuple(place[option] for option in options))))
            case Repeat(item, least, most, position):
                place.append(add(Repeat(place[item], least, most, position)))
    rules = {name: Rule(name, place[rule.body], rule.position) for name, rule in grammar.rules.items()}
    return Grammar(tuple(nodes), rules, grammar.root, ())


def _has_surrogates(node: Characters) -> bool:
    """Whether a class was written with all surrogates in it; with some of them only is for the caller to see.

    The tree has scalar values alone. A range over the surrogates has both neighbours, and so has no negated
    class that excludes such a range.
    """
    neighbours = [
        any(low <= one <= high for low, high in node.ranges) for one in (SURROGATES[0] - 1, SURROGATES[1] + 1)
    ]
    return any(neighbours) if node.negated else all(neighbours)
