"""The short strings and prefixes of a drawn grammar, by their definition: sets, grown until they stay.

This is the reference for grammars that refer to themselves: no items, no tables, no bytes. Every string of at
most ``longest`` characters is a matter of other strings of at most that length, so the least fixed point over
these finitely many is exact; and so it is for prefixes.
"""

from __future__ import annotations

from typing import NamedTuple

from tracker.audits.engines.expressions import (
    Either,
    Expression,
    InOrder,
    OneOf,
    Rules,
    Text,
    Times,
    Use,
)

Strings = frozenset[str]
NONE: Strings = frozenset()
ONLY_EMPTY: Strings = frozenset({""})


class Short(NamedTuple):
    """Of a language: its short members, the short prefixes of its members, whether it has a member at all."""

    members: Strings
    prefixes: Strings
    inhabited: bool


def short_strings(rules: Rules, alphabet: str, longest: int) -> Short:
    """What the grammar's language has over an alphabet, up to a length."""
    of_rule = [Short(NONE, NONE, False)] * len(rules.bodies)

    def joined(first: Strings, second: Strings) -> Strings:
        return frozenset(a + b for a in first for b in second if len(a) + len(b) <= longest)

    def both(first: Short, second: Short) -> Short:
        if not (first.inhabited and second.inhabited):
            return Short(NONE, NONE, False)
        return Short(
            joined(first.members, second.members),
            first.prefixes | joined(first.members, second.prefixes),
            True,
        )

    def either(first: Short, second: Short) -> Short:
        return Short(
            first.members | second.members,
            first.prefixes | second.prefixes,
            first.inhabited or second.inhabited,
        )

    def short(expression: Expression) -> Short:
        match expression:
            case OneOf(ranges, negated):
                inside = frozenset(
                    c for c in alphabet if any(low <= ord(c) <= high for low, high in ranges) != negated
                )
                # Drawn classes are never empty: none negates all characters, none has surrogates alone.
                return Short(inside, inside | ONLY_EMPTY, True)
            case Text(characters):
                known = len(characters) - len(characters.lstrip(alphabet))
                prefixes = {characters[:size] for size in range(min(known, longest) + 1)}
                whole = known == len(characters) <= longest
                return Short(frozenset({characters} if whole else ()), frozenset(prefixes), True)
            case Use(rule):
                return of_rule[rule]
            case InOrder(items):
                found = Short(ONLY_EMPTY, ONLY_EMPTY, True)
                for item in items:
                    found = both(found, short(item))
                return found
            case Either(options):
                found = Short(NONE, NONE, False)
                for option in options:
                    found = either(found, short(option))
                return found
            case Times(item, least, most):
                once = short(item)
                exactly = Short(ONLY_EMPTY, ONLY_EMPTY, True)
                found = exactly if least == 0 else Short(NONE, NONE, False)
                # Beyond this many rounds nothing new of that length appears.
                for count in range(1, (most if most is not None else least + longest) + 1):
                    exactly = both(exactly, once)
                    if count >= least:
                        found = either(found, exactly)
                return found
            case _:
                raise ValueError("token terminals are no strings")

    while True:
        grown = [short(body) for body in rules.bodies]
        if grown == of_rule:
            return of_rule[0]
        of_rule = grown
