"""A grammar as a network of byte edges, ready for the automaton.

Every rule becomes a piece of a recursive transition network: nodes, edges over byte ranges, edges over token
terminals, silent edges, and call edges that mean "a string of that rule, then go on there". A rule has one
start node and one exit node. Groups and loops are edges, not rules; a repeated body of more than one terminal
becomes a rule of its own, so that ``{2000}`` costs 2,000 call edges and not 2,000 copies.

Only what can still be finished is kept: an edge whose target cannot reach its rule's exit (an empty class, a
rule without a finite string) is dropped, so that a non-empty set of nodes always means a viable prefix.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from oracle import utf8
from oracle.gbnf import (
    Characters,
    Choice,
    Grammar,
    GrammarError,
    GrammarTooLarge,
    Position,
    Reference,
    Repeat,
    Token,
)
from oracle.gbnf import Sequence as SequenceNode

MAX_NODES = 400_000
"""Bound on the network's size; a grammar that needs more (a repetition of a million) is refused."""

ByteSequence = tuple[utf8.ByteRange, ...]


@dataclass
class Network:
    """A lowered grammar.

    All lists are indexed by node. ``byte_edges`` holds ``(low, high, target)``, ``token_edges``
    ``(token id, negated, target)``, ``calls`` ``(rule, target)``. ``starts`` and ``exits`` are indexed by
    rule, ``nullable`` says which rules have the empty string. ``inside`` is 0 at a code point's boundary and
    1 inside one (2 when the class was written as a negation). ``terminal`` marks dotted positions of the
    grammar that stand before a terminal.
    """

    byte_edges: list[list[tuple[int, int, int]]] = field(default_factory=list)
    token_edges: list[list[tuple[int, bool, int]]] = field(default_factory=list)
    silent: list[list[int]] = field(default_factory=list)
    calls: list[list[tuple[int, int]]] = field(default_factory=list)
    inside: list[int] = field(default_factory=list)
    terminal: list[bool] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)
    nullable: list[bool] = field(default_factory=list)
    root: int = 0

    def node(self, inside: int = 0) -> int:
        """Add a node."""
        self.byte_edges.append([])
        self.token_edges.append([])
        self.silent.append([])
        self.calls.append([])
        self.inside.append(inside)
        self.terminal.append(False)
        return len(self.silent) - 1

    def rule(self) -> int:
        """Add a rule with its start and exit."""
        self.starts.append(self.node())
        self.exits.append(self.node())
        return len(self.starts) - 1

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.silent)


def lower(
    grammar: Grammar, token_ids: Mapping[bytes, int] | None = None, tokens: int | None = None
) -> Network:
    """Lower a grammar.

    Args:
        grammar: as parsed.
        token_ids: text of each token to its id, to resolve ``<name>``; None when there is no vocabulary.
        tokens: size of the vocabulary, to check ``<[id]>``.

    Raises:
        GrammarError: a token terminal names no token.
        GrammarTooLarge: the network would be larger than ``MAX_NODES``.
    """
    return _Lowering(grammar, token_ids, tokens).run()


class _Lowering:
    def __init__(self, grammar: Grammar, token_ids: Mapping[bytes, int] | None, tokens: int | None):
        self.grammar = grammar
        self.token_ids = token_ids
        self.tokens = tokens
        self.network = Network()
        self.rule_of = {name: self.network.rule() for name in grammar.rules}
        self.rule_of_body: dict[int, int] = {}
        self.tails: dict[tuple[frozenset[ByteSequence], int, int], int] = {}
        self.sequences: dict[tuple[utf8.CodePointRange, ...], frozenset[ByteSequence]] = {}
        # (node of the tree, from, to): what is still to be drawn
        self.todo: list[tuple[int, int, int]] = []

    def run(self) -> Network:
        network = self.network
        network.root = self.rule_of[self.grammar.root]
        # Terminals first, in the order of the text, so that the first wrong one is the one that is told.
        for node in self.grammar.nodes:
            if isinstance(node, Token):
                self.token_id(node)
        for name, rule in self.grammar.rules.items():
            number = self.rule_of[name]
            self.todo.append((rule.body, network.starts[number], network.exits[number]))
        while self.todo:
            self.draw(*self.todo.pop())
        _prune(network)
        return network

    def draw(self, index: int, source: int, target: int) -> None:
        """Draw one node of the tree between two nodes of the network."""
        node = self.grammar.nodes[index]
        network = self.network
        match node:
            case Characters():
                network.terminal[source] = True
                self.characters(node, source, target)
            case Token():
                network.terminal[source] = True
                network.token_edges[source].append((self.token_id(node), node.negated, target))
            case Reference():
                network.calls[source].append((self.rule_of[node.name], target))
            case SequenceNode():
                self.chain(node.items, source, target)
            case Choice():
                self.todo += [(option, source, target) for option in node.options]
            case Repeat():
                self.repeat(node, source, target)

    def chain(self, items: Iterable[int], source: int, target: int) -> None:
        pending = list(items)
        if not pending:
            self.network.silent[source].append(target)
            return
        here = source
        for item in pending[:-1]:
            following = self.network.node()
            self.todo.append((item, here, following))
            here = following
        self.todo.append((pending[-1], here, target))

    def repeat(self, node: Repeat, source: int, target: int) -> None:
        network = self.network
        item = node.item
        copies = max(node.minimum, 1 if node.maximum is None else node.maximum)
        if network.size + copies > MAX_NODES:
            raise GrammarTooLarge(
                f"a repetition of {copies:,} is larger than the oracle can hold ({MAX_NODES:,} places)",
                node.position.line,
                node.position.column,
            )
        shared = copies > 1 and not isinstance(self.grammar.nodes[item], Characters | Token | Reference)
        here = source
        if node.maximum is None:
            for _ in range(node.minimum - 1):
                here = self.step(item, here, shared)
            loop = network.node()
            network.silent[here].append(loop)
            end = self.step(item, loop, shared)
            network.silent[end].append(loop)
            network.silent[loop if node.minimum == 0 else end].append(target)
            return
        for _ in range(node.minimum):
            here = self.step(item, here, shared)
        for _ in range(node.maximum - node.minimum):
            network.silent[here].append(target)
            here = self.step(item, here, shared)
        network.silent[here].append(target)

    def step(self, item: int, source: int, shared: bool) -> int:
        """One occurrence of a repeated item; returns the node behind it."""
        network = self.network
        behind = network.node()
        if not shared:
            self.todo.append((item, source, behind))
            return behind
        rule = self.rule_of_body.get(item)
        if rule is None:
            rule = self.rule_of_body[item] = network.rule()
            self.todo.append((item, network.starts[rule], network.exits[rule]))
        network.calls[source].append((rule, behind))
        return behind

    def characters(self, node: Characters, source: int, target: int) -> None:
        sequences = self.sequences.get(node.ranges)
        if sequences is None:
            sequences = self.sequences[node.ranges] = frozenset(utf8.byte_ranges(node.ranges))
        self.tail(sequences, source, target, 2 if node.negated else 1)

    def tail(self, sequences: frozenset[ByteSequence], source: int, target: int, inside: int) -> None:
        """Draw byte sequences from ``source`` to ``target``, sharing equal tails; at most four deep."""
        for low, high, tails in _by_first_byte(sequences):
            if not tails:
                self.network.byte_edges[source].append((low, high, target))
                continue
            key = (tails, target, inside)
            middle = self.tails.get(key)
            if middle is None:
                middle = self.tails[key] = self.network.node(inside)
                self.tail(tails, middle, target, inside)
            self.network.byte_edges[source].append((low, high, middle))

    def token_id(self, node: Token) -> int:
        if node.id is not None:
            if self.tokens is not None and node.id >= self.tokens:
                self.refuse(
                    f"token id {node.id} is outside the vocabulary (0..{self.tokens - 1})", node.position
                )
            return node.id
        if self.token_ids is None or node.text is None:
            self.refuse(f"token terminal {node.text!r} needs a vocabulary", node.position)
        found = self.token_ids.get(node.text.encode())
        if found is None:
            self.refuse(f"{node.text!r} is no token of the vocabulary", node.position)
        return found

    def refuse(self, message: str, position: Position) -> NoReturn:
        raise GrammarError(message, position.line, position.column)


