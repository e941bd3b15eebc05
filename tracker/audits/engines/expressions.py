"""Small grammars as trees of their own, and their text in GBNF.

These trees share nothing with ``oracle.gbnf``: a grammar that is drawn here goes through its text into the
oracle and as a tree into brute force, so that the oracle's parser is checked as well. Rules have numbers;
rule 0 is the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

CodePoints = tuple[tuple[int, int], ...]
"""Ranges of code points, first and last included; they may overlap and come in any order."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One character out of a class; ``[^...]`` when negated."""

    ranges: CodePoints
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A literal; empty for the empty string."""

    characters: str


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a rule."""

    rule: int


@dataclass(frozen=True, slots=True)
class WholeToken:
    """A token terminal by id."""

    id: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InOrder:
    """Expressions one after another."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of several expressions."""

    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Times:
    """An expression repeated; ``most`` is None for no limit."""

    item: Expression
    least: int
    most: int | None


Expression = OneOf | Text | Use | WholeToken | InOrder | Either | Times


@dataclass(frozen=True, slots=True)
class Rules:
    """A grammar: the bodies of its rules by number."""

    bodies: tuple[Expression, ...]

    def gbnf(self) -> str:
        """The grammar's text."""
        return "\n".join(f"{_name(rule)} ::= {_alternatives(body)}" for rule, body in enumerate(self.bodies))


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside one."""
    match expression:
        case OneOf() | Text() | Use() | WholeToken():
            return ()
        case InOrder(items):
            return items
        case Either(options):
            return options
        case Times(item):
            return (item,)
        case _:
            assert_never(expression)


def _name(rule: int) -> str:
    return "root" if rule == 0 else f"r{rule}"


def _alternatives(expression: Expression) -> str:
    if isinstance(expression, Either):
        return " | ".join(_sequence(option) for option in expression.options)
    return _sequence(expression)


def _sequence(expression: Expression) -> str:
    if isinstance(expression, InOrder):
        return " ".join(_item(item) for item in expression.items)
    return _item(expression)


def _item(expression: Expression) -> str:
    match expression:
        case OneOf(ranges, negated):
            inside = "".join(
                _escaped(low) + (f"-{_escaped(high)}" if high > low else "") for low, high in ranges
            )
            return f"[{'^' if negated else ''}{inside}]"
        case Text(characters):
            return '"' + "".join(_escaped(ord(character)) for character in characters) + '"'
        case Use(rule):
            return _name(rule)
        case WholeToken(token, negated):
            return f"{'!' if negated else ''}<[{token}]>"
        case InOrder() | Either():
            return f"({_alternatives(expression)})"
        case Times(item, least, most):
            body = _item(item)
            if isinstance(item, Times):
                body = f"({body})"
            return body + _count(least, most)
        case _:
            assert_never(expression)


def _count(least: int, most: int | None) -> str:
    short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    if short is not None:
        return short
    if least == most:
        return f"{{{least}}}"
    return f"{{{least},{'' if most is None else most}}}"


def _escaped(code_point: int) -> str:
    """A character as it may stand in a literal and in a class; letters and digits as they are."""
    if code_point < 0x80 and chr(code_point).isalnum():
        return chr(code_point)
    if code_point < 0x100:
        return f"\\x{code_point:02x}"
    if code_point < 0x800:
        # As raw UTF-8, so that this way of writing is tried too.
        return chr(code_point)
    return f"\\u{code_point:04x}" if code_point < 0x10000 else f"\\U{code_point:08x}"
