"""Following the hole: what the build lets come after a token that it should not have allowed.

A prefix that begins no string of the grammar has no continuation that does, so there are two ends: the build
reports an invalid output as complete, or every continuation dies. The search follows only what the build
allows, one byte at a time where it can, and is led by a shortest way to finish a string of the grammar from
the same place, since that is the way on which the library believes to be.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from oracle import utf8
from oracle.automaton import DEAD, Automaton
from oracle.mask import Oracle
from tracker.audits.grammar.causes import missing_bytes
from tracker.audits.grammar.compare import BoolMask, Ends, Place
from tracker.libllama.client import LibllamaClient
from tracker.results import Escape

MAX_ASKED = 24
"""States asked of the build in one search."""

FEW = 24
"""A mask with at most so many tokens is followed in full, so that a dead end is proved."""

FIRST_MULTIBYTE_LEAD = 0xC2

MAX_COMPLETION = 4000
"""States looked at for a shortest completion."""


@dataclass(frozen=True)
class _Step:
    path: tuple[int, ...]
    output: bytes
    hint: tuple[int, ...]
    """Tokens that would finish the string from here, if the library believes what it seems to."""


def follow(
    oracle: Oracle, client: LibllamaClient, grammar: str, ends: Ends, place: Place, token: int
) -> Escape:
    """Search for a way from an unsound token to the end of generation.

    Raises:
        WorkerDied: the library died on the way, which is a finding of its own.
    """
    pieces = oracle.vocabulary.pieces
    output = place.prefix + pieces[token]
    hint = _completion(oracle, _behind_one_character(oracle.automaton, place.state))
    stack = [_Step((*place.path, token), output, hint)]
    asked = 0
    proved = True
    while stack:
        step = stack.pop()
        if asked >= MAX_ASKED:
            return _escape("bound", step, place, asked)
        reply = client.mask(grammar, step.path)
        asked += 1
        if reply.allowed[ends.all].any():
            return _escape("end-of-generation", step, place, asked)
        candidates, all_of_them = _candidates(oracle, reply.allowed & ~ends.all, step)
        proved &= all_of_them
        for candidate, hint in reversed(candidates):
            stack.append(_Step((*step.path, candidate), step.output + pieces[candidate], hint))
    last = _Step((*place.path, token), output, ())
    return _escape("dead-end" if proved else "bound", last, place, asked)


def _escape(outcome: str, step: _Step, place: Place, asked: int) -> Escape:
    text = utf8.scan(step.output[place.text_start :])
    return Escape.model_validate(
        {
            "outcome": outcome,
            "bytes": step.output.hex(),
            "path": step.path,
            "well_formed": text.offence is None and not text.pending,
            "explored": asked,
        }
    )


def _candidates(
    oracle: Oracle, allowed: BoolMask, step: _Step
) -> tuple[list[tuple[int, tuple[int, ...]]], bool]:
    """Tokens to follow, best first, each with the hint behind it; and whether these are all there are."""
    inside = missing_bytes(step.output) > 0
    order = oracle.vocabulary.shortest_first
    shortest = order[allowed[order]]
    few = len(shortest) <= FEW
    chosen: list[tuple[int, tuple[int, ...]]] = []
    if not inside and step.hint and allowed[step.hint[0]]:
        chosen.append((step.hint[0], step.hint[1:]))
    for token in (shortest if few else shortest[:2]).tolist():
        if all(token != other for other, _ in chosen):
            chosen.append((token, step.hint if inside else ()))
    return chosen, few


def _behind_one_character(automaton: Automaton, state: int) -> list[int]:
    """States after the rest of the character begun, or after one multibyte character from a clean state."""
    row = automaton.row(state)
    bytes_here = np.flatnonzero(row)
    if not automaton.inside(state):
        bytes_here = bytes_here[bytes_here >= FIRST_MULTIBYTE_LEAD]
    level = np.unique(row[bytes_here]).tolist()
    behind: list[int] = []
    while level:
        behind += [s for s in level if not automaton.inside(s) and s not in behind]
        level = [s for s in level if automaton.inside(s)]
        level = sorted({int(s) for inner in level for s in automaton.row(inner) if s != DEAD})
    return behind


def _completion(oracle: Oracle, begin: list[int]) -> tuple[int, ...]:
    """Tokens that finish a string from one of these states, the fewest; empty if none are near."""
    automaton = oracle.automaton
    by_byte = oracle.vocabulary.single_bytes
    queue: deque[tuple[int, tuple[int, ...]]] = deque((state, ()) for state in begin)
    seen = set(begin)
    while queue and len(seen) < MAX_COMPLETION:
        state, way = queue.popleft()
        if automaton.accepting[state]:
            return way
        following = [
            (int(automaton.row(state)[byte]), by_byte[byte])
            for byte in np.flatnonzero(automaton.row(state)).tolist()
            if byte in by_byte
        ]
        following += [(oracle.step(state, token), token) for token in automaton.token_edges(state).positive]
        for reached, token in following:
            if reached != DEAD and reached not in seen:
                seen.add(reached)
                queue.append((reached, (*way, token)))
    return ()