def _by_first_byte(
    sequences: frozenset[ByteSequence],
) -> list[tuple[int, int, frozenset[ByteSequence]]]:
    """Split by first byte into disjoint ranges, each with the set of what may follow."""
    cuts = sorted({cut for first, *_ in sequences for cut in (first[0], first[1] + 1)})
    parts: list[tuple[int, int, frozenset[ByteSequence]]] = []
    for low, end in itertools.pairwise(cuts):
        here = [s for s in sequences if s[0][0] <= low and end - 1 <= s[0][1]]
        if not here:
            continue
        tails = frozenset(s[1:] for s in here if len(s) > 1)
        if parts and parts[-1][1] == low - 1 and parts[-1][2] == tails:
            parts[-1] = (parts[-1][0], end - 1, tails)
        else:
            parts.append((low, end - 1, tails))
    return parts


def _prune(network: Network) -> None:
    """Drop edges that lead nowhere, and find the rules that have the empty string."""
    productive = _reaching(network, terminals=True)
    empty = _reaching(network, terminals=False)
    network.nullable = [empty[start] for start in network.starts]
    for node in range(network.size):
        network.byte_edges[node] = [e for e in network.byte_edges[node] if productive[e[2]]]
        network.token_edges[node] = [e for e in network.token_edges[node] if productive[e[2]]]
        network.silent[node] = [target for target in network.silent[node] if productive[target]]
        network.calls[node] = [
            (rule, target)
            for rule, target in network.calls[node]
            if productive[target] and productive[network.starts[rule]]
        ]
        network.terminal[node] = (
            bool(network.byte_edges[node] or network.token_edges[node]) and (network.terminal[node])
        )


def _reaching(network: Network, terminals: bool) -> list[bool]:
    """Which nodes reach their rule's exit, over terminals as well or over silent ways only.

    A call counts once its rule's start is known to reach that rule's exit. Linear in the edges.
    """
    reaching = [False] * network.size
    before: list[list[int]] = [[] for _ in range(network.size)]
    calls_before: list[list[tuple[int, int]]] = [[] for _ in range(network.size)]
    for node in range(network.size):
        targets: Sequence[int] = network.silent[node]
        if terminals:
            targets = [*targets, *(e[2] for e in network.byte_edges[node])]
            targets = [*targets, *(e[2] for e in network.token_edges[node])]
        for target in targets:
            before[target].append(node)
        for rule, target in network.calls[node]:
            calls_before[target].append((rule, node))
    rule_of_start = {start: rule for rule, start in enumerate(network.starts)}
    waiting: dict[int, list[int]] = {}
    done: set[int] = set()
    todo = list(network.exits)
    while todo:
        node = todo.pop()
        if reaching[node]:
            continue
        reaching[node] = True
        todo += before[node]
        for rule, caller in calls_before[node]:
            if rule in done:
                todo.append(caller)
            else:
                waiting.setdefault(rule, []).append(caller)
        rule_here = rule_of_start.get(node)
        if rule_here is not None:
            done.add(rule_here)
            todo += waiting.pop(rule_here, [])
    return reaching
