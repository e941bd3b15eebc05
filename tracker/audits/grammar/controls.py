"""What makes a result trustworthy: checks of the tracker itself, made on every audit.

A control that fails takes all verdicts away. Each of them can fail: the positive control looks for
differences that are known to be there, the null control for differences that must not be.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from oracle import utf8
from oracle.mask import Oracle
from oracle.vocabulary import Vocabulary
from tracker.audits.grammar.compare import Ends
from tracker.audits.grammar.corpus import CorpusEntry
from tracker.libllama.client import LibllamaClient, VocabularyPieces
from tracker.results import Control

NARROW = "root ::= [a-y]+"
WIDE = "root ::= [a-z]+"


@dataclass(frozen=True)
class KeptMask:
    """A mask that the build gave once, packed, to be asked for again."""

    grammar: str
    path: tuple[int, ...]
    packed: bytes


def vocabulary_control(vocabulary: Vocabulary, build: VocabularyPieces) -> Control:
    """Whether the build spells every token as our own reader does."""
    compared = min(len(vocabulary), build.n_vocab)
    different = [t for t in range(compared) if vocabulary.pieces[t] != build.pieces[t]]
    passed = len(vocabulary) == build.n_vocab and not different
    detail = f"{compared:,} tokens spelled the same by our reader and by the build"
    if different:
        first = different[0]
        detail = (
            f"{len(different)} of {compared:,} tokens differ, first {first}: "
            f"{vocabulary.pieces[first].hex()} here, {build.pieces[first].hex()} in the build"
        )
    elif not passed:
        detail = f"{len(vocabulary):,} tokens here, {build.n_vocab:,} in the build"
    return Control(
        name="vocabulary parity",
        passed=passed,
        detail=detail,
        figures={"tokens": compared, "different": len(different)},
    )


def positive_controls(
    vocabulary: Vocabulary, client: LibllamaClient, ends: Ends, *, well_formed_only: bool = False
) -> tuple[Control, Control]:
    """Differences that are known to be there must all be flagged, and nothing else.

    The build gets ``[a-y]+`` and the oracle ``[a-z]+``, then the other way round. The tokens that must differ
    are found by a regular expression, without grammar and oracle: lower-case words with a z in them.

    Args:
        vocabulary: as our reader sees it.
        client: of the build.
        ends: the build's end-of-generation tokens.
        well_formed_only: leave out tokens that are not whole characters or contain NUL. For a vocabulary that
            is made of what builds decode wrongly; such tokens differ with the same grammar on both sides.
    """
    words = re.compile(rb"[a-z]*z[a-z]*")
    expected = {token for token, piece in enumerate(vocabulary.pieces) if words.fullmatch(piece)}
    scope = np.array([not well_formed_only or _is_text(piece) for piece in vocabulary.pieces])
    narrow, wide = Oracle(NARROW, vocabulary), Oracle(WIDE, vocabulary)
    allowed_narrow = client.mask(NARROW, ()).allowed & ~ends.all
    allowed_wide = client.mask(WIDE, ()).allowed & ~ends.all
    right_wide = wide.mask(wide.start).tokens
    right_narrow = narrow.mask(narrow.start).tokens
    return (
        _positive(
            "[a-y]+ in the build, [a-z]+ in the oracle", (right_wide ^ allowed_narrow) & scope, expected
        ),
        _positive(
            "[a-z]+ in the build, [a-y]+ in the oracle", (right_narrow ^ allowed_wide) & scope, expected
        ),
    )


def _is_text(piece: bytes) -> bool:
    found = utf8.scan(piece)
    return found.offence is None and not found.pending and b"\0" not in piece


def _positive(name: str, different: np.ndarray, expected: set[int]) -> Control:
    flagged = set(np.flatnonzero(different).tolist())
    hits = len(flagged & expected)
    recall = hits / len(expected) if expected else 0.0
    precision = hits / len(flagged) if flagged else 0.0
    return Control(
        name=f"positive: {name}",
        passed=bool(expected) and flagged == expected,
        detail=f"{hits} of {len(expected)} planted differences flagged, {len(flagged) - hits} others",
        figures={
            "expected": len(expected),
            "flagged": len(flagged),
            "recall": recall,
            "precision": precision,
        },
    )


def asked_again(client: LibllamaClient, kept: Sequence[KeptMask]) -> int:
    """How many masks of a first pass are others when asked for again in the opposite order.

    Args:
        client: one whose child has answered nothing yet.
        kept: masks of the first pass.
    """
    different = 0
    asked: deque[KeptMask] = deque()
    for mask in [*reversed(kept), None]:
        if mask is not None:
            client.send_mask(mask.grammar, mask.path)
            asked.append(mask)
        if len(asked) > (mask is not None):
            again = np.packbits(client.receive_mask().allowed).tobytes()
            different += again != asked.popleft().packed
    return different


def null_control(different: int, again: int, asked: int) -> Control:
    """Whether fresh children give the same masks as the first pass.

    Args:
        different: masks that were others when they were asked for again.
        again: masks that were asked for again; a tenth at least.
        asked: how many states the first pass asked in all.
    """
    share = again / asked if asked else 0.0
    detail = f"{again} of {asked} states asked again of a fresh child, {different} answered differently"
    return Control(
        name="null",
        passed=not different and share >= 0.1,
        detail=detail,
        figures={"again": again, "asked": asked, "different": different},
    )


def known_masks_control(vocabulary: Vocabulary, entries: Iterable[CorpusEntry]) -> Control:
    """Whether the oracle gives the numbers that are known from elsewhere."""
    checked = 0
    wrong: list[str] = []
    for entry in entries:
        oracle = Oracle(entry.text, vocabulary) if entry.expected else None
        for known in entry.expected:
            assert oracle is not None
            state = oracle.automaton.step(oracle.start, bytes.fromhex(known.after))
            tokens = int(oracle.mask(state).tokens.sum())
            checked += 1
            if tokens != known.tokens:
                wrong.append(f"{entry.name} after '{known.after}': {tokens} tokens, known are {known.tokens}")
    return Control(
        name="known masks",
        passed=bool(checked) and not wrong,
        detail=wrong[0] if wrong else f"{checked} masks of the oracle have the size known from elsewhere",
        figures={"checked": checked, "wrong": len(wrong)},
    )
