"""What a build answered against what it should have: the same, the same but for ties, or different and how.

Numbers are compared as bits. Which of several equally scored candidates survives a cut, and in which order
equal ones stand, is open: the standard library's sorts are not stable. An answer is right if *some* order of
equal scores makes the reference give exactly that answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from oracle.sampling import Candidates, Generation
from oracle.sampling.chain import FACTORIES, Factory
from tracker.audits.sampler.case import Call, Case
from tracker.audits.sampler.run import (
    Answer,
    Applied,
    Death,
    Drawn,
    Expected,
    Observed,
    Refusal,
    Returned,
    Undefined,
    expect,
)


class Cause(StrEnum):
    """What differs; the first that applies, in this order."""

    DIED = "died"
    UNDEFINED = "undefined-distribution"
    """The logits define no probabilities, and the build answers with NaN or a token instead of refusing."""
    OVERFLOW = "overflow"
    """The logits are finite, arithmetic overflows on the way, and a token other than the best is selected."""
    STATE = "state"
    """After clone or reset it does not go on as it should."""
    KEPT_SET = "kept-set"
    FALSE_ORDER = "false-order"
    """It says that the candidates are sorted, and they are not."""
    LOGITS = "logits"
    PROBABILITIES = "probabilities"
    ORDER = "order"
    SELECTION = "selection"
    RETURNED = "returned"
    FREQUENCIES = "frequencies"
    """The counts of many draws do not fit the distribution."""


@dataclass(frozen=True)
class Difference:
    """Where an answer first departs from the reference."""

    cause: Cause
    call: int
    """Index of the call."""
    detail: str


@dataclass(frozen=True)
class Match:
    """No difference; ``by_ties`` if only under another order of equal scores."""

    by_ties: bool


def compare(
    case: Case,
    answer: Answer,
    generation: Generation,
    factories: Mapping[str, Factory] = FACTORIES,
) -> Match | Difference:
    """Hold an answer against the reference of a generation.

    Raises:
        ValueError: the answer is a refusal, which cannot be compared.
    """
    if isinstance(answer, Refusal):
        raise ValueError(f"nothing to compare: {answer.reason}")
    if isinstance(answer, Death):
        return Difference(Cause.DIED, len(case.calls) - 1, answer.how)
    difference = _first(case, answer, expect(case, generation, factories=factories))
    if difference is None:
        return Match(by_ties=False)
    ties = [_rank(case, observed) for observed in answer]
    if not any(rank is not None for rank in ties):
        return difference
    left = _first(case, answer, expect(case, generation, ties, factories))
    # What remains with the build's own order of equal scores is the difference itself.
    return Match(by_ties=True) if left is None else left


def _rank(case: Case, observed: Observed) -> npt.NDArray[np.int64] | None:
    """The order that the build gave its candidates, int64 by token id, those it dropped last."""
    if not isinstance(observed, Applied):
        return None
    size = max((len(logits) for logits in case.inputs), default=0)
    rank = np.full(size, size, np.int64)
    valid = (observed.ids >= 0) & (observed.ids < size)
    rank[observed.ids[valid]] = np.flatnonzero(valid)
    return rank


def _first(case: Case, answer: Sequence[Observed], expected: Sequence[Expected]) -> Difference | None:
    restored = False
    for index, (got, wanted) in enumerate(zip(answer, expected, strict=False)):
        call, *arguments = case.calls[index]
        restored = restored or call in (Call.CLONE, Call.RESET)
        if isinstance(got, Applied) and isinstance(wanted, Undefined):
            found = _undefined(got, case.inputs[arguments[1]])
        else:
            found = _difference(got, wanted)
        if found is not None:
            cause, detail = found
            if restored:
                cause, detail = Cause.STATE, f"{cause}: {detail}"
            return Difference(cause, index, detail)
    return None


def _difference(got: Observed, wanted: Expected) -> tuple[Cause, str] | None:
    match got, wanted:
        case Applied(), Candidates():
            return _candidates(got, wanted)
        case Drawn(), Drawn():
            if np.array_equal(got.tokens, wanted.tokens):
                return None
            first = int(np.argmax(got.tokens != wanted.tokens))
            detail = f"draw {first} gives token {got.tokens[first]}, the reference {wanted.tokens[first]}"
            return Cause.SELECTION, detail
        case Returned(), Returned():
            if got.value == wanted.value:
                return None
            return Cause.RETURNED, f"{got.value}, the reference {wanted.value}"
        case _:
            raise AssertionError(f"{type(got).__name__} against {type(wanted).__name__}")


def _undefined(got: Applied, logits: npt.NDArray[np.float32]) -> tuple[Cause, str] | None:
    if got.selected < 0 and not np.isnan(got.p).any():
        return None
    shown = "probabilities are NaN" if np.isnan(got.p).any() else "probabilities are numbers"
    if not 0 <= got.selected < len(got.ids):
        return Cause.UNDEFINED, f"{shown}, no token is selected"
    token = int(got.ids[got.selected])
    detail = f"{shown}, token {token} is selected"
    best = int(np.argmax(logits))
    if np.isfinite(logits).all() and logits[best] > logits[token]:
        return (
            Cause.OVERFLOW,
            f"{detail} with logit {logits[token]}, the best is token {best} with {logits[best]}",
        )
    return Cause.UNDEFINED, detail


def _candidates(got: Applied, wanted: Candidates) -> tuple[Cause, str] | None:
    if len(got.ids) != len(wanted) or not np.array_equal(np.sort(got.ids), np.sort(wanted.ids)):
        return Cause.KEPT_SET, _kept(got, wanted)
    if got.ordered and not _descends(got.logits):
        return Cause.FALSE_ORDER, "marked as sorted, but the logits do not descend"
    ours, theirs = np.argsort(wanted.ids), np.argsort(got.ids)
    for cause, a, b in (
        (Cause.LOGITS, got.logits, wanted.logits),
        (Cause.PROBABILITIES, got.p, wanted.p),
    ):
        different = ~_same(a[theirs], b[ours])
        if different.any():
            i = int(np.argmax(different))
            token, had, has = int(got.ids[theirs][i]), float(a[theirs][i]), float(b[ours][i])
            detail = f"{int(different.sum())} of {len(a)}; token {token} has {had!r}, the reference {has!r}"
            return cause, detail
    if not np.array_equal(got.ids, wanted.ids):
        i = int(np.argmax(got.ids != wanted.ids))
        return Cause.ORDER, f"token {got.ids[i]} at place {i}, the reference {wanted.ids[i]}"
    if got.selected != wanted.selected:
        return Cause.SELECTION, f"selects {_token(got)}, the reference {_token(wanted)}"
    return None


def _descends(logits: npt.NDArray[np.float32]) -> bool:
    """Whether logits descend, NaN at the end."""
    return bool(np.all((logits[1:] <= logits[:-1]) | np.isnan(logits[1:])))


def _same(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Equality of bits, all NaN being one."""
    same: npt.NDArray[np.bool_] = (a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))
    return same


def _kept(got: Applied, wanted: Candidates) -> str:
    lost = np.setdiff1d(wanted.ids, got.ids)[:4].tolist()
    added = np.setdiff1d(got.ids, wanted.ids)[:4].tolist()
    return f"keeps {len(got.ids)}, the reference {len(wanted)}; without tokens {lost}, with tokens {added}"


def _token(candidates: Applied | Candidates) -> str:
    if not 0 <= candidates.selected < len(candidates.ids):
        return f"index {candidates.selected}"
    return f"token {candidates.ids[candidates.selected]}"
