"""Samplers that change logits, against hand computations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oracle.sampling import (
    SPECIFICATIONS,
    Candidates,
    Chain,
    Specification,
    SpecificationError,
    UndefinedDistribution,
    from_json,
    to_json,
)
from oracle.sampling import specification as s

INF = math.inf


def logits_after(
    specification: Specification, logits: list[float], accepted: list[int] | None = None
) -> list[float]:
    chain = Chain([specification])
    for token in accepted or []:
        chain.accept(token)
    result: list[float] = chain.apply(Candidates.of(logits)).logits.tolist()
    return result


def test_temperature_divides_in_single_precision() -> None:
    assert logits_after(s.Temp(0.8), [1, -3]) == [
        float(np.float32(1) / np.float32(0.8)),
        float(np.float32(-3) / np.float32(0.8)),
    ]


def test_temperature_zero_keeps_the_first_of_the_best() -> None:
    assert logits_after(s.Temp(0.0), [1, 3, 3, 2]) == [-INF, 3, -INF, -INF]
    assert logits_after(s.Temp(-1.0), [1, 3, 3, 2]) == [-INF, 3, -INF, -INF]


def test_temperature_of_nothing_is_nothing() -> None:
    assert logits_after(s.Temp(0.0), []) == []


def test_a_temperature_that_makes_infinities_leaves_no_distribution() -> None:
    with pytest.raises(UndefinedDistribution):
        Chain([s.Temp(1e-40), s.Dist(1)]).apply(Candidates.of([1, 2]))


def test_dynamic_temperature_is_at_its_upper_end_for_a_uniform_distribution() -> None:
    # Entropy over maximum is 1, so t + delta = 1.0 divides the equal logits.
    after = Chain([s.TempExt(0.75, 0.25, 1.0)]).apply(Candidates.of([2, 2, 2, 2]))
    assert after.logits.tolist() == pytest.approx([2, 2, 2, 2], rel=1e-6)
    assert after.p.tolist() == pytest.approx([0.25] * 4, rel=1e-6)


def test_dynamic_temperature_lies_between_its_ends() -> None:
    # p = 0.8, 0.2: H = 0.5004, / log 2 = 0.7219; t = 0.5 + 1.0·0.7219.
    after = Chain([s.TempExt(1.0, 0.5, 1.0)]).apply(Candidates.of([math.log(4), 0.0]))
    assert after.logits[0] == pytest.approx(math.log(4) / 1.2219, rel=1e-4)


def test_dynamic_temperature_without_a_range_is_temperature() -> None:
    assert logits_after(s.TempExt(0.5, 0.0, 1.0), [1, 3]) == [2, 6]


def test_penalties_divide_what_is_positive_and_multiply_what_is_not() -> None:
    assert logits_after(s.Penalties(8, 2.0, 0.0, 0.0), [4, -4, 4], [0, 1]) == [2, -8, 4]


def test_penalties_count_how_often_and_whether() -> None:
    assert logits_after(s.Penalties(8, 1.0, 0.5, 0.25), [4, 4, 4], [0, 0, 1]) == [2.75, 3.25, 4]


def test_penalties_forget_what_is_longer_ago() -> None:
    assert logits_after(s.Penalties(1, 2.0, 0.0, 0.0), [4, 4], [0, 1]) == [4, 2]


@pytest.mark.parametrize("specification", [s.Penalties(0, 2.0, 1.0, 1.0), s.Penalties(8, 1.0, 0.0, 0.0)])
def test_penalties_that_are_off_do_nothing(specification: Specification) -> None:
    assert logits_after(specification, [4, 4], [0, 1]) == [4, 4]


def test_dry_penalises_what_would_continue_a_repetition() -> None:
    # After a b c a b the token c would extend "a b" (length 2, allowed 1): 0.5·2^(2−1) = 1.
    assert logits_after(s.Dry(0.5, 2.0, 1, 64), [9, 9, 9, 9], [0, 1, 2, 0, 1]) == [9, 9, 8, 9]


def test_dry_takes_the_longest_repetition() -> None:
    # After x a x x a: a follows x … here "a" once followed by x (length 2: "x a"): 2^(2−1) off x = 1.
    assert logits_after(s.Dry(1.0, 2.0, 1, 64), [9, 9], [1, 0, 1, 1, 0]) == [9, 7]


def test_dry_leaves_short_repetitions_alone() -> None:
    assert logits_after(s.Dry(0.5, 2.0, 3, 64), [9, 9, 9], [0, 1, 2, 0, 1]) == [9, 9, 9]


def test_dry_sees_only_its_window() -> None:
    assert logits_after(s.Dry(0.5, 2.0, 1, 2), [9, 9, 9], [0, 1, 2, 0, 1]) == [9, 9, 9]


def test_biases_add_up() -> None:
    assert logits_after(s.LogitBias(((1, 2.0), (1, -0.5), (7, 1.0))), [1, 1]) == [1, 2.5]


def test_reset_forgets_accepted_tokens() -> None:
    chain = Chain([s.Penalties(8, 2.0, 0.0, 0.0), s.Dry(1.0, 2.0, 1, 8)])
    for token in (0, 0, 0):
        chain.accept(token)
    chain.reset()
    assert chain.apply(Candidates.of([4, 4])).logits.tolist() == [4, 4]


def test_a_clone_goes_its_own_way() -> None:
    chain = Chain([s.Penalties(8, 2.0, 0.0, 0.0)])
    chain.accept(0)
    clone = chain.clone()
    clone.accept(1)
    assert chain.apply(Candidates.of([4, 4])).logits.tolist() == [2, 4]
    assert clone.apply(Candidates.of([4, 4])).logits.tolist() == [2, 2]


EXAMPLES = (
    s.TopK(3), s.TopP(0.5, 1), s.MinP(0.5, 1), s.Temp(0.5), s.Dist(1), s.Greedy(), s.Typical(0.5, 1),
    s.TempExt(1.0, 0.5, 1.0), s.Xtc(0.5, 0.1, 1, 1), s.TopNSigma(1.0), s.Mirostat(10, 1, 5.0, 0.1, 100),
    s.MirostatV2(1, 5.0, 0.1), s.Penalties(8, 1.1, 0.0, 0.0), s.Dry(0.8, 1.75, 2, 64),
    s.AdaptiveP(0.5, 0.9, 1), s.LogitBias(((1, 2.0),)), s.Infill(),
)  # fmt: skip


@pytest.mark.parametrize("specification", EXAMPLES, ids=lambda example: example.name)
def test_a_description_survives_json(specification: Specification) -> None:
    assert from_json(to_json(specification)) == specification


def test_every_sampler_has_an_example_here() -> None:
    assert {example.name for example in EXAMPLES} == set(SPECIFICATIONS)


@pytest.mark.parametrize("value", [{}, {"sampler": "best"}, {"sampler": "temp"}, {"sampler": "temp", "k": 1}])
def test_what_describes_no_sampler_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(SpecificationError):
        from_json(value)


def test_a_sampler_without_reference_is_refused() -> None:
    with pytest.raises(SpecificationError, match="infill has no reference"):
        Chain([s.Infill()])
