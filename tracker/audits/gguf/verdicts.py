"""Holds a build's outcome against our reader's verdict and names the difference.

Pure: two verdicts in, a kind and a cause out. Where a rule of ours is a matter of policy, so is the
difference.
"""

from __future__ import annotations

from oracle.gguf import Rule
from tracker.audits.gguf.build_reader import Outcome, OutcomeKind, Reader, cause_of_death, last_words
from tracker.audits.gguf.mutants import Family, Mutant
from tracker.audits.gguf.own_reader import OwnVerdict
from tracker.results import Kind

Difference = tuple[Kind, str]
"""What is wrong, and its cause."""

_DEATHS = {
    OutcomeKind.CRASH: Kind.CRASH,
    OutcomeKind.HANG: Kind.HANG,
    OutcomeKind.MEMORY: Kind.OOM,
}


def difference(mutant: Mutant, own: OwnVerdict, outcome: Outcome, reader: Reader) -> Difference | None:
    """The finding that this file is for this reader, or None."""
    if outcome.kind in _DEATHS:
        return _DEATHS[outcome.kind], cause_of_death(outcome)
    if outcome.kind is OutcomeKind.ACCEPTED:
        return _accepted(own, outcome, reader)
    if mutant.family is Family.SEED:
        return Kind.REFUSES_VALID, f"seed refused: {last_words(outcome)}"
    return _refused(own, outcome, reader)


def _accepted(own: OwnVerdict, outcome: Outcome, reader: Reader) -> Difference | None:
    if own.rule is None:
        # Our reader checked places and names; a build that contradicts itself on an honest file is news.
        return (Kind.ACCEPTS_IMPOSSIBLE, outcome.notes[0]) if outcome.notes else None
    if own.rule is Rule.EXTENT and reader is Reader.DIRECTORY:
        # Without data, whoever maps the tensors may be the one to look; the other readers show who does.
        return Kind.POLICY, f"{own.rule} (data not asked for)"
    return (Kind.ACCEPTS_IMPOSSIBLE if own.impossible else Kind.POLICY), str(own.rule)


def _refused(own: OwnVerdict, outcome: Outcome, reader: Reader) -> Difference | None:
    # A valid file need not be a model with a vocabulary, so that reader may refuse what it likes.
    if own.rule is not None or reader is Reader.VOCABULARY:
        return None
    if not own.contiguous:
        return Kind.POLICY, "gaps or another order"
    said = last_words(outcome)
    for words, policy in _DEFENSIBLE.items():
        if words in outcome.said:
            return Kind.POLICY, policy
    return Kind.REFUSES_VALID, said or "no reason given"


_DEFENSIBLE = {
    "invalid ggml type": "a tensor type newer than the build",
    "is too long": "a name of 64 bytes",
    "failed to read tensor data binary blob": "no padding after the last tensor",
}
"""What a build says when it refuses a valid file with good reason."""
