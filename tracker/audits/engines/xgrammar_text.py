"""Grammars in the notation of xgrammar, which is GBNF with exceptions.

A text is given to xgrammar itself wherever ``reads_alike`` says so, which lets a second parser read it. Else
it is printed here from the oracle's tree, one rule a node, in a form that xgrammar has no trouble with:
without what can never be finished, without rules that match nothing, every character by number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from oracle.gbnf import Characters, Choice, Grammar, Node, Reference, Repeat, Sequence, Token
from tracker.audits.engines.lark_text import finishable

_WRITTEN = r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#[^\n\r]*'
_LITERAL_OR_CLASS = re.compile(_WRITTEN, re.DOTALL)
_SPELLING = re.compile(rf"(?P<same>{_WRITTEN})|(?P<dot>\.)|(?P<nothing>::=\s*(?=\|))", re.DOTALL)
_FOREIGN = re.compile(r"[<!]|\{\s*,|[|(]\s*(?=[|)]|\Z)|::=\s*\Z")
"""What is GBNF and not xgrammar's: token terminals, a repetition without its lower bound, an alternative of
nothing that is not the first of its rule."""
_LONG_ESCAPE = re.compile(r"\\x[0-9a-fA-F]{3}")
"""``"\\x0ab"`` is a line feed and a ``b`` in GBNF and U+00AB for xgrammar, whose ``\\x`` takes all digits."""

_BELOW_SURROGATES = re.compile(r"\\u0*d7ff|\ud7ff", re.IGNORECASE)
_ABOVE_SURROGATES = re.compile(r"\\u0*e000|\ue000", re.IGNORECASE)
_SURROGATE = re.compile(r"\\u0*d[89a-f]", re.IGNORECASE)


def respelled(text: str) -> str:
    """The text with a dot and a first alternative of nothing as xgrammar spells them, else as it stands."""

    def spell(found: re.Match[str]) -> str:
        if found["dot"]:
            return "[^]"
        return f'{found["nothing"]}"" ' if found["nothing"] else found["same"]

    return _SPELLING.sub(spell, text)


def reads_alike(text: str, grammar: Grammar) -> bool:
    """Whether xgrammar reads a text, respelled, as GBNF has it and follows it.

    Apart from its notation there are two things that it does not follow: rules and alternatives that cannot
    be finished, to which it lets outputs go, and left recursion through what may be empty, of which it loses
    strings. That it takes surrogates for characters is left to be predicted, and so every class must be one
    of which the tree tells whether they were written into it.
    """
    nodes, rules = finishable(grammar)
    if len(nodes) < len(grammar.nodes) or len(rules) < len(grammar.rules):
        return False
    structure = _LITERAL_OR_CLASS.sub(lambda found: "" if found[0].startswith("#") else '""', text)
    if _FOREIGN.search(structure) or _LONG_ESCAPE.search(text):
        return False
    if any(_hides_surrogates(found[0]) for found in _LITERAL_OR_CLASS.finditer(text)):
        return False
    return not _left_recursive(grammar)


def _hides_surrogates(written: str) -> bool:
    """Whether a literal or class names some surrogates, or both their neighbours, each by itself perhaps."""
    both = _BELOW_SURROGATES.search(written) and _ABOVE_SURROGATES.search(written)
    return bool(both or _SURROGATE.search(written))


def for_xgrammar(grammar: Grammar, token_ids: Mapping[bytes, int], ordinary_tokens: Iterable[int]) -> str:
    """Text for xgrammar; the root must be a rule that can be finished.

    Every rule of the text has the strings of one node except the empty one, which only the root has, and only
    nodes with other strings than that have a rule. ``ordinary_tokens`` are those that a negated token
    terminal may take. They are listed: xgrammar's own negation takes tokens from their middle on, too.
    """
    empty, solid = _nullable(grammar), _solid(grammar)
    ordinary = list(ordinary_tokens)
    top = grammar.rules[grammar.root].body
    top = grammar.rules[grammar.root].body
    lines = ["root ::= " + " | ".join([f"n{top}"] * (top in solid) + ['""'] * (top in empty))]
    for number in sorted(solid):
        options: list[str] = []
        match grammar.nodes[number]:
            case Characters(ranges):
                options = ["[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"]
            case Token(identity, text, negated):
                named = identity if identity is not None else token_ids[(text or "").encode()]
                taken = [one for one in ordinary if one != named] if negated else [named]
                options = [f"Token({', '.join(map(str, taken))})"]
            case Reference(name):
                options = [f"n{grammar.rules[name].body}"]
            case Choice(nodes):
                options = [f"n{node}" for node in nodes if node in solid]
            case Repeat(item, least, most):
                fewest = 1 if item in empty else max(least, 1)
                options = [f"n{item}{{{fewest},{'' if most is None else most}}}"]
            case Sequence(items):
                parts = [item for item in items if item in solid]
                lines += [
                    f"n{number}x{place} ::= {' | '.join(_from(number, parts, place, empty))}"
                    for place in range(1, len(parts))
                ]
                options = _from(number, parts, 0, empty)
        lines.append(f"n{number} ::= {' | '.join(options)}")
    return "\n".join(lines) + "\n"


def _from(number: int, parts: list[int], place: int, empty: set[int]) -> list[str]:
    """Alternatives for what stands in a sequence from a place on; rules are named after the place."""
    first = f"n{parts[place]}"
    if place + 1 == len(parts):
        return [first]
    rest = f"n{number}x{place + 1}"
    options = [f"{first} {rest}"]
    if parts[place] in empty:
        options.append(rest)
    if empty.issuperset(parts[place + 1 :]):
        options.append(first)
    return options


def _least(grammar: Grammar, judge: Callable[[Node, set[int]], bool]) -> set[int]:
    """The least set of nodes that a judge, asked about a node and the set so far, has no more to add to."""
    found: set[int] = set()
    while True:
        before = len(found)
        for number, node in enumerate(grammar.nodes):
            if number not in found and judge(node, found):
                found.add(number)
        if len(found) == before:
            return found


def _nullable(grammar: Grammar) -> set[int]:
    """Nodes that have the empty string."""

    def judge(node: Node, found: set[int]) -> bool:
        match node:
            case Reference(name):
                return grammar.rules[name].body in found
            case Sequence(items):
                return found.issuperset(items)
            case Choice(options):
                return not found.isdisjoint(options)
            case Repeat(item, least, _):
                return least == 0 or item in found
            case _:
                return False

    return _least(grammar, judge)


def _solid(grammar: Grammar) -> set[int]:
    """Nodes that have a string other than the empty one."""
    nodes, _ = finishable(grammar)

    def judge(node: Node, found: set[int]) -> bool:
        match node:
            case Characters(ranges):
                return bool(ranges)
            case Token():
                return True
            case Reference(name):
                return grammar.rules[name].body in found
            case Sequence(items):
                return nodes.issuperset(items) and not found.isdisjoint(items)
            case Choice(options):
                return not found.isdisjoint(options)
            case Repeat(item, _, most):
                return item in found and most != 0

    return _least(grammar, judge)


def _left_recursive(grammar: Grammar) -> bool:
    """Whether a node may begin with itself."""
    empty = _nullable(grammar)
    waits: dict[int, set[int]] = {}
    for number, node in enumerate(grammar.nodes):
        begins: tuple[int, ...] = ()
        match node:
            case Reference(name):
                begins = (grammar.rules[name].body,)
            case Sequence(items):
                solid = next((place for place, item in enumerate(items) if item not in empty), len(items))
                begins = items[: solid + 1]
            case Choice(options):
                begins = options
            case Repeat(item):
                begins = (item,)
            case _:
                pass
        waits[number] = set(begins)
    users: dict[int, list[int]] = {number: [] for number in waits}
    for number, begins_with in waits.items():
        for one in begins_with:
            users[one].append(number)
    ready = [number for number, begins_with in waits.items() if not begins_with]
    done = 0
    while ready:
        done += 1
        one = ready.pop()
        for user in users[one]:
            waits[user].discard(one)
            if not waits[user]:
                ready.append(user)
    return done < len(waits)
