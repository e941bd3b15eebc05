"""Where every token leads from a state, by its bytes alone: the automaton walked over the trie.

Large subtrees of the trie that are entered in a state which comes back to itself are read off slices
(``oracle.slices``). The rest is walked level by level: whole levels at once where many nodes are alive, else
over the children of live nodes only. Below the first dozen levels most nodes repeat one byte (runs of
spaces); where a state stays what it is under a byte, such a run is done in one step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.automaton import DEAD, Automaton
from oracle.slices import Neighbourhood, Slice, neighbourhood, slices_of
from oracle.vocabulary import Trie, ranges

_SHALLOW = 12
"""Levels that are walked one by one; below them few nodes are left, most of them in runs of one byte."""

_DENSE = 0.25
"""Share of a level's nodes that must have a live parent for the whole level to be computed at once."""

FEW = 12
"""Live nodes up to which a step is cheaper node by node than with numpy."""

WIDE = 48
"""Children of a node from which on they are left to numpy."""

HEAVY = 500
"""Nodes below children of one node from which on a slice is looked for, else each child looked at singly."""

WORTH_A_SLICE = 1_000
"""Nodes below from which on a slice is made where there is none: making one costs a walk over all of them."""

Answer = TypeVar("Answer", np.int32, np.bool_)


class TokenSteps:
    """Steps of one automaton over all tokens of one trie at once. Remembers the latest answer."""

    def __init__(self, automaton: Automaton, trie: Trie):
        self._automaton = automaton
        self._trie = trie
        self._node_states = np.zeros(len(trie), dtype=np.int32)
        self._latest: tuple[int, NDArray[np.int32]] | None = None
        self._slices = slices_of(trie)
        self._neighbourhoods: dict[int, Neighbourhood | None] = {}

    def forget(self) -> None:
        """Drop the latest answer."""
        self._latest = None

    def alive(self, state: int) -> NDArray[np.bool_]:
        """Whether some string goes on behind every token, bool; false for tokens without bytes."""
        if self._latest is None or self._latest[0] != state:
            by_token = self._by_slices(state, np.dtype(np.bool_))
            if by_token is not None:
                return by_token
            self._latest = (state, self._by_levels(state))
        alive: NDArray[np.bool_] = self._latest[1] != DEAD
        return alive

    def after(self, state: int) -> NDArray[np.int32]:
        """The state behind every token, int32; dead for tokens without bytes. Not to be written to."""
        if self._latest is None or self._latest[0] != state:
            by_token = self._by_slices(state, np.dtype(np.int32))
            self._latest = (state, self._by_levels(state) if by_token is None else by_token)
        return self._latest[1]

    def _by_slices(self, state: int, kind: np.dtype[Answer]) -> NDArray[Answer] | None:
        """The states behind all tokens, or whether they are alive, where slices cover much; else None."""
        trie = self._trie
        states = self._node_states
        places: NDArray[Answer] | None = None
        seeds: list[NDArray[np.intp]] = []
        born: list[NDArray[np.intp]] = []
        todo = [(0, state)]
        while todo:
            node, here = todo.pop()
            for begin, end, target in self._runs(node, here):
                weight = int(trie.weight[end] - trie.weight[begin])
                found = self._slice(node, target, weight) if weight >= HEAVY else None
                if found is not None:
                    if places is None:
                        places = np.zeros(len(trie.tokens), dtype=kind)
                    seeds.append(self._take(found, node, begin, end, places))
                    continue
                states[begin:end] = target
                children = np.arange(begin, end)
                if weight < HEAVY:
                    seeds.append(children)
                    continue
                heavy = np.diff(trie.weight[begin : end + 1]) >= HEAVY
                seeds.append(children[~heavy])
                born.append(children[heavy])
                todo += [(child, target) for child in children[heavy].tolist()]
        alive: NDArray[np.intp] = np.concatenate([np.zeros(0, dtype=np.intp), *seeds])
        if places is None:
            states[alive] = DEAD
            for nodes in born:
                states[nodes] = DEAD
            return None
        nodes = np.concatenate([*born, alive, *self._walk_deep(alive)])
        own, counts = ranges(trie.token_begin[nodes], trie.token_end[nodes])
        places[own] = np.repeat(states[nodes], counts)
        states[nodes] = DEAD
        by_token: NDArray[Answer] = places[trie.rank]
        return by_token

    def _runs(self, node: int, state: int) -> Iterator[tuple[int, int, int]]:
        """Children of a node in groups that are next to each other and reach one state, which is not dead."""
        trie = self._trie
        first = int(trie.first_child[node])
        targets = self._automaton.row(state)[trie.byte[first : first + trie.children[node]]]
        cuts = [0, *(np.flatnonzero(targets[1:] != targets[:-1]) + 1).tolist(), len(targets)]
        for begin, end in itertools.pairwise(cuts):
            if begin < end and targets[begin] != DEAD:
                yield first + begin, first + end, int(targets[begin])

    def _slice(self, node: int, state: int, weight: int) -> tuple[Slice, Neighbourhood] | None:
        """The slice for children of a node that are in a state, if there is one or it is worth making."""
        if state not in self._neighbourhoods:
            self._neighbourhoods[state] = neighbourhood(self._automaton, state)
        around = self._neighbourhoods[state]
        if around is None:
            return None
        found = self._slices.get(around.signature, node)
        if found is None and weight >= WORTH_A_SLICE:
            found = self._slices.make(self._trie, around.signature, node)
        return None if found is None else (found, around)

    def _take(
        self,
        found: tuple[Slice, Neighbourhood],
        node: int,
        begin: int,
        end: int,
        places: NDArray[np.int32] | NDArray[np.bool_],
    ) -> NDArray[np.intp]:
        """Read the tokens below some children off a slice; returns the nodes alive outside it."""
        trie = self._trie
        one, around = found
        low, high = int(trie.token_begin[begin]), int(trie.below_end[end - 1])
        base = int(trie.token_begin[node])
        ends = one.ends[low - base : high - base]
        places[low:high] = ends != 0 if places.dtype == np.bool_ else around.states[ends]
        first, last = np.searchsorted(one.places, (low, high))
        leaving = one.leaving[first:last]
        before = around.states[one.before[first:last]]
        following = self._table(before)[before.astype(np.intp) * 256 + trie.byte[leaving]]
        alive = following != DEAD
        self._node_states[leaving[alive]] = following[alive]
        outside: NDArray[np.intp] = leaving[alive]
        return outside

    def _by_levels(self, state: int) -> NDArray[np.int32]:
        """The states behind all tokens, level by level."""
        trie = self._trie
        states = self._node_states
        states[0] = state
        # The last level walked as a whole; once few of its nodes live, those alone.
        level: NDArray[np.int32] = states[:1]
        begin = 0
        alive: NDArray[np.intp] | None = None
        born: list[NDArray[np.intp]] = []
        whole = 1
        for before, begin, end in zip(
            trie.levels, trie.levels[1:], trie.levels[2 : _SHALLOW + 2], strict=False
        ):
            if alive is None and np.count_nonzero(level) < _DENSE * (begin - before):
                alive = np.flatnonzero(level)
                alive += before
            if alive is not None and len(alive) <= FEW:
                break
            if alive is None:
                table = self._table(level)
                entries = np.take(states, trie.parent[begin:end], mode="clip").astype(np.intp)
                entries *= 256
                entries += trie.byte[begin:end]
                level = states[begin:end]
                np.take(table, entries, mode="clip", out=level)
                whole = end
            else:
                alive = self._step_sparse(self._table(states[alive]), alive)
                born.append(alive)
        if alive is None:
            alive = np.flatnonzero(level)
            alive += begin
        born += self._walk_deep(alive)
        states[0] = DEAD
        return self._by_token(whole, born)

    def _by_token(self, whole: int, born: list[NDArray[np.intp]]) -> NDArray[np.int32]:
        """The states of all tokens, read off the nodes, which are left dead for the next walk.

        Args:
            whole: nodes before this one were walked by whole levels.
            born: nodes behind it that have come alive.
        """
        trie = self._trie
        states = self._node_states
        if whole + sum(map(len, born)) > len(trie.node_of_token) // 8:
            by_token: NDArray[np.int32] = np.take(states, trie.node_of_token, mode="clip")
            states[:] = DEAD
            return by_token
        nodes = np.concatenate([np.flatnonzero(states[:whole]), *born])
        numbers, counts = ranges(trie.token_begin[nodes], trie.token_end[nodes])
        by_token = np.zeros(len(trie.node_of_token), dtype=np.int32)
        by_token[trie.tokens[numbers]] = np.repeat(states[nodes], counts)
        states[nodes] = DEAD
        return by_token

    def _walk_deep(self, alive: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Walk on from live nodes until none is left, whatever level they are on; returns those born."""
        trie = self._trie
        states = self._node_states
        born: list[NDArray[np.intp]] = []
        while len(alive):
            if len(alive) <= FEW:
                one_by_one, alive = self._walk_few(alive)
                born.append(one_by_one)
                continue
            here = states[alive]
            table = self._table(here)
            again = trie.repeats[alive]
            if again.any():
                # Where a state stays what it is under a byte, all repetitions of that byte are done at once.
                heads, here = alive[again], here[again]
                stays = table[here.astype(np.intp) * 256 + trie.byte[heads]] == here
                heads = heads[stays]
                run, lengths = ranges(trie.run_begin[heads], trie.run_end[heads])
                repeated = trie.run[run]
                states[repeated] = np.repeat(here[stays], lengths)
                born.append(repeated)
                alive = np.concatenate([alive, repeated])
            alive = self._step_sparse(table, alive)
            born.append(alive)
        return born

    def _walk_few(self, alive: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Walk on from few nodes without numpy's cost a step; returns those born, and those to go on from.

        Stops where nodes become many; a node of many children is left to numpy.
        """
        trie = self._trie
        states = self._node_states
        born: list[int] = []
        wide: list[int] = []
        todo = alive.tolist()
        while todo and len(todo) + len(wide) <= 2 * FEW:
            node = todo.pop()
            first, count = int(trie.first_child[node]), int(trie.children[node])
            if count > WIDE:
                wide.append(node)
                continue
            row = self._automaton.row(int(states[node]))
            for child in range(first, first + count):
                following = int(row[trie.byte[child]])
                if following != DEAD and states[child] == DEAD:
                    states[child] = following
                    born.append(child)
                    todo.append(child)
        rest = todo + wide
        if rest and len(rest) <= FEW:
            # Only wide nodes are left, and few: one step of numpy, from which the caller goes on.
            stepped = self._step_sparse(self._table(states[rest]), np.array(rest, dtype=np.intp))
            return np.concatenate([np.array(born, dtype=np.intp), stepped]), stepped
        return np.array(born, dtype=np.intp), np.array(rest, dtype=np.intp)

    def _table(self, states: NDArray[np.int32]) -> NDArray[np.int32]:
        """The automaton's table, flat, with the rows of these states made."""
        automaton = self._automaton
        ready = automaton.ready[states]
        if not ready.all():
            automaton.rows(np.unique(states[~ready]).tolist())
        table: NDArray[np.int32] = automaton.table.reshape(-1)
        return table

    def _step_sparse(self, table: NDArray[np.int32], alive: NDArray[np.intp]) -> NDArray[np.intp]:
        """Write the states of all children of some nodes; returns those that have just come alive."""
        trie = self._trie
        states = self._node_states
        begin = trie.first_child[alive]
        nodes, counts = ranges(begin, begin + trie.children[alive])
        entries = np.repeat(states[alive].astype(np.intp) * 256, counts)
        entries += trie.byte[nodes]
        following = table[entries]
        new = (following != DEAD) & (states[nodes] == DEAD)
        born: NDArray[np.intp] = nodes[new]
        states[born] = following[new]
        return born
