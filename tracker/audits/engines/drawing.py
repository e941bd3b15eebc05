"""Draws grammars out of a source of integers: a seeded generator for long runs, hypothesis in the tests.

What is drawn is meant to be awkward: few characters, so that alternatives overlap and strings have many
derivations; characters of one to four bytes and of both sides of every boundary of UTF-8; empty options,
repetitions of what may be empty, rules that refer to themselves on the left, on the right, hidden behind
something empty, and in cycles.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Protocol

from tracker.audits.engines.expressions import (
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

CHARACTERS = (
    "abc"
    "\x00\x7f"
    "\x80\u00e9\u07ff"
    "\u0800\u20ac\u4e16\ud7ff\ue000\uffff"
    "\U00010000\U0001f600\U0010ffff"
)  # fmt: skip
"""What literals and the bounds of ranges are made of."""


class Source(Protocol):
    """Where decisions come from."""

    def integer(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included; the lower, the simpler."""
        ...


class Seeded:
    """Decisions of a pseudo-random generator."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """See ``Source``."""
        return self._random.randint(low, high)


@dataclass(frozen=True, slots=True)
class Shape:
    """What may be drawn.

    ``recursive``: rules may refer to any rule, else to later ones only, which makes the language regular.
    ``tokens``: ids for token terminals. ``characters``: see ``CHARACTERS``. ``repetition``: largest bound.
    """

    recursive: bool = True
    rules: int = 4
    depth: int = 3
    tokens: tuple[int, ...] = ()
    characters: str = CHARACTERS
    repetition: int = 4


def draw_rules(source: Source, shape: Shape) -> Rules:
    """A grammar of up to ``shape.rules`` rules."""
    count = source.integer(1, shape.rules)
    return Rules(tuple(_alternatives(source, shape, number, count, shape.depth) for number in range(count)))


def _alternatives(source: Source, shape: Shape, number: int, count: int, depth: int) -> Expression:
    options = tuple(_sequence(source, shape, number, count, depth) for _ in range(source.integer(1, 3)))
    return options[0] if len(options) == 1 else Either(options)


def _sequence(source: Source, shape: Shape, number: int, count: int, depth: int) -> Expression:
    size = source.integer(0, 4)
    if size == 4:
        return Text("")
    items = tuple(_item(source, shape, number, count, depth) for _ in range(max(size, 1)))
    return items[0] if len(items) == 1 else InOrder(items)


def _item(source: Source, shape: Shape, number: int, count: int, depth: int) -> Expression:
    kind = source.integer(0, 9 if depth > 0 else 3)
    if kind <= 1:
        return Text("".join(_character(source, shape) for _ in range(source.integer(1, 3))))
    if kind == 2:
        return _class(source, shape)
    if kind == 3 and shape.tokens and source.integer(0, 1):
        return WholeToken(shape.tokens[source.integer(0, len(shape.tokens) - 1)], source.integer(0, 3) == 3)
    if kind in (3, 4, 5):
        first = 0 if shape.recursive else number + 1
        if first < count:
            return Use(source.integer(first, count - 1))
        return _class(source, shape)
    if kind in (6, 7):
        return _alternatives(source, shape, number, count, depth - 1)
    item = _item(source, shape, number, count, depth - 1)
    least = source.integer(0, min(2, shape.repetition))
    form = source.integer(0, 2)
    return Times(
        item, least, None if form == 0 else max(1, least) if form == 1 else _most(source, shape, least)
    )


def _most(source: Source, shape: Shape, least: int) -> int:
    return source.integer(max(1, least), shape.repetition)


def _class(source: Source, shape: Shape) -> OneOf:
    ranges = []
    for _ in range(source.integer(1, 3)):
        ends = sorted((ord(_character(source, shape)), ord(_character(source, shape))))
        ranges.append((ends[0], ends[0] if source.integer(0, 1) else ends[1]))
    return OneOf(tuple(ranges), negated=source.integer(0, 3) == 3)


def _character(source: Source, shape: Shape) -> str:
    return shape.characters[source.integer(0, len(shape.characters) - 1)]
