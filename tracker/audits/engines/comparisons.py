"""The oracle next to each of the other parties, one grammar at a time.

Every function takes a grammar, asks both parties the same questions and adds to a tally. The oracle's side is
handed in as it is used in the audit: automaton and mask. Which prefixes are asked is decided by a source of
integers, along bytes or tokens that the oracle calls viable, with a last byte spoiled now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from oracle.automaton import DEAD, Automaton
from oracle.earley import InputToken, Recognizer
from oracle.gbnf import Grammar
from oracle.mask import Mask, Oracle
from tracker.audits.engines.drawing import Source
from tracker.audits.engines.tally import Opinion, Tally

HIDDEN_BYTES = "a token terminal hides that the same token also matches by its bytes"
"""The documented fault of llguidance; smallest case ``root ::= "ab" | <[97]>`` after token 97 (``a``)."""

CONFIRMED = 64
"""Tokens of one mask that the textbook recognizer is asked about before a mismatch counts as explained."""

Explanation = Callable[[list[int], NDArray[np.bool_], bool], str | None]
"""Names the fault that predicts exactly these allowed tokens and this end after a token path, if one does."""


class PrefixOpinion(Protocol):
    """A party that judges byte strings."""

    def ask(self, data: bytes) -> Opinion:
        """Whether some string of the language begins so, and whether this is one."""
        ...


class MaskOpinion(Protocol):
    """A party that gives masks after token paths."""

    def after(self, path: list[int]) -> MaskOpinion:
        """The same party after a path."""
        ...

    def mask(self) -> tuple[NDArray[np.bool_], bool]:
        """Allowed tokens and whether the output may end."""
        ...


def compare_prefixes(
    tally: Tally, text: str, automaton: Automaton, other: PrefixOpinion, source: Source, prefixes: int
) -> None:
    """Ask about byte strings."""
    tally.grammars += 1
    for data in {draw_bytes(automaton, source) for _ in range(prefixes)}:
        state = automaton.step(automaton.start, data)
        ours = Opinion(state != DEAD, automaton.accepting[state])
        theirs = other.ask(data)
        tally.pairs += 1
        tally.decisions += 2
        if ours != theirs:
            tally.mismatches.append(f"{text!r} after {data.hex()}: {ours} here, {theirs} there")


def draw_bytes(automaton: Automaton, source: Source) -> bytes:
    """Bytes along viable ones; the last is any byte, one time in four."""
    state, data = automaton.start, b""
    for _ in range(source.integer(0, 12)):
        viable = np.flatnonzero(automaton.row(state))
        if not len(viable):
            break
        byte = int(viable[source.integer(0, len(viable) - 1)])
        data += bytes([byte])
        state = int(automaton.row(state)[byte])
    if data and source.integer(0, 3) == 3:
        data = data[:-1] + bytes([source.integer(0, 255)])
    return data


def compare_with_textbook(
    tally: Tally, text: str, grammar: Grammar, oracle: Oracle, source: Source, paths: int
) -> None:
    """Ask the textbook recognizer about token paths, each from scratch."""
    tally.grammars += 1
    vocabulary = oracle.vocabulary
    recognizer = Recognizer(grammar, vocabulary.ids_by_text, oracle.end_tokens)
    for _ in range(paths):
        path = draw_path(oracle, source, 4)
        if path and source.integer(0, 3) == 3:
            path[-1] = source.integer(0, len(vocabulary) - 1)
        state = oracle.walk(path)
        tokens = [InputToken(token, vocabulary.pieces[token]) for token in path]
        ours = Opinion(state != DEAD, oracle.accepting(state))
        theirs = Opinion(recognizer.viable(tokens), recognizer.member(tokens))
        tally.pairs += 1
        tally.decisions += 2
        if ours != theirs:
            tally.mismatches.append(f"{text!r} after tokens {path}: {ours} here, {theirs} there")


def draw_path(oracle: Oracle, source: Source, longest: int) -> list[int]:
    """Tokens that the oracle allows, one after another."""
    state, path = oracle.start, []
    for _ in range(source.integer(0, longest)):
        token = draw_token(oracle.mask(state).tokens, source)
        if token is None:
            break
        path.append(token)
        state = oracle.step(state, token)
    return path


def draw_token(allowed: NDArray[np.bool_], source: Source) -> int | None:
    """One of the allowed tokens, if there is one."""
    tokens = np.flatnonzero(allowed)
    return int(tokens[source.integer(0, len(tokens) - 1)]) if len(tokens) else None


def compare_masks(
    tally: Tally,
    text: str,
    oracle: Oracle,
    other: MaskOpinion,
    source: Source,
    walks: int,
    longest: int,
    explain: Explanation | None = None,
) -> None:
    """Compare whole masks along random token paths; a state is compared once for each of its paths.

    A mismatch counts as explained where ``explain`` names a fault of the other party that predicts the mask.
    """
    tally.grammars += 1
    seen: set[tuple[int, ...]] = set()
    for _ in range(walks):
        path: list[int] = []
        for _ in range(longest):
            mask = oracle.mask(oracle.walk(path))
            allowed, end = other.after(path).mask()
            if tuple(path) not in seen:
                seen.add(tuple(path))
                tally.pairs += 1
                tally.decisions += len(allowed) + 1
                if not agree(oracle, mask, allowed, end):
                    why = explain(path, allowed, end) if explain else None
                    if why is None:
                        tally.mismatches.append(_described(oracle, text, path, mask, allowed, end))
                        break
                    tally.explained[why] += 1
            token = draw_token(mask.tokens & allowed, source)
            if token is None:
                break
            path.append(token)


def agree(oracle: Oracle, mask: Mask, allowed: NDArray[np.bool_], end: bool) -> bool:
    """Whether two masks are the same.

    The text of an end-of-generation token counts as text here and not in other engines; such a token may
    therefore be missing there, and nothing else.
    """
    different = mask.tokens != allowed
    ends = list(oracle.end_tokens)
    missing_ends = mask.tokens[ends] & ~allowed[ends]
    return mask.eos == end and int(different.sum()) == int(missing_ends.sum())


def llguidance_fault(oracle: Oracle, path: list[int], allowed: NDArray[np.bool_], end: bool) -> str | None:
    """``HIDDEN_BYTES`` if the mask is that of a token which a terminal takes and whose bytes do not match.

    Such a mask is also what a right engine gives where the oracle follows bytes wrongly, so the textbook
    recognizer has to side with the oracle on the end and on the tokens that differ: on all of them, or on
    ``CONFIRMED`` spread evenly where they are more, since each is recognized from scratch.
    """
    automaton = oracle.automaton
    state = oracle.start
    for token in path:
        as_terminal = automaton.step_token(state, token, b"", is_end=token in oracle.end_tokens)
        state = as_terminal if as_terminal != DEAD else oracle.step(state, token)
    if not agree(oracle, oracle.mask(state), allowed, end):
        return None
    ours = oracle.mask(oracle.walk(path))
    pieces = oracle.vocabulary.pieces
    different = np.flatnonzero(ours.tokens != allowed)
    recognizer = Recognizer(oracle.grammar, oracle.vocabulary.ids_by_text, oracle.end_tokens)
    before = [InputToken(token, pieces[token]) for token in path]
    confirmed = ours.eos == recognizer.member(before) and all(
        bool(ours.tokens[token]) == recognizer.viable([*before, InputToken(token, pieces[token])])
        for token in different[:: -(-len(different) // CONFIRMED) or 1].tolist()
    )
    return HIDDEN_BYTES if confirmed else None


def _described(
    oracle: Oracle, text: str, path: list[int], mask: Mask, allowed: NDArray[np.bool_], end: bool
) -> str:
    only_there = np.flatnonzero(allowed & ~mask.tokens)[:3].tolist()
    only_here = np.flatnonzero(mask.tokens & ~allowed)[:3].tolist()
    data = b"".join(oracle.vocabulary.pieces[token] for token in path).hex()
    return (
        f"{text!r} after {data} (tokens {path}): only there {only_there}, only here {only_here}, "
        f"end {mask.eos} here, {end} there"
    )
