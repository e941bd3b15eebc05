"""Brute force for regular grammars: derivatives over code points, and the codec for bytes.

A string is taken character by character: the derivative of an expression by a character denotes what may
follow (Brzozowski, Derivatives of Regular Expressions, 1964). A cut-off character at the end of a byte string
stands for all characters whose encodings begin so; these are found by encoding every scalar value once with
Python's codec. No byte ranges, no item sets, no table: nothing is shared with the oracle.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import assert_never

from tracker.audits.engines.expressions import (
    CodePoints,
    Either,
    Expression,
    InOrder,
    OneOf,
    Rules,
    Text,
    Times,
    Use,
    WholeToken,
)
from tracker.audits.engines.tally import Opinion

NOTHING = Either(())
EMPTY = Text("")


@lru_cache(maxsize=1)
def encodings_beginning() -> dict[bytes, tuple[int, int]]:
    """First and last code point whose encoding begins with these bytes, for every proper beginning."""
    found: dict[bytes, tuple[int, int]] = {}
    for code_point in range(0x80, 0x110000):
        if not 0xD800 <= code_point <= 0xDFFF:
            encoded = chr(code_point).encode()
            for size in range(1, len(encoded)):
                first, _ = found.get(encoded[:size], (code_point, 0))
                found[encoded[:size]] = (first, code_point)
    return found


class BruteForce:
    """Answers about one grammar without recursion among its rules and without token terminals."""

    def __init__(self, rules: Rules):
        self._start = _inlined(rules.bodies[0], rules)
        self._after: dict[str, Expression] = {"": self._start}

    def ask(self, data: bytes) -> Opinion:
        """Whether some string of the language begins so, and whether this is one."""
        return Opinion(self._viable(data), self._member(data))

    def _viable(self, data: bytes) -> bool:
        split = _split(data)
        if split is None:
            return False
        text, rest = split
        expression = self._derived(text)
        if not rest:
            return not is_nothing(expression)
        first, last = encodings_beginning()[rest]
        return any(low <= last and high >= first for low, high in first_characters(expression))

    def _member(self, data: bytes) -> bool:
        split = _split(data)
        return split is not None and not split[1] and nullable(self._derived(split[0]))

    def _derived(self, text: str) -> Expression:
        known = self._after.get(text)
        if known is None:
            known = self._after[text] = derivative(self._derived(text[:-1]), ord(text[-1]))
        return known


def _split(data: bytes) -> tuple[str, bytes] | None:
    """Whole characters and the beginning of one more; None when bytes are not the beginning of any text."""
    for size in range(min(3, len(data)) + 1):
        rest = data[len(data) - size :]
        if size and rest not in encodings_beginning():
            continue
        try:
            return data[: len(data) - size].decode("utf-8"), rest
        except UnicodeDecodeError:
            continue
    return None


def _inlined(expression: Expression, rules: Rules) -> Expression:
    """The expression with every use of a rule replaced by the rule's body."""
    match expression:
        case OneOf() | Text():
            return expression
        case Use(rule):
            return _inlined(rules.bodies[rule], rules)
        case InOrder(items):
            return _in_order(*(_inlined(item, rules) for item in items))
        case Either(options):
            return _either(*(_inlined(option, rules) for option in options))
        case Times(item, least, most):
            return _times(_inlined(item, rules), least, most)
        case WholeToken():
            raise ValueError("brute force over characters knows no token terminals")
        case _:
            assert_never(expression)


def _in_order(*items: Expression) -> Expression:
    flat: list[Expression] = []
    for item in items:
        if item == NOTHING:
            return NOTHING
        if item != EMPTY:
            flat += item.items if isinstance(item, InOrder) else [item]
    return EMPTY if not flat else flat[0] if len(flat) == 1 else InOrder(tuple(flat))


def _either(*options: Expression) -> Expression:
    flat: dict[Expression, None] = {}
    for option in options:
        for one in option.options if isinstance(option, Either) else (option,):
            flat[one] = None
    return next(iter(flat)) if len(flat) == 1 else Either(tuple(flat))


def _times(item: Expression, least: int, most: int | None) -> Expression:
    if most == 0 or item == EMPTY:
        return EMPTY
    if item == NOTHING:
        return EMPTY if least == 0 else NOTHING
    return item if (least, most) == (1, 1) else Times(item, least, most)


def nullable(expression: Expression) -> bool:
    """Whether the empty string is in the language."""
    match expression:
        case OneOf():
            return False
        case Text(characters):
            return not characters
        case InOrder(items):
            return all(map(nullable, items))
        case Either(options):
            return any(map(nullable, options))
        case Times(item, least, _):
            return least == 0 or nullable(item)
        case Use() | WholeToken():
            raise ValueError("rules are inlined and token terminals refused before")
        case _:
            assert_never(expression)


def is_nothing(expression: Expression) -> bool:
    """Whether the language has no string at all."""
    return not nullable(expression) and not first_characters(expression)


def derivative(expression: Expression, character: int) -> Expression:
    """What may follow a character."""
    match expression:
        case OneOf():
            return EMPTY if any(low <= character <= high for low, high in _scalars(expression)) else NOTHING
        case Text(characters):
            if characters and ord(characters[0]) == character:
                return Text(characters[1:])
            return NOTHING
        case InOrder(items):
            options = []
            for index, item in enumerate(items):
                options.append(_in_order(derivative(item, character), *items[index + 1 :]))
                if not nullable(item):
                    break
            return _either(*options)
        case Either(options):
            return _either(*(derivative(option, character) for option in options))
        case Times(item, least, most):
            rest = _times(item, max(least - 1, 0), None if most is None else most - 1)
            return _in_order(derivative(item, character), rest)
        case Use() | WholeToken():
            raise ValueError("rules are inlined and token terminals refused before")
        case _:
            assert_never(expression)


@lru_cache(maxsize=100_000)
def first_characters(expression: Expression) -> CodePoints:
    """Ranges of the characters that a string of the language can begin with, if it is not empty."""
    match expression:
        case OneOf():
            return _scalars(expression)
        case Text(characters):
            return ((ord(characters[0]), ord(characters[0])),) if characters else ()
        case InOrder(items):
            # A sequence with an impossible part has no string, whatever its first part is.
            if any(is_nothing(item) for item in items):
                return ()
            found: CodePoints = ()
            for item in items:
                found += first_characters(item)
                if not nullable(item):
                    break
            return found
        case Either(options):
            return tuple(one for option in options for one in first_characters(option))
        case Times(item):
            return first_characters(item)
        case Use() | WholeToken():
            raise ValueError("rules are inlined and token terminals refused before")
        case _:
            assert_never(expression)


@lru_cache(maxsize=10_000)
def _scalars(one_of: OneOf) -> CodePoints:
    """The class as sorted ranges without surrogates, found by walking over its bounds."""
    bounds = {0, 0xD800, 0xE000, 0x110000}
    for low, high in one_of.ranges:
        bounds |= {low, high + 1}
    cuts = sorted(bounds)
    found = []
    for low, end in itertools.pairwise(cuts):
        inside = any(first <= low <= last for first, last in one_of.ranges)
        if inside != one_of.negated and not 0xD800 <= low <= 0xDFFF:
            found.append((low, end - 1))
    return tuple(found)
