"""Automaton times trie: the true token mask of a state.

A token is allowed iff its bytes lead from the state to a state that is not dead, or a token terminal of the
state takes it as a whole. The trie is walked level by level: whole levels at once where many nodes are alive,
else over the children of live nodes only. Below the first dozen levels most nodes repeat one byte (runs of
spaces); where a state stays what it is under a byte, such a run is done in one step. Masks are remembered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.automaton import DEAD, Automaton
from oracle.gbnf import Grammar, parse
from oracle.lowering import lower
from oracle.slices import Neighbourhood, Slice, Slices, neighbourhood
from oracle.vocabulary import Vocabulary, ranges

_SHALLOW = 12
"""Levels that are walked one by one; below them few nodes are left, most of them in runs of one byte."""

_DENSE = 0.25
"""Share of a level's nodes that must have a live parent for the whole level to be computed at once."""


class Mask(NamedTuple):
    """What is right in a state.

    Attributes:
        tokens: bool array of shape (vocabulary size,): the token can be continued to a string of the grammar.
        eos: the output so far is a string of the grammar.
    """

    tokens: NDArray[np.bool_]
    eos: bool


class Oracle:
    """The exact mask of one grammar over one vocabulary.

    Args:
        grammar: GBNF text, or a parsed grammar.
        vocabulary: the tokens.
        end_tokens: ids that count as end of generation and so are matched by no negated token terminal; by
            default those that the vocabulary's file declares.
        remember: how many masks are kept.

    Raises:
        GrammarError: the text is no grammar, or names a token that the vocabulary does not have.
    """

    def __init__(
        self,
        grammar: str | bytes | Grammar,
        vocabulary: Vocabulary,
        *,
        end_tokens: frozenset[int] | None = None,
        remember: int = 4096,
    ):
        self.grammar = grammar if isinstance(grammar, Grammar) else parse(grammar)
        self.vocabulary = vocabulary
        self.end_tokens = vocabulary.end_tokens if end_tokens is None else end_tokens
        self.network = lower(self.grammar, vocabulary.ids_by_text, len(vocabulary))
        self.automaton = Automaton(self.network)
        self._remember = remember
        self._masks: dict[int, Mask] = {}
        self._node_states = np.zeros(len(vocabulary.trie), dtype=np.int32)
        self._latest: tuple[int, NDArray[np.int32]] | None = None

    @property
    def start(self) -> int:
        """The state before any token."""
        return self.automaton.start

    def accepting(self, state: int) -> bool:
        """Whether the output so far is a string of the grammar."""
        return self.automaton.accepting[state]

    def step(self, state: int, token: int) -> int:
        """The state after one token; ``DEAD`` (0) when the token is not viable."""
        return self.automaton.step_token(
            state, token, self.vocabulary.pieces[token], is_end=token in self.end_tokens
        )

    def walk(self, path: tuple[int, ...] | list[int]) -> int:
        """The state after a token path from the start."""
        state = self.start
        for token in path:
            if state == DEAD:
                break
            state = self.step(state, token)
        return state

    def successors(self, state: int) -> NDArray[np.int32]:
        """The state behind every token, ``DEAD`` where not viable: int32, shape (vocabulary size,)."""
        following = self._following(state).copy()
        edges = self.automaton.token_edges(state)
        if edges.positive or edges.negated:
            special = {*edges.positive, *self.end_tokens, *(excluded for excluded, _ in edges.negated)}
            ordinary = np.ones(len(following), dtype=np.bool_)
            ordinary[list(special)] = False
            by_bytes = following.copy()
            # Tokens that reach one state by their bytes and are named by no terminal share their outcome.
            for reached in np.unique(by_bytes[ordinary]).tolist():
                alike = ordinary & (by_bytes == reached)
                following[alike] = self.step(state, int(np.argmax(alike)))
            for token in special:
                following[token] = self.step(state, token)
        return following

    def mask(self, state: int) -> Mask:
        """The mask of a state, remembered."""
        known = self._masks.get(state)
        if known is None:
            if len(self._masks) >= self._remember:
                self._masks.pop(next(iter(self._masks)))
            known = self._masks[state] = self.compute_mask(state)
        return known

    def forget(self) -> None:
        """Drop all remembered masks; the automaton keeps its rows."""
        self._masks.clear()
        self._latest = None

    def compute_mask(self, state: int) -> Mask:
        """The mask of a state, computed afresh."""
        if state == DEAD:
            return Mask(np.zeros(len(self.vocabulary), dtype=np.bool_), False)
        tokens: NDArray[np.bool_] = self._following(state) != DEAD
        edges = self.automaton.token_edges(state)
        for excluded, _ in edges.negated:
            whole = np.ones(len(tokens), dtype=np.bool_)
            whole[[excluded, *self.end_tokens]] = False
            tokens |= whole
        tokens[list(edges.positive)] = True
        return Mask(tokens, self.automaton.accepting[state])

    def _following(self, state: int) -> NDArray[np.int32]:
        """The state behind every token by its bytes alone; the latest answer is kept."""
        if self._latest is not None and self._latest[0] == state:
            return self._latest[1]
        trie = self.vocabulary.trie
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
        by_token = self._by_token(whole, born)
        self._latest = (state, by_token)
        return by_token

    def _by_token(self, whole: int, born: list[NDArray[np.intp]]) -> NDArray[np.int32]:
        """The states of all tokens, read off the nodes, which are left dead for the next walk.

        Args:
            whole: nodes before this one were walked by whole levels.
            born: nodes behind it that have come alive.
        """
        trie = self.vocabulary.trie
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
        trie = self.vocabulary.trie
        states = self._node_states
        born: list[NDArray[np.intp]] = []
        while len(alive):
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

    def _table(self, states: NDArray[np.int32]) -> NDArray[np.int32]:
        """The automaton's table, flat, with the rows of these states made."""
        automaton = self.automaton
        ready = automaton.ready[states]
        if not ready.all():
            automaton.rows(np.unique(states[~ready]).tolist())
        table: NDArray[np.int32] = automaton.table.reshape(-1)
        return table

    def _step_sparse(self, table: NDArray[np.int32], alive: NDArray[np.intp]) -> NDArray[np.intp]:
        """Write the states of all children of some nodes; returns those that have just come alive."""
        trie = self.vocabulary.trie
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
