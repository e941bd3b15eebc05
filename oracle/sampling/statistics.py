"""Whether counted draws fit a distribution: chi-square over what is expected often, exact tails for the rest.

A chi-square statistic follows its distribution only where every cell expects some five draws; a pooled cell
that expects 0.05 makes it reject draws that are unremarkable. Cells that expect less are therefore folded
into a neighbour, and what is left rare is tested by itself with the exact tail of the Poisson distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ENOUGH = 5.0
"""Draws that a cell of the chi-square has to expect."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The two tests of one configuration; their p-values are not combined.

    ``impossible`` counts draws that have probability 0: one of them refutes the distribution.
    """

    draws: int
    cells: int
    """Cells of the chi-square; with fewer than two it says nothing and its p-value is 1."""
    chi_square: float
    chi_square_p: float
    rare_expected: float
    rare_seen: int
    rare_p: float
    """Two-sided exact Poisson p-value of the rare cell; 1 if there is none."""
    impossible: int

    @property
    def smallest_p(self) -> float:
        """The smaller p-value of the two tests; 0 if something impossible was drawn."""
        return 0.0 if self.impossible else min(self.chi_square_p, self.rare_p)


def poisson_at_most(count: int, mean: float) -> float:
    """P(X ≤ count) for a Poisson variable: Σ e^−μ μⁱ / i!, summed exactly."""
    if count < 0:
        return 0.0
    if mean == 0:
        return 1.0
    terms = (math.exp(-mean + i * math.log(mean) - math.lgamma(i + 1)) for i in range(count + 1))
    return min(math.fsum(terms), 1.0)


def poisson_at_least(count: int, mean: float) -> float:
    """P(X ≥ count) for a Poisson variable, without cancellation in the far tail."""
    if count <= 0:
        return 1.0
    if mean == 0:
        return 0.0
    if count <= mean:
        return 1.0 - poisson_at_most(count - 1, mean)
    term = math.exp(-mean + count * math.log(mean) - math.lgamma(count + 1))
    terms: list[float] = []
    i = count
    while term > 0 and term > 1e-18 * (terms[0] if terms else term):
        terms.append(term)
        i += 1
        term *= mean / i
    return min(math.fsum(terms), 1.0)


def poisson_two_sided(count: int, mean: float) -> float:
    """Twice the smaller of both tails, at most 1."""
    return min(1.0, 2 * min(poisson_at_most(count, mean), poisson_at_least(count, mean)))


def chi_square_at_least(statistic: float, freedom: int) -> float:
    """P(χ² ≥ statistic), in closed form for whole degrees of freedom.

    Even: e^−h Σ hⁱ / i! for i < k/2, with h = statistic / 2. Odd: erfc(√h) + e^−h Σ h^(i+½) / Γ(i + 3/2).
    """
    if freedom < 1:
        return 1.0
    half = statistic / 2
    if half <= 0:
        return 1.0
    shift = 0.5 if freedom % 2 else 0.0
    powers = (i + shift for i in range(freedom // 2))
    terms = [math.exp(-half + power * math.log(half) - math.lgamma(power + 1)) for power in powers]
    start = math.erfc(math.sqrt(half)) if freedom % 2 else 0.0
    return min(math.fsum([start, *terms]), 1.0)


def fit(counts: npt.NDArray[np.int64], probabilities: npt.NDArray[np.float64]) -> Fit:
    """Hold counts against exact probabilities.

    Args:
        counts: how often each token was drawn; int64, shape (n,).
        probabilities: of each token, summing to 1; float64, shape (n,).
    """
    draws = int(counts.sum())
    impossible = int(counts[probabilities == 0].sum())
    order = np.argsort(-probabilities, kind="stable")
    cells: list[tuple[float, int]] = []
    expected, seen = 0.0, 0
    for i in order[probabilities[order] > 0].tolist():
        expected += draws * float(probabilities[i])
        seen += int(counts[i])
        if expected >= ENOUGH:
            cells.append((expected, seen))
            expected, seen = 0.0, 0
    # Given how many draws were rare, the others are multinomial over the remaining cells.
    wanted_total, got_total = math.fsum(wanted for wanted, _ in cells), sum(got for _, got in cells)
    scale = got_total / wanted_total if cells else 0.0
    statistic = (
        math.fsum((got - wanted * scale) ** 2 / (wanted * scale) for wanted, got in cells) if scale else 0.0
    )
    return Fit(
        draws=draws,
        cells=len(cells),
        chi_square=statistic,
        chi_square_p=chi_square_at_least(statistic, len(cells) - 1),
        rare_expected=expected,
        rare_seen=seen,
        rare_p=poisson_two_sided(seen, expected) if expected > 0 else 1.0,
        impossible=impossible,
    )
