"""Whether counts fit a distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.sampling.statistics import (
    chi_square_at_least,
    fit,
    poisson_at_least,
    poisson_at_most,
    poisson_two_sided,
)


@pytest.mark.parametrize(
    ("statistic", "freedom", "p"),
    # Critical values from printed tables.
    [
        (3.841459, 1, 0.05),
        (5.991465, 2, 0.05),
        (18.307038, 10, 0.05),
        (24.995790, 15, 0.05),
        (6.634897, 1, 0.01),
    ],
)
def test_chi_square_tails_are_the_tables(statistic: float, freedom: int, p: float) -> None:
    assert chi_square_at_least(statistic, freedom) == pytest.approx(p, rel=1e-6)


def test_a_chi_square_without_freedom_says_nothing() -> None:
    assert chi_square_at_least(100.0, 0) == 1.0


def test_poisson_tails_are_the_sums_of_their_terms() -> None:
    assert poisson_at_most(1, 0.58) == pytest.approx(math.exp(-0.58) * 1.58, rel=1e-14)
    assert poisson_at_least(2, 0.58) == pytest.approx(1 - math.exp(-0.58) * 1.58, rel=1e-12)
    assert poisson_at_least(0, 0.58) == 1.0
    assert poisson_at_least(1, 0.0) == 0.0


def test_the_far_poisson_tail_does_not_cancel() -> None:
    # P(X ≥ 20) for mean 0.1 is within 1 % of its first term 0.1^20 e^-0.1 / 20!, about 4e-39.
    first = math.exp(-0.1) * 0.1**20 / math.factorial(20)
    assert poisson_at_least(20, 0.1) == pytest.approx(first, rel=0.01)


@given(st.integers(0, 60), st.floats(0.01, 30))
def test_the_two_poisson_tails_make_one(count: int, mean: float) -> None:
    assert poisson_at_most(count, mean) + poisson_at_least(count + 1, mean) == pytest.approx(1, abs=1e-12)


def test_two_rare_draws_are_unremarkable_although_a_naive_chi_square_rejects_them() -> None:
    # A case that was seen: one token at p = 0.99995, the rest pooled, 0.58 expected and 2 seen in 12,000.
    rest = 0.58 / 12_000
    probabilities = np.array([1 - rest, *[rest / 40] * 40])
    counts = np.array([11_998, 1, 1, *[0] * 38])
    naive = (2 - 0.58) ** 2 / 0.58 + (11_998 - 11_999.42) ** 2 / 11_999.42
    assert chi_square_at_least(naive + 1.0, 1) < 0.05
    fitted = fit(counts, probabilities)
    assert fitted.cells == 1
    assert fitted.chi_square_p == 1.0
    assert fitted.rare_expected == pytest.approx(0.58)
    assert fitted.rare_seen == 2
    assert fitted.rare_p == pytest.approx(2 * (1 - math.exp(-0.58) * 1.58), rel=1e-9)


def test_cells_that_expect_little_are_folded_together() -> None:
    probabilities = np.array([0.5, *[0.005] * 100])
    counts = np.array([50, *[1] * 50, *[0] * 50])
    # 100 draws: the second half expects 0.5 a cell, so ten of them make a cell of 5.
    assert fit(counts, probabilities).cells == 11


def test_an_impossible_draw_refutes() -> None:
    fitted = fit(np.array([100, 1]), np.array([1.0, 0.0]))
    assert fitted.impossible == 1
    assert fitted.smallest_p == 0.0


def test_draws_of_the_distribution_pass_and_of_another_fail() -> None:
    random = np.random.RandomState(5)
    probabilities = np.array([0.4, 0.3, 0.2, 0.0995, 0.0005])
    counts = np.bincount(random.choice(5, 12_000, p=probabilities), minlength=5)
    assert fit(counts, probabilities).smallest_p > 1e-3
    sharper = probabilities**1.1 / (probabilities**1.1).sum()
    assert fit(counts, sharper).smallest_p < 1e-6


def test_too_many_rare_draws_fail() -> None:
    probabilities = np.array([1 - 1e-4, 1e-4])
    assert fit(np.array([9_990, 10]), probabilities).rare_p < 1e-6
    assert poisson_two_sided(10, 1.0) < 1e-6
