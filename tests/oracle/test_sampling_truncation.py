"""Samplers that drop or mask, against hand computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.sampling import GENERATIONS, Candidates, Chain, Generation, Specification, UndefinedDistribution
from oracle.sampling import specification as s
from oracle.sampling.libm import expf_each

NEW, MID, OLD, ANCIENT = GENERATIONS
INF = math.inf

# Probabilities of these: 0.5, 0.25, 0.125, 0.125.
HALVES = [math.log(4), math.log(8), math.log(2), math.log(2)]


def kept(specification: Specification, logits: list[float], generation: Generation = NEW) -> list[int]:
    return apply(specification, logits, generation).ids.tolist()


def apply(specification: Specification, logits: list[float], generation: Generation = NEW) -> Candidates:
    return Chain([specification], generation).apply(Candidates.of(logits))


def test_top_k_keeps_the_k_best_in_descending_order() -> None:
    assert kept(s.TopK(2), [1, 4, 2, 3]) == [1, 3]


def test_top_k_without_a_limit_changes_nothing_but_the_order_in_the_oldest_generation() -> None:
    for k in (0, -5):
        assert kept(s.TopK(k), [1, 4, 2]) == [0, 1, 2]
        assert kept(s.TopK(k), [1, 4, 2], ANCIENT) == [1, 2, 0]


def test_top_k_beyond_the_candidates_sorts_them() -> None:
    assert kept(s.TopK(100), [1, 4, 2]) == [1, 2, 0]


def test_top_k_prefers_every_number_to_nan() -> None:
    assert kept(s.TopK(2), [1, math.nan, 2, 5]) == [3, 2]
    assert kept(s.TopK(4), [-INF, math.nan, 2, 5]) == [3, 2, 0, 1]


@pytest.mark.parametrize("high", [INF, 4e8, 1e4])
def test_top_k_keeps_what_is_high_however_high(high: float) -> None:
    logits = [0.0] * 1000
    logits[500] = high
    assert kept(s.TopK(200), logits)[0] == 500


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40), st.integers(1, 45))
def test_top_k_is_the_head_of_a_sort(logits: list[float], k: int) -> None:
    wanted = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:k]
    assert kept(s.TopK(k), logits) == wanted


def test_equal_scores_stand_in_the_order_that_is_asked_for() -> None:
    rank = np.array([3, 1, 2, 0])
    candidates = Candidates.of([5, 5, 5, 1], tie_rank=rank)
    assert Chain([s.TopK(2)]).apply(candidates).ids.tolist() == [1, 2]


@pytest.mark.parametrize(("p", "wanted"), [(0.3, [1]), (0.6, [1, 0]), (0.8, [1, 0, 2]), (0.99, [1, 0, 2, 3])])
def test_top_p_keeps_the_shortest_head_that_reaches_p(p: float, wanted: list[int]) -> None:
    assert kept(s.TopP(p, 0), [math.log(4), math.log(8), math.log(2), math.log(2)]) == wanted


def test_top_p_of_one_and_more_changes_nothing() -> None:
    assert kept(s.TopP(1.0, 0), HALVES) == [0, 1, 2, 3]


def test_top_p_keeps_at_least_min_keep_and_at_most_what_there_is() -> None:
    assert kept(s.TopP(0.1, 3), HALVES) == [1, 0, 2]
    assert kept(s.TopP(0.1, 99), HALVES) == [1, 0, 2, 3]


def test_top_p_of_nothing_is_nothing() -> None:
    assert kept(s.TopP(0.5, 1), []) == []


def test_the_sum_of_exponentials_runs_in_the_order_of_the_candidates_except_in_old_generations() -> None:
    # Eight exponentials of about 2^-24 each: added to 1 they are rounded away, added up first they are not.
    ones = [0.0] * 8
    large = math.log(2**24)
    e = expf_each(np.array([-large], np.float32))[0]
    ascending = np.float32(0)
    for _ in ones:
        ascending += e
    ascending += np.float32(1)
    descending = np.float32(1)
    for _ in ones:
        descending += e
    assert ascending != descending
    logits = [*ones, large]
    assert apply(s.TopP(0.5, 0), logits, NEW).p[0] == np.float32(1) / ascending
    assert apply(s.TopP(0.5, 0), logits, MID).p[0] == np.float32(1) / ascending
    assert apply(s.TopP(0.5, 0), logits, OLD).p[0] == np.float32(1) / descending


def test_min_p_keeps_what_has_that_share_of_the_best_in_the_order_it_is_in() -> None:
    assert kept(s.MinP(0.4, 0), HALVES) == [0, 1]
    assert kept(s.MinP(0.0, 0), HALVES) == [0, 1, 2, 3]


def test_min_p_sorts_only_to_keep_enough() -> None:
    assert kept(s.MinP(0.4, 3), HALVES) == [1, 0, 2]


def test_min_p_of_sorted_candidates_keeps_a_head() -> None:
    chain = Chain([s.TopK(4), s.MinP(0.4, 0)])
    assert chain.apply(Candidates.of(HALVES)).ids.tolist() == [1, 0]


def test_min_p_keeps_all_of_what_is_masked_throughout() -> None:
    assert kept(s.MinP(0.5, 0), [-INF, -INF]) == [0, 1]


def test_typical_takes_what_surprises_as_much_as_is_expected() -> None:
    # 0.6, 0.3, 0.1: H = 0.898; surprises 0.511, 1.204, 2.303, at distances 0.387, 0.306, 1.405 from it.
    logits = [math.log(0.6), math.log(0.3), math.log(0.1)]
    assert kept(s.Typical(0.2, 0), logits) == [1]
    assert kept(s.Typical(0.5, 0), logits) == [1, 0]
    assert kept(s.Typical(0.95, 0), logits) == [1, 0, 2]
    assert kept(s.Typical(0.2, 3), logits) == [1, 0, 2]


def test_what_cannot_be_drawn_adds_nothing_to_the_entropy() -> None:
    # A masked token contributes 0·log 0 = 0, so the others are ordered as without it.
    logits = [math.log(0.6), math.log(0.3), math.log(0.1), -INF]
    assert kept(s.Typical(0.5, 0), logits) == [1, 0]


def test_xtc_drops_all_above_the_threshold_but_the_last() -> None:
    assert kept(s.Xtc(1.0, 0.2, 0, 1), HALVES) == [0, 2, 3]
    assert kept(s.Xtc(1.0, 0.1, 0, 1), HALVES) == [3]
    assert kept(s.Xtc(1.0, 0.4, 0, 1), HALVES) == [1, 0, 2, 3]
    assert kept(s.Xtc(0.0, 0.2, 0, 1), HALVES) == [0, 1, 2, 3]
    assert kept(s.Xtc(1.0, 0.6, 0, 1), HALVES) == [0, 1, 2, 3]


def test_xtc_keeps_at_least_min_keep() -> None:
    assert kept(s.Xtc(1.0, 0.1, 2, 1), HALVES) == [1, 0, 2, 3]


def test_top_n_sigma_masks_below_n_deviations() -> None:
    # Mean 2.5, deviation sqrt(1.25) = 1.118: one deviation below 4 is 2.88.
    new = apply(s.TopNSigma(1.0), [1, 2, 3, 4])
    assert new.logits.tolist() == [-INF, -INF, 3, 4]
    assert new.p.tolist() == [0, 0, 0, 0]
    mid = apply(s.TopNSigma(1.0), [1, 2, 3, 4], MID)
    assert mid.ids.tolist()[:2] == [3, 2]
    assert mid.p[0] == pytest.approx(1 / (1 + math.exp(-1)), rel=1e-6)


def test_top_n_sigma_leaves_masked_candidates_out_of_account() -> None:
    assert apply(s.TopNSigma(1.0), [1, 2, -INF, 3, 4]).logits.tolist() == [-INF, -INF, -INF, 3, 4]


@pytest.mark.parametrize("logits", [[math.nan, 1.0], [INF, 1.0], [-INF, -INF]])
@pytest.mark.parametrize(
    "specification", [s.TopP(0.5, 1), s.Typical(0.5, 1), s.Dist(1), s.Xtc(1.0, 0.1, 1, 1)]
)
def test_logits_without_probabilities_have_no_outcome(
    specification: Specification, logits: list[float]
) -> None:
    with pytest.raises(UndefinedDistribution):
        apply(specification, logits)
