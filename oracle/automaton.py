"""The recognizer with interned states: from state and byte to state, by table.

Invariant: a state is the set of all ways in which the bytes so far can begin a string of the language. A way
is an item ``(node, continuation)``: a node of the network that waits for a terminal, and what happens when
that node's rule is done. A continuation is the set of items to go on with; in a textbook Earley set this is
what the origin stands for. Continuations are interned by content, not by the place where they arose, so that
two prefixes with the same future share a state, however they came there. Two things keep content finite where
the language allows it:

- a continuation whose node has nothing left to do is replaced by *its* continuation (a tail call), so that
  right recursion and loops do not pile up;
- rules that are called in the same set and refer to each other (left recursion) have continuations that
  contain themselves. Such a family is interned as a whole, its members named by their rules.

State 0 is the dead state (no way); the start is another one unless the language is empty. Rows of the table
are made on demand. This module knows bytes and token terminals, no vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.lowering import Network

DEAD = 0

_DONE = -1
"""Pseudo node of an item that means: the whole string is complete."""

_HALT = 0
"""The continuation of the root rule."""

Item = tuple[int, int]
"""Node and continuation. A continuation below zero stands for 'rule called in this set', as -1 - rule."""


class TokenEdges(NamedTuple):
    """What token terminals allow in a state.

    ``positive`` maps a token id to the items behind it, ``negated`` lists pairs of an excluded id and the
    items behind. Both refer to whole tokens at a token boundary.
    """

    positive: dict[int, frozenset[Item]]
    negated: tuple[tuple[int, frozenset[Item]], ...]


class Automaton:
    """A lazily built deterministic automaton over bytes.

    Attributes:
        table: int32 array of shape (capacity, 256); row ``s`` is valid where ``ready[s]``.
        ready: bool array of shape (capacity,): which rows have been made.
        accepting: by state, whether the bytes so far are a whole string of the language.
    """

    def __init__(self, network: Network):
        self.network = network
        self.table = np.zeros((64, 256), dtype=np.int32)
        self.accepting: list[bool] = []
        self._items: list[frozenset[Item]] = []
        self.ready = np.zeros(64, dtype=np.bool_)
        self._token_edges: list[TokenEdges | None] = []
        self._state_of: dict[tuple[frozenset[Item], bool], int] = {}
        self._state_of_kernel: dict[frozenset[Item], int] = {}
        self._contents: list[frozenset[Item]] = [frozenset({(_DONE, _HALT)})]
        self._continuation_of: dict[frozenset[Item], int] = {self._contents[0]: _HALT}
        self._family_of: dict[frozenset[tuple[int, frozenset[Item]]], dict[int, int]] = {}
        self._exits = frozenset(network.exits)
        self._ends = _ending_nodes(network)
        self._state(frozenset(), False)
        self.ready[DEAD] = True
        self.start = self._from_kernel(frozenset({(network.starts[network.root], _HALT)}))

    def __len__(self) -> int:
        return len(self._items)

    @property
    def continuations(self) -> int:
        """Number of interned continuations."""
        return len(self._contents)

    # -- walking -------------------------------------------------------------------------------------------

    def row(self, state: int) -> NDArray[np.int32]:
        """The 256 next states of a state, int32. Computes the row on first use."""
        if not self.ready[state]:
            self._make_row(state)
        row: NDArray[np.int32] = self.table[state]
        return row

    def rows(self, states: Iterable[int]) -> None:
        """Make the rows of several states."""
        for state in states:
            if not self.ready[state]:
                self._make_row(state)

    def step(self, state: int, data: bytes) -> int:
        """The state after some bytes."""
        for byte in data:
            state = int(self.row(state)[byte])
            if state == DEAD:
                break
        return state

    def token_edges(self, state: int) -> TokenEdges:
        """What token terminals allow in this state."""
        edges = self._token_edges[state]
        if edges is None:
            positive: dict[int, set[Item]] = {}
            negated: dict[int, set[Item]] = {}
            for node, continuation in self._items[state]:
                for token, is_negated, target in self.network.token_edges[node]:
                    kernel = (negated if is_negated else positive).setdefault(token, set())
                    kernel.update(self._target(target, continuation))
            edges = self._token_edges[state] = TokenEdges(
                {token: frozenset(kernel) for token, kernel in positive.items()},
                tuple((token, frozenset(kernel)) for token, kernel in sorted(negated.items())),
            )
        return edges

    def step_token(self, state: int, token: int, data: bytes, is_end: bool = False) -> int:
        """The state after one whole token, by its bytes and by token terminals together.

        Args:
            state: at a token boundary.
            token: the token's id.
            data: its bytes; empty for a token without text.
            is_end: an end-of-generation token, which a negated terminal does not match.
        """
        by_bytes = self.step(state, data) if data else DEAD
        edges = self.token_edges(state)
        if not edges.positive and not edges.negated:
            return by_bytes
        kernel = set(edges.positive.get(token, frozenset()))
        for excluded, targets in edges.negated:
            if token != excluded and not is_end:
                kernel |= targets
        if not kernel:
            return by_bytes
        if by_bytes != DEAD:
            kernel |= self._items[by_bytes]
            if self.accepting[by_bytes]:
                kernel.add((_DONE, _HALT))
        return self._from_kernel(frozenset(kernel))

    def inside(self, state: int) -> int:
        """Whether a state lies inside a code point: 0 no, 1 yes, 2 yes and a negated class is pending."""
        return max((self.network.inside[node] for node, _ in self._items[state]), default=0)

    def positions(self, state: int) -> frozenset[int]:
        """Nodes of the network that stand before a terminal in this state."""
        return frozenset(node for node, _ in self._items[state] if self.network.terminal[node])

    # -- construction --------------------------------------------------------------------------------------

    def _state(self, items: frozenset[Item], accepting: bool) -> int:
        key = (items, accepting)
        state = self._state_of.get(key)
        if state is None:
            state = self._state_of[key] = len(self._items)
            self._items.append(items)
            self.accepting.append(accepting)
            self._token_edges.append(None)
            if state >= len(self.table):
                self.table = np.concatenate([self.table, np.zeros_like(self.table)])
                self.ready = np.concatenate([self.ready, np.zeros_like(self.ready)])
        return state

    def _from_kernel(self, kernel: frozenset[Item]) -> int:
        state = self._state_of_kernel.get(kernel)
        if state is None:
            state = self._state_of_kernel[kernel] = self._state(*self._close(kernel))
        return state

    def _make_row(self, state: int) -> None:
        """Fill a row: sweep over the bytes at which some edge begins or ends."""
        begins: dict[int, list[Item]] = {}
        ends: dict[int, list[Item]] = {}
        for node, continuation in self._items[state]:
            for low, high, target in self.network.byte_edges[node]:
                begins.setdefault(low, []).append((target, continuation))
                ends.setdefault(high + 1, []).append((target, continuation))
        active: dict[Item, int] = {}
        row = np.zeros(256, dtype=np.int32)
        cuts = sorted(begins.keys() | ends.keys())
        for index, cut in enumerate(cuts):
            for item in ends.get(cut, ()):
                active[item] -= 1
                if not active[item]:
                    del active[item]
            for item in begins.get(cut, ()):
                active[item] = active.get(item, 0) + 1
            if active:
                kernel: set[Item] = set()
                for target, continuation in active:
                    kernel.update(self._target(target, continuation))
                row[cut : cuts[index + 1]] = self._from_kernel(frozenset(kernel))
        self.table[state] = row
        self.ready[state] = True

    def _target(self, node: int, continuation: int) -> Iterable[Item]:
        """An item, or what it stands for when its node has nothing left to do."""
        return self._contents[continuation] if self._ends[node] else ((node, continuation),)

    def _close(self, kernel: frozenset[Item]) -> tuple[frozenset[Item], bool]:
        """Follow silent edges, calls and returns; keep the items that wait for a terminal."""
        network = self.network
        seen: set[Item] = set(kernel)
        todo: list[Item] = list(kernel)
        returns: dict[int, set[Item]] = {}
        waiting: list[Item] = []
        accepting = False

        def add(item: Item) -> None:
            if item not in seen:
                seen.add(item)
                todo.append(item)

        while todo:
            item = todo.pop()
            node, continuation = item
            if node == _DONE:
                accepting = True
                continue
            if network.byte_edges[node] or network.token_edges[node]:
                waiting.append(item)
            for target in network.silent[node]:
                add((target, continuation))
            # A rule that began in this very set and is done has matched the empty string, which the call
            # below has already stepped over.
            if node in self._exits and continuation >= 0:
                for following in self._contents[continuation]:
                    add(following)
            for rule, target in network.calls[node]:
                points = returns.setdefault(rule, set())
                if (target, continuation) not in points:
                    points.add((target, continuation))
                    if network.nullable[rule]:
                        add((target, continuation))
                add((network.starts[rule], -1 - rule))
        resolved = self._resolve({-1 - c for _, c in waiting if c < 0}, returns)
        return frozenset((n, c if c >= 0 else resolved[-1 - c]) for n, c in waiting), accepting

    def _resolve(self, wanted: set[int], returns: dict[int, set[Item]]) -> dict[int, int]:
        """Interned continuations of the rules called in one set.

        Args:
            wanted: rules whose continuation is needed.
            returns: by rule, where to go on after it, with continuations that may be rules of this set.
        """
        resolved: dict[int, int] = {}
        if not wanted:
            return resolved
        points: dict[int, frozenset[Item]] = {}
        todo = sorted(wanted)
        while todo:
            rule = todo.pop()
            if rule not in points:
                points[rule] = self._without_tails(rule, returns)
                todo += sorted({-1 - continuation for _, continuation in points[rule] if continuation < 0})
        for family in _components(points):
            self._intern_family(family, points, resolved)
        return resolved

    def _without_tails(self, rule: int, returns: dict[int, set[Item]]) -> frozenset[Item]:
        """Return points of a rule, with those that have nothing left to do replaced by theirs."""
        found: set[Item] = set()
        seen = {rule}
        todo = [rule]
        while todo:
            for node, continuation in returns[todo.pop()]:
                if not self._ends[node]:
                    found.add((node, continuation))
                elif continuation >= 0:
                    found |= self._contents[continuation]
                elif (caller := -1 - continuation) not in seen:
                    seen.add(caller)
                    todo.append(caller)
        return frozenset(found)

    def _intern_family(
        self, family: list[int], points: dict[int, frozenset[Item]], resolved: dict[int, int]
    ) -> None:
        """Intern the continuations of rules that refer to each other; callers outside come later."""
        outside = {
            rule: frozenset(
                (n, resolved[-1 - c] if c < 0 and -1 - c in resolved else c) for n, c in points[rule]
            )
            for rule in family
        }
        if len(family) == 1 and all(c >= 0 for _, c in outside[family[0]]):
            resolved[family[0]] = self._continuation(outside[family[0]])
            return
        key = frozenset(outside.items())
        known = self._family_of.get(key)
        if known is None:
            known = {}
            for rule in family:
                known[rule] = len(self._contents)
                self._contents.append(frozenset())
            for rule in family:
                content = frozenset((n, c if c >= 0 else known[-1 - c]) for n, c in outside[rule])
                self._contents[known[rule]] = content
                self._continuation_of[content] = known[rule]
            self._family_of[key] = known
        resolved.update(known)

    def _continuation(self, content: frozenset[Item]) -> int:
        number = self._continuation_of.get(content)
        if number is None:
            number = self._continuation_of[content] = len(self._contents)
            self._contents.append(content)
        return number


def _ending_nodes(network: Network) -> list[bool]:
    """Nodes from which silent edges lead to the rule's exit and nothing else can happen."""
    exits = set(network.exits)
    busy = [
        bool(network.byte_edges[n] or network.token_edges[n] or network.calls[n]) for n in range(network.size)
    ]
    before: list[list[int]] = [[] for _ in range(network.size)]
    for node, targets in enumerate(network.silent):
        for target in targets:
            before[target].append(node)
    todo = [node for node in range(network.size) if busy[node]]
    while todo:
        for node in before[todo.pop()]:
            if not busy[node]:
                busy[node] = True
                todo.append(node)
    return [not busy[n] and (n in exits or bool(network.silent[n])) for n in range(network.size)]


def _components(points: dict[int, frozenset[Item]]) -> list[list[int]]:
    """Strongly connected components, each after those that it refers to (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in points:
        if root in index:
            continue
        work = [(root, iter(sorted({-1 - c for _, c in points[root] if c < 0})))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            rule, successors = work[-1]
            for following in successors:
                if following not in index:
                    index[following] = low[following] = len(index)
                    stack.append(following)
                    on_stack.add(following)
                    work.append((following, iter(sorted({-1 - c for _, c in points[following] if c < 0}))))
                    break
                if following in on_stack:
                    low[rule] = min(low[rule], index[following])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[rule])
                if low[rule] == index[rule]:
                    family: list[int] = []
                    while not family or family[-1] != rule:
                        family.append(stack.pop())
                        on_stack.discard(family[-1])
                    found.append(sorted(family))
    return found
