"""Checks of the audit itself: a wrong reference must be caught, and a build must repeat itself.

Each mutant is a reference sampler with one deliberately wrong step, some of them wrong only in the last bit.
A mutant is caught when a case that the right reference explains is not explained any more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oracle.sampling import Candidates, Generation
from oracle.sampling.chain import FACTORIES, Factory
from oracle.sampling.sampler import Sampler
from oracle.sampling.selection import (
    AdaptivePSampler,
    DistSampler,
    GreedySampler,
    MirostatSampler,
    MirostatV2Sampler,
)
from oracle.sampling.shaping import (
    DrySampler,
    LogitBiasSampler,
    PenaltiesSampler,
    TempExtSampler,
    TempSampler,
)
from oracle.sampling.truncation import (
    MinPSampler,
    TopKSampler,
    TopNSigmaSampler,
    TopPSampler,
    TypicalSampler,
    XtcSampler,
)
from tracker.audits.sampler.case import Case
from tracker.audits.sampler.classify import Question
from tracker.audits.sampler.compare import Match, compare
from tracker.audits.sampler.run import Answer, Applied, Death, Drawn, Observed, Refusal


class _OneMore(TopKSampler):
    def apply(self, candidates: Candidates) -> Candidates:
        if self.k <= 0:
            return super().apply(candidates)
        return candidates.sort().take(slice(self.k + 1), ordered=True)


class _CutBefore(TopPSampler):
    def length(self, ranked: Candidates) -> int:
        return max(super().length(ranked) - 1, 1)


class _PairwiseSum(TopPSampler):
    def softmax(self, candidates: Candidates) -> Candidates:
        right = super().softmax(candidates)
        if not len(right):
            return right
        e = right.exponentials()
        return replace(right, p=e / np.add.reduce(e))


class _IgnoresMinKeep(MinPSampler):
    def apply(self, candidates: Candidates) -> Candidates:
        self.min_keep = 0
        return super().apply(candidates)


class _NearBest(MinPSampler):
    def threshold(self, candidates: Candidates) -> np.float32:
        return np.float32(candidates.maximum() * np.float32(self.p))


class _Multiplies(TempSampler):
    def apply(self, candidates: Candidates) -> Candidates:
        if self.t <= 0:
            return super().apply(candidates)
        return replace(candidates, logits=candidates.logits * (np.float32(1) / self.t))


class _NumpyExponential(DistSampler):
    def apply(self, candidates: Candidates) -> Candidates:
        right = super().apply(candidates)
        if len(right) < 2:
            return right
        e = np.exp(right.logits - right.maximum())
        return replace(right, p=(e / np.cumsum(e, dtype=np.float64)[-1]).astype(np.float32))


class _WasteDraw(DistSampler):
    def apply(self, candidates: Candidates) -> Candidates:
        self.random.uniform()
        return super().apply(candidates)


class _SharedByClone(DistSampler):
    def __deepcopy__(self, memo: dict[int, Any]) -> _SharedByClone:
        clone = copy.copy(self)
        return clone


class _IgnoresReset(DistSampler):
    def reset(self) -> None:
        if not hasattr(self, "random"):
            super().reset()


class _LastMaximum(GreedySampler):
    def apply(self, candidates: Candidates) -> Candidates:
        if not len(candidates):
            return super().apply(candidates)
        best = np.flatnonzero(candidates.logits == candidates.maximum())
        return replace(candidates, selected=int(best[-1]) if len(best) else 0)


class _NearZero(TypicalSampler):
    def apply(self, candidates: Candidates) -> Candidates:
        if self.p >= 1 or not len(candidates):
            return candidates
        ranked = candidates.sort().softmax()
        length = int(np.searchsorted(np.cumsum(ranked.p), self.p, side="right")) + 1
        return ranked.take(slice(max(length, self.min_keep)), ordered=False)


class _WithoutExponent(TempExtSampler):
    def temperature(self, ranked: Candidates) -> np.float32:
        self.exponent = 2.0
        return super().temperature(ranked)


class _DropsLast(XtcSampler):
    def apply(self, candidates: Candidates) -> Candidates:
        before = len(candidates)
        after = super().apply(candidates)
        return after.take(slice(1, None), ordered=True) if 1 < len(after) < before else after


class _SampleDeviation(TopNSigmaSampler):
    def masked(self, candidates: Candidates, *, everything: bool) -> npt.NDArray[np.float32]:
        finite = candidates.logits[np.isfinite(candidates.logits)]
        right = super().masked(candidates, everything=everything)
        if len(finite) < 2:
            return right
        cut = candidates.maximum() - self.n * np.std(finite, ddof=1)
        return np.where(candidates.logits < cut, np.float32(-np.inf), candidates.logits).astype(np.float32)


class _NeverLearns(MirostatSampler):
    def corrected(self, surprise: np.float32) -> np.float32:
        return self.mu


class _NeverLearnsEither(MirostatV2Sampler):
    def corrected(self, surprise: np.float32) -> np.float32:
        return self.mu


class _ForgetsPresence(PenaltiesSampler):
    def apply(self, candidates: Candidates) -> Candidates:
        self.specification = replace(self.specification, present=0.0)
        return super().apply(candidates)


class _ShorterRepeats(DrySampler):
    def repeats(self) -> dict[int, int]:
        return {token: length + 1 for token, length in super().repeats().items()}


class _NeverAverages(AdaptivePSampler):
    def accept(self, token: int) -> None:
        self.pending = None


class _SetsInsteadOfAdding(LogitBiasSampler):
    def apply(self, candidates: Candidates) -> Candidates:
        logits = candidates.logits.copy()
        for token, bias in self.biases:
            logits[candidates.ids == token] = np.float32(bias)
        return replace(candidates, logits=logits, ordered=False)


@dataclass(frozen=True)
class Mutant:
    """A reference sampler with one wrong step."""

    sampler: str
    step: str
    """What it does wrong."""
    factory: Factory


MUTANTS: tuple[Mutant, ...] = (
    Mutant("top_k", "keeps one candidate more", _OneMore),
    Mutant("top_p", "leaves out the candidate that reaches p", _CutBefore),
    Mutant("top_p", "sums pairwise instead of one by one", _PairwiseSum),
    Mutant("min_p", "ignores min_keep", _IgnoresMinKeep),
    Mutant("min_p", "takes p times the best logit for the threshold", _NearBest),
    Mutant("temp", "multiplies by 1/T instead of dividing", _Multiplies),
    Mutant("dist", "takes numpy's exponential instead of libm's", _NumpyExponential),
    Mutant("dist", "draws one random number too many", _WasteDraw),
    Mutant("dist", "lets clones share the random numbers", _SharedByClone),
    Mutant("dist", "ignores reset", _IgnoresReset),
    Mutant("greedy", "takes the last of several maxima", _LastMaximum),
    Mutant("typical", "orders by probability instead of distance from the entropy", _NearZero),
    Mutant("temp_ext", "squares the entropy's share whatever the exponent", _WithoutExponent),
    Mutant("xtc", "drops the last candidate above the threshold too", _DropsLast),
    Mutant("top_n_sigma", "divides the variance by n − 1", _SampleDeviation),
    Mutant("mirostat", "does not correct mu", _NeverLearns),
    Mutant("mirostat_v2", "does not correct mu", _NeverLearnsEither),
    Mutant("penalties", "forgets the presence penalty", _ForgetsPresence),
    Mutant("dry", "counts repetitions one too long", _ShorterRepeats),
    Mutant("adaptive_p", "keeps accepted tokens out of the average", _NeverAverages),
    Mutant("logit_bias", "sets the logit instead of adding", _SetsInsteadOfAdding),
)
"""At least one for each sampler with a reference."""


def catching(mutant: Mutant, questions: Sequence[Question], generation: Generation) -> Case | None:
    """The first case that shows the mutant to be wrong, or None if it goes unnoticed."""
    factories: Mapping[str, Callable[..., Sampler]] = {**FACTORIES, mutant.sampler: mutant.factory}
    for question in questions:
        if isinstance(question.answer, Refusal | Death):
            continue
        # A wrong step may well overflow where the right one does not.
        with np.errstate(all="ignore"):
            verdict = compare(question.case, question.answer, generation, factories)
        if isinstance(verdict, Match):
            continue
        if isinstance(compare(question.case, question.answer, generation), Match):
            return question.case
    return None


def unrepeatable(questions: Sequence[Question], ask: Callable[[Case], Answer]) -> Iterator[Case]:
    """The cases to which the build gives another answer when asked again."""
    for question in questions:
        if not _equal(question.answer, ask(question.case)):
            yield question.case


def _equal(first: Answer, second: Answer) -> bool:
    if isinstance(first, Death | Refusal) or isinstance(second, Death | Refusal):
        return first == second
    return len(first) == len(second) and all(map(_same_bytes, first, second))


def _same_bytes(first: Observed, second: Observed) -> bool:
    match first, second:
        case Applied(), Applied():
            return (
                first.ids.tobytes() == second.ids.tobytes()
                and first.logits.tobytes() == second.logits.tobytes()
                and first.p.tobytes() == second.p.tobytes()
                and (first.selected, first.ordered) == (second.selected, second.ordered)
            )
        case Drawn(), Drawn():
            return bool(np.array_equal(first.tokens, second.tokens))
        case _:
            return first == second
