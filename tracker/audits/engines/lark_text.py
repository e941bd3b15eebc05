"""A parsed grammar as text in the notation of Lark, for llguidance (characters) and lark itself (bytes).

Three things decide whether such a text means the same grammar. Terminals are one character each, since
llguidance takes the longest match of a terminal and would cut ``"a"* "ab"`` short. They are disjoint: classes
are cut into pieces at each other's bounds, and sets of tokens likewise, so that no two terminals compete for
a character or a token (of two token terminals that take one token llguidance follows one only). And what can
never be finished is left out here, by a count of its own, since neither engine does that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping

from oracle.gbnf import Characters, Choice, Grammar, Reference, Repeat, Sequence, Token
from oracle.utf8 import CodePointRange

Pieces = Mapping[Characters, list[int]]


class NoLanguage(Exception):
    """The grammar has no string at all, which Lark's notation cannot say."""


def for_llguidance(grammar: Grammar, token_ids: Mapping[bytes, int], end_tokens: Iterable[int]) -> str:
    """Text for llguidance: terminals are classes of characters, token terminals stand by id.

    ``end_tokens`` are left out of negated token terminals, as GBNF has it.

    Raises:
        NoLanguage: the grammar has no string.
    """
    atoms, pieces = _atoms(grammar)
    terminals = [f"T{number}: /[{_class(atom)}]/" for number, atom in enumerate(atoms)]

    def characters(node: Characters) -> str:
        return " | ".join(f"T{number}" for number in pieces[node])

    def number(node: Token) -> int:
        return node.id if node.id is not None else token_ids[(node.text or "").encode()]

    ends = set(end_tokens)
    named = sorted({number(node) for node in grammar.nodes if isinstance(node, Token)} | ends)
    others = f"<[^{','.join(map(str, named))}]>"

    def token(node: Token) -> str:
        if not node.negated:
            return f"<[{number(node)}]>"
        return " | ".join([others, *(f"<[{one}]>" for one in named if one not in {number(node), *ends})])

    rules = _rules(grammar, characters, token)
    return "\n".join(['%llguidance {"no_forcing": true}', *rules, *terminals]) + "\n"


def for_lark(grammar: Grammar) -> str:
    """Text for lark: terminals are single bytes or ranges of bytes, as Latin-1 characters.

    Raises:
        NoLanguage: the grammar has no string.
        ValueError: the grammar has token terminals, which bytes cannot tell.
    """
    used: dict[tuple[int, int], str] = {}

    def terminal(low: int, high: int) -> str:
        return used.setdefault((low, high), f"B{low:02X}{high:02X}")

    def characters(node: Characters) -> str:
        encoded = [sequence for low, high in node.ranges for sequence in _encoded(low, high)]
        return " | ".join(" ".join(terminal(*ends) for ends in sequence) for sequence in encoded)

    def token(node: Token) -> str:
        raise ValueError("token terminals are not bytes")

    rules = _rules(grammar, characters, token)
    terminals = [f"{name}: /[\\x{low:02x}-\\x{high:02x}]/s" for (low, high), name in used.items()]
    return "\n".join([*rules, *terminals]) + "\n"


