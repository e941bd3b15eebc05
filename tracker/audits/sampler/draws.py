"""Frequencies: many draws of the audited chain against its exact distribution.

The distribution is computed here from the definitions, in double precision and by other code than the
reference's, so that an error shared by build and reference would show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oracle.sampling.statistics import Fit, fit
from tracker.audits.sampler.case import Call, Case, Family, Logits
from tracker.audits.sampler.cases import GRID, Budget, audited_chain
from tracker.audits.sampler.logits import Random, ordinary
from tracker.audits.sampler.run import Answer, Death, Drawn, Refusal

FAMILY_WISE_ERROR = 1e-4
"""Bound on the probability that a correct build fails any test; shared out equally (Bonferroni)."""

_RARE = ((0, 1.0, 0.0, 1.0), (0, 1.0, 0.0, 1.3), (40, 1.0, 0.0, 0.9), (200, 1.0, 0.0, 1.0))
"""Points without a cut, for logits with one so high that all others together are drawn a few times."""

POINTS = (*GRID, *_RARE)

TESTS = 2 * len(POINTS)
"""A chi-square and a Poisson tail for each point."""

THRESHOLD = FAMILY_WISE_ERROR / TESTS
"""p-value below which a test fails."""

_CANDIDATES = 120


@dataclass(frozen=True, eq=False)
class Frequencies:
    """The counts of one point of the grid and how they fit."""

    configuration: str
    case: Case
    fit: Fit

    @property
    def passed(self) -> bool:
        """Whether neither test fails."""
        return self.fit.smallest_p >= THRESHOLD


def distribution(logits: Logits, k: int, p: float, min_p: float, t: float) -> npt.NDArray[np.float64]:
    """The probability of each token under the audited chain, from the definitions; float64, shape (n,)."""
    order = np.argsort(-logits.astype(np.float64), kind="stable")
    kept = logits.astype(np.float64)[order]
    if k > 0:
        kept = kept[:k]
    weights = np.exp(kept - kept[0])
    if p < 1:
        kept = kept[: int(np.searchsorted(np.cumsum(weights / weights.sum()), p)) + 1]
    kept = kept[np.exp(kept - kept[0]) >= min_p]
    kept = np.exp((kept - kept[0]) / t) if t > 0 else np.array([1.0])
    probabilities = np.zeros(len(logits))
    probabilities[order[: len(kept)]] = kept / kept.sum()
    return probabilities


def frequencies(ask: Callable[[Case], Answer], budget: Budget) -> list[Frequencies]:
    """Draw for each point of the grid and test. Points that the build cannot be asked are left out."""
    tested = []
    for i, point in enumerate(POINTS):
        logits = ordinary(Random(300 + i), _CANDIDATES)
        if point in _RARE:
            logits[i] = logits.max() + np.float32(14)
        case = Case(
            family=Family.DRAWS,
            chain=audited_chain(*point, seed=400 + i),
            inputs=(logits,),
            calls=((Call.DRAWS, 0, 0, budget.draws),),
        )
        answer = ask(case)
        if isinstance(answer, Refusal | Death) or not isinstance(answer[0], Drawn):
            continue
        drawn = answer[0].tokens
        counts = np.bincount(drawn[drawn >= 0], minlength=len(logits)).astype(np.int64)
        name = "k {}, p {}, min_p {}, T {}".format(*point)
        tested.append(Frequencies(name, case, fit(counts, distribution(logits, *point))))
    return tested
