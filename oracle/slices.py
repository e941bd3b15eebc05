"""What a state's loops make of a whole subtree of the trie, worked out once and used wherever it fits.

In most states that allow many tokens, most bytes lead around a few states: inside a string, every character
comes back to the string. How such a *neighbourhood* of states acts on the tokens below a node depends on its
transitions alone, not on what the grammar does outside it, so the outcome is kept by the neighbourhood's
transitions with local numbers (its *signature*) and serves every state of every grammar that has the same.

A slice says for each token below a node where it ends inside the neighbourhood, and which nodes leave it:
from these the walk goes on as usual. This module decides nothing about grammars; it reads the automaton's
table.
"""

from __future__ import annotations

import threading
import weakref
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.automaton import DEAD, Automaton
from oracle.vocabulary import Trie, ranges

_LARGEST = 16
"""States of a neighbourhood."""

_CLOSED = 8
"""States up to which all that can be reached is tried as a neighbourhood, so that nothing leaves it."""

_MANY = 4
"""Bytes that must lead to a state for it to be thought of as one that the output stays in."""

_LEAVES = 255
"""Local number of every state outside."""

_KEPT = 96
"""Slices kept; one of the root of a vocabulary of 150,000 tokens takes less than a megabyte."""


class Neighbourhood(NamedTuple):
    """States around one, numbered from 1 as they are found over bytes in order; the first is that one itself.

    Attributes:
        signature: the local table, uint8 of shape (states + 1, 256), as bytes; 0 is the dead state.
        states: int32, by local number: the automaton's state.
    """

    signature: bytes
    states: NDArray[np.int32]


class Slice(NamedTuple):
    """What a neighbourhood does below one node, whose children are all in its first state.

    Attributes:
        ends: uint8, by token below the node, in the trie's order: local number of the state behind it, 0 for
            none.
        leaving: intp, nodes at whose byte the neighbourhood is left, in the order of their tokens.
        before: uint8, the local state that each of them is left from.
        places: intp, where the tokens below each of them begin.
    """

    ends: NDArray[np.uint8]
    leaving: NDArray[np.intp]
    before: NDArray[np.uint8]
    places: NDArray[np.intp]


def neighbourhood(automaton: Automaton, state: int) -> Neighbourhood | None:
    """The neighbourhood of a state, or None where nothing comes back: then a slice would not pay."""
    if not _comes_back(automaton, state):
        return None
    around = _closed(automaton, state) or _around(automaton, state)
    table = automaton.table[around]
    local = np.full(table.shape, _LEAVES, dtype=np.uint8)
    local[table == DEAD] = 0
    for number, one in enumerate(around, 1):
        local[table == one] = number
    signature = np.concatenate([np.zeros((1, 256), dtype=np.uint8), local]).tobytes()
    return Neighbourhood(signature, np.array([DEAD, *around], dtype=np.int32))


def _comes_back(automaton: Automaton, state: int) -> bool:
    """Whether a byte leads from a state to itself, or a character of several bytes is under way or begins."""
    row = automaton.row(state)
    return (
        bool((row == state).any())
        or automaton.inside(state) > 0
        or any(automaton.inside(one) for one in np.unique(row).tolist())
    )


def _closed(automaton: Automaton, state: int) -> list[int] | None:
    """Everything that can be reached, if it is little."""
    found = [state]
    for one in found:
        for following in _following(automaton, one):
            if following not in found:
                if len(found) == _CLOSED:
                    return None
                found.append(following)
    return found


def _around(automaton: Automaton, state: int) -> list[int]:
    """States reached over characters under way and over states that come back to themselves."""
    found = [state]
    for one in found:
        inside = automaton.inside(one) > 0
        row = automaton.row(one)
        for following in _following(automaton, one):
            if following in found or len(found) == _LARGEST:
                continue
            if inside or automaton.inside(following):
                found.append(following)
            # To ask a state costs its row: only those are asked that many bytes lead to.
            elif int((row == following).sum()) >= _MANY and _comes_back(automaton, following):
                found.append(following)
    automaton.rows(found)
    return found


def _following(automaton: Automaton, state: int) -> list[int]:
    """States behind one, in the order of the first byte that leads there."""
    reached, first = np.unique(automaton.row(state), return_index=True)
    return [one for one in reached[np.argsort(first)].tolist() if one != DEAD]


class Slices:
    """The slices of one trie that are known; used by several threads."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int], Slice] = {}
        self._lock = threading.Lock()

    def get(self, signature: bytes, node: int) -> Slice | None:
        """A slice if it is known."""
        with self._lock:
            found = self._known.pop((signature, node), None)
            if found is not None:
                # Last used, last dropped.
                self._known[signature, node] = found
        return found

    def make(self, trie: Trie, signature: bytes, node: int) -> Slice:
        """Work out a slice and keep it."""
        made = _slice(trie, signature, node)
        with self._lock:
            while len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[signature, node] = made
        return made


_OF_TRIE: weakref.WeakKeyDictionary[Trie, Slices] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def slices_of(trie: Trie) -> Slices:
    """The slices of a trie, shared by all oracles over it and gone with it."""
    with _LOCK:
        return _OF_TRIE.setdefault(trie, Slices())


def _slice(trie: Trie, signature: bytes, node: int) -> Slice:
    table = np.frombuffer(signature, dtype=np.uint8)
    base = trie.token_begin[node]
    ends = np.zeros(trie.below_end[node] - base, dtype=np.uint8)
    nodes = np.arange(trie.first_child[node], trie.first_child[node] + trie.children[node])
    local = np.ones(len(nodes), dtype=np.uint8)
    leaving: list[NDArray[np.intp]] = []
    before: list[NDArray[np.uint8]] = []
    while len(nodes):
        own, lengths = ranges(trie.token_begin[nodes], trie.token_end[nodes])
        ends[own - base] = np.repeat(local, lengths)
        children, counts = ranges(trie.first_child[nodes], trie.first_child[nodes] + trie.children[nodes])
        come_from = np.repeat(local, counts)
        following = table[come_from.astype(np.intp) * 256 + trie.byte[children]]
        outside = following == _LEAVES
        leaving.append(children[outside])
        before.append(come_from[outside])
        alive = (following != 0) & ~outside
        nodes, local = children[alive], following[alive]
    out = np.concatenate(leaving) if leaving else np.zeros(0, dtype=np.intp)
    from_local = np.concatenate(before) if before else np.zeros(0, dtype=np.uint8)
    places = trie.token_begin[out]
    order = np.argsort(places, kind="stable")
    return Slice(ends, out[order], from_local[order], places[order])