def _encoded(low: int, high: int) -> list[tuple[tuple[int, int], ...]]:
    """Byte ranges of a range of characters: cut where all but the last byte change, ask the codec for each.

    One sequence for each run of equal leading bytes is more than is needed, but needs no thought; runs that
    fill their last byte are joined as long as they are neighbours.
    """
    found: list[tuple[tuple[int, int], ...]] = []
    here = low
    while here <= high:
        for bits in (18, 12, 6):
            # The largest aligned block that begins here and lies inside: its continuation bytes are free.
            size = 1 << bits
            length = len(chr(here).encode())
            if length > bits // 6 and here % size == 0 and here + size - 1 <= high:
                if len(chr(here + size - 1).encode()) == length:
                    lead = chr(here).encode()[: length - bits // 6]
                    found.append((*((b, b) for b in lead), *((0x80, 0xBF),) * (bits // 6)))
                    here += size
                    break
        else:
            last = min(high, here | 0x3F) if here >= 0x80 else min(high, 0x7F)
            first, final = chr(here).encode(), chr(last).encode()
            found.append(tuple(zip(first, final, strict=True)))
            here = last + 1
    return found


def _class(ranges: list[CodePointRange]) -> str:
    """The inside of a character class."""
    return "".join(f"\\u{{{low:x}}}-\\u{{{high:x}}}" for low, high in ranges)


def _atoms(grammar: Grammar) -> tuple[list[list[CodePointRange]], Pieces]:
    """All classes cut into disjoint sets of characters, and for each class the numbers of its sets.

    Characters that are in the same classes are one set, so that there are as few terminals as can be.
    """
    classes = {node for node in grammar.nodes if isinstance(node, Characters)}
    cuts = sorted({cut for node in classes for low, high in node.ranges for cut in (low, high + 1)})
    owned: dict[frozenset[Characters], list[CodePointRange]] = {}
    for low, end in itertools.pairwise(cuts):
        owners = frozenset(n for n in classes if any(a <= low and end - 1 <= b for a, b in n.ranges))
        if owners:
            owned.setdefault(owners, []).append((low, end - 1))
    pieces: dict[Characters, list[int]] = {node: [] for node in classes}
    for number, owners in enumerate(owned):
        for node in owners:
            pieces[node].append(number)
    return list(owned.values()), pieces


def _rules(
    grammar: Grammar, characters: Callable[[Characters], str], token: Callable[[Token], str]
) -> list[str]:
    """One rule a node that can be finished, and one a rule of the grammar."""
    nodes, named = finishable(grammar)
    if grammar.root not in named:
        raise NoLanguage
    names = {name: f"g{number}" for number, name in enumerate(grammar.rules)}
    rules = [f"start: {names[grammar.root]}"]
    rules += [f"{names[name]}: n{rule.body}" for name, rule in grammar.rules.items() if name in named]
    for number in sorted(nodes):
        node = grammar.nodes[number]
        match node:
            case Characters():
                body = characters(node)
            case Token():
                body = token(node)
            case Reference(name):
                body = names[name]
            case Sequence(items):
                body = " ".join(f"n{item}" for item in items)
            case Choice(options):
                body = " | ".join(f"n{option}" for option in options if option in nodes)
            case Repeat(item, least, most):
                rules += _repetition(number, item, least, most, item in nodes)
                continue
        rules.append(f"n{number}: {body}")
    return rules


def _repetition(number: int, item: int, least: int, most: int | None, possible: bool) -> list[str]:
    """Rules of a repetition, written out with an own rule for 'as many more as allowed'."""
    if not possible:
        return [f"n{number}: "]
    once = f"n{item}"
    if most is None:
        return [f"n{number}: {' '.join([once] * least)} m{number}", f"m{number}: | m{number} {once}"]
    rules = []
    more = ""
    for count in range(most - least):
        rules.append(f"m{number}x{count}: | {once} {more}")
        more = f"m{number}x{count}"
    return [f"n{number}: {' '.join([once] * least)} {more}", *rules]


def finishable(grammar: Grammar) -> tuple[set[int], set[str]]:
    """Nodes and rules that derive at least one string: asked again until nothing is added."""
    nodes: set[int] = set()
    rules: set[str] = set()
    while True:
        before = len(nodes) + len(rules)
        for number, node in enumerate(grammar.nodes):
            match node:
                case Characters():
                    good = bool(node.ranges)
                case Token():
                    good = True
                case Reference(name):
                    good = name in rules
                case Sequence(items):
                    good = all(item in nodes for item in items)
                case Choice(options):
                    good = any(option in nodes for option in options)
                case Repeat(item, least, _):
                    good = least == 0 or item in nodes
            if good:
                nodes.add(number)
        rules |= {name for name, rule in grammar.rules.items() if rule.body in nodes}
        if len(nodes) + len(rules) == before:
            return nodes, rules
