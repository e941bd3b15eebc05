"""Samplers that select, against hand computations and the C++ standard's generator."""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
import pytest

from oracle.sampling import GENERATIONS, Candidates, Chain, Generation, Specification
from oracle.sampling import specification as s
from oracle.sampling.random import Mersenne

NEW, MID, OLD, _ = GENERATIONS

# Probabilities 1/8, 1/2, 1/8, 1/4.
LOGITS = [0.0, math.log(4), 0.0, math.log(2)]
PROBABILITIES = [0.125, 0.5, 0.125, 0.25]


def draws(specification: Specification, logits: list[float], count: int, generation: Generation) -> list[int]:
    chain = Chain([specification], generation)
    tokens = []
    for _ in range(count):
        after = chain.apply(Candidates.of(logits))
        tokens.append(int(after.ids[after.selected]))
    return tokens


def inverted(probabilities: list[float], uniforms: list[float]) -> list[int]:
    """The first index whose running sum reaches each number, by a search from the start."""
    sums = list(accumulate(probabilities))
    return [next(i for i, total in enumerate(sums) if total >= u) for u in uniforms]


def test_greedy_selects_the_first_of_the_best() -> None:
    assert Chain([s.Greedy()]).apply(Candidates.of([1, 3, 3, 2])).selected == 1


def test_greedy_prefers_a_number_to_nan() -> None:
    assert Chain([s.Greedy()]).apply(Candidates.of([math.nan, 0])).selected == 1


@pytest.mark.parametrize(
    "specification",
    [
        s.Greedy(),
        s.Dist(1),
        s.Mirostat(10, 1, 5.0, 0.1, 100),
        s.MirostatV2(1, 5.0, 0.1),
        s.AdaptiveP(0.5, 0.9, 1),
    ],
    ids=lambda specification: specification.name,
)
def test_of_nothing_nothing_is_selected(specification: Specification) -> None:
    assert Chain([specification]).apply(Candidates.of([])).selected == -1


@pytest.mark.parametrize("generation", [NEW, MID], ids=lambda generation: generation.name)
def test_dist_inverts_the_running_sum_in_the_order_of_the_candidates(generation: Generation) -> None:
    wanted = inverted(PROBABILITIES, Mersenne(42).uniforms(1000).tolist())
    assert draws(s.Dist(42), LOGITS, 1000, generation) == wanted


def test_old_dist_inverts_the_running_sum_of_the_sorted_candidates() -> None:
    order = [1, 3, 0, 2]
    places = inverted([PROBABILITIES[i] for i in order], Mersenne(42).uniforms(1000).tolist())
    assert draws(s.Dist(42), LOGITS, 1000, OLD) == [order[place] for place in places]


def test_dist_gives_the_probabilities() -> None:
    after = Chain([s.Dist(1)]).apply(Candidates.of(LOGITS))
    assert after.p.tolist() == pytest.approx(PROBABILITIES, rel=1e-6)


def test_a_single_candidate_consumes_a_number_only_in_the_newest_generation() -> None:
    first, second = Mersenne(9).uniforms(2).tolist()
    for generation, u in ((NEW, second), (MID, first), (OLD, first)):
        chain = Chain([s.Dist(9)], generation)
        assert chain.apply(Candidates.of([3.0])).p.tolist() == [1.0]
        # Two equal candidates: the first up to one half.
        assert chain.apply(Candidates.of([0.0, 0.0])).selected == (0 if u <= 0.5 else 1)


def test_reset_starts_the_random_numbers_again() -> None:
    chain = Chain([s.Dist(3)])
    first = [chain.apply(Candidates.of(LOGITS)).selected for _ in range(20)]
    chain.reset()
    assert [chain.apply(Candidates.of(LOGITS)).selected for _ in range(20)] == first


def test_a_clone_draws_what_its_original_draws() -> None:
    chain = Chain([s.Dist(3)])
    chain.apply(Candidates.of(LOGITS))
    clone = chain.clone()
    first = [chain.apply(Candidates.of(LOGITS)).selected for _ in range(20)]
    assert [clone.apply(Candidates.of(LOGITS)).selected for _ in range(20)] == first


def test_many_draws_are_draws_one_by_one() -> None:
    steps = (s.Penalties(4, 2.0, 0.0, 0.0), s.TopP(0.9, 1), s.Xtc(0.5, 0.1, 1, 3), s.Temp(0.7), s.Dist(8))
    together, one_by_one = Chain(steps), Chain(steps)
    for chain in (together, one_by_one):
        chain.accept(1)
    drawn = [(after.ids.tolist(), after.selected) for after in together.draws(Candidates.of(LOGITS), 50)]
    single = [one_by_one.apply(Candidates.of(LOGITS)) for _ in range(50)]
    assert drawn == [(after.ids.tolist(), after.selected) for after in single]
    assert len({selected for _, selected in drawn}) > 1


