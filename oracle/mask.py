"""Automaton times trie: the true token mask of a state.

A token is allowed iff its bytes lead from the state to a state that is not dead, or a token terminal of the
state takes it as a whole. Masks are remembered by state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.automaton import DEAD, Automaton
from oracle.gbnf import Grammar, parse
from oracle.lowering import lower
from oracle.token_steps import TokenSteps
from oracle.vocabulary import Vocabulary


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
        self._steps = TokenSteps(self.automaton, vocabulary.trie)

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
        """The state behind every token, ``DEAD`` where not viable: int32, shape (vocabulary size,).

        Not to be written to.
        """
        following = self._steps.after(state)
        edges = self.automaton.token_edges(state)
        if edges.positive or edges.negated:
            following = following.copy()
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
        self._steps.forget()

    def compute_mask(self, state: int) -> Mask:
        """The mask of a state, computed afresh."""
        if state == DEAD:
            return Mask(np.zeros(len(self.vocabulary), dtype=np.bool_), False)
        tokens = self._steps.alive(state)
        edges = self.automaton.token_edges(state)
        for excluded, _ in edges.negated:
            whole = np.ones(len(tokens), dtype=np.bool_)
            whole[[excluded, *self.end_tokens]] = False
            tokens |= whole
        tokens[list(edges.positive)] = True
        return Mask(tokens, self.automaton.accepting[state])