def test_mirostat_2_cuts_at_the_surprise_it_may_have() -> None:
    # Surprises 3, 1, 3, 2 bits; mu starts at twice tau.
    for tau, wanted in ((0.6, [1]), (1.1, [1, 3]), (1.6, [1, 3, 0, 2])):
        after = Chain([s.MirostatV2(1, tau, 0.1)]).apply(Candidates.of(LOGITS))
        assert after.ids.tolist() == wanted


def test_mirostat_2_keeps_the_best_whatever_it_may_have() -> None:
    assert Chain([s.MirostatV2(1, -5.0, 0.1)]).apply(Candidates.of(LOGITS)).ids.tolist() == [1]


def test_mirostat_2_corrects_its_bound_by_the_surprise() -> None:
    # One candidate left has surprise 0: mu = 1.2 − 2·(0 − 0.6) = 2.4, which lets the second in.
    chain = Chain([s.MirostatV2(1, 0.6, 2.0)])
    assert len(chain.apply(Candidates.of(LOGITS))) == 1
    assert chain.apply(Candidates.of(LOGITS)).ids.tolist() == [1, 3]
    chain.reset()
    assert len(chain.apply(Candidates.of(LOGITS))) == 1


def test_mirostat_1_cuts_where_zipfs_law_puts_its_surprise() -> None:
    # p_i = c / i² exactly: s = 2, ε = 1, k = sqrt(2^mu / (1 − 1/V)); with mu = 6 and V = 64: 8.06.
    logits = [-2 * math.log(i) for i in range(1, 65)]
    assert len(Chain([s.Mirostat(64, 1, 3.0, 0.1, 100)]).apply(Candidates.of(logits))) == 8


def test_mirostat_1_keeps_everything_where_every_candidate_is_as_good() -> None:
    # s = 0 makes k infinite when 2^mu is at least V − 1.
    assert len(Chain([s.Mirostat(4, 1, 3.0, 0.1, 100)]).apply(Candidates.of([0.0] * 4))) == 4


def test_adaptive_p_without_a_target_draws_from_the_distribution() -> None:
    wanted = inverted(PROBABILITIES, Mersenne(5).uniforms(200).tolist())
    assert draws(s.AdaptiveP(-1.0, 0.5, 5), LOGITS, 200, NEW) == wanted


def test_adaptive_p_favours_what_is_at_the_target() -> None:
    # Target 0.25: token 3 is on it (logit 5), 1/8 and 1/2 are off by 0.125 and 0.25, d = 0.4167 and 0.8333.
    after = Chain([s.AdaptiveP(0.25, 0.0, 5)]).apply(Candidates.of(LOGITS))
    wanted = [5 - 10 * d * d / (1 + d) for d in (0.125 / 0.3, 0.25 / 0.3, 0.125 / 0.3, 0.0)]
    assert after.logits.tolist() == pytest.approx(wanted, rel=1e-5)


def test_adaptive_p_learns_only_from_what_it_selected() -> None:
    # No decay: the average is the last accepted token's probability, and the target moves the other way.
    chain = Chain([s.AdaptiveP(0.3, 0.0, 5)])
    after = chain.apply(Candidates.of(LOGITS))
    token = int(after.ids[after.selected])
    chain.accept((token + 1) % 4)
    assert chain.apply(Candidates.of(LOGITS)).logits.tolist() == after.logits.tolist()
    chain.accept(int(chain.apply(Candidates.of(LOGITS)).selected))
    target = 2 * 0.3 - PROBABILITIES[_selected_second(after, chain)]
    shown = chain.apply(Candidates.of(LOGITS)).logits.tolist()
    wanted = [5 - 10 * d * d / (1 + d) for d in (abs(p - target) / 0.3 for p in PROBABILITIES)]
    assert shown == pytest.approx(wanted, rel=1e-4)


def _selected_second(after: Candidates, chain: Chain) -> int:
    """The token of the third draw, whose acceptance the test is about, drawn again from the seed."""
    again = Chain([s.AdaptiveP(0.3, 0.0, 5)])
    for _ in range(3):
        last = again.apply(Candidates.of(LOGITS))
    return int(last.ids[last.selected])


def test_probabilities_are_normalised_in_double() -> None:
    # One strong candidate and many weak ones: the quotient of doubles, rounded once.
    logits = [10.0] + [0.0] * 100
    after = Chain([s.Dist(1)]).apply(Candidates.of(logits))
    e = np.float32(math.exp(-10))
    assert after.p[0] == np.float32(1 / (1 + 100 * float(e)))
