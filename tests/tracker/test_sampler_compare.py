"""How an answer is judged."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.sampling import NEWEST, Specification
from oracle.sampling import specification as s
from tracker.audits.sampler.case import Call, Case, Family, Invocation
from tracker.audits.sampler.compare import Cause, Difference, Match, compare
from tracker.audits.sampler.run import Applied, Death, Drawn, Refusal, Returned
from tracker.libllama.client import DeathKind

ONCE: tuple[Invocation, ...] = ((Call.APPLY, 0, 0),)


def asked(*chain: Specification, logits: list[float], calls: tuple[Invocation, ...] = ONCE) -> Case:
    return Case(family=Family.ORDINARY, chain=chain, inputs=(np.array(logits, np.float32),), calls=calls)


def applied(
    ids: list[int],
    logits: list[float],
    p: list[float] | None = None,
    selected: int = -1,
    ordered: bool = True,
) -> Applied:
    return Applied(
        np.array(ids, np.int32),
        np.array(logits, np.float32),
        np.array(p or [0] * len(ids), np.float32),
        selected,
        ordered,
    )


def cause(case: Case, answer: Applied) -> Cause | None:
    verdict = compare(case, [answer], NEWEST)
    return verdict.cause if isinstance(verdict, Difference) else None


TOP_2 = asked(s.TopK(2), logits=[1, 3, 3, 2])


def test_the_reference_outcome_matches_exactly() -> None:
    assert compare(TOP_2, [applied([1, 2], [3, 3])], NEWEST) == Match(by_ties=False)


def test_equal_scores_may_stand_in_another_order() -> None:
    assert compare(TOP_2, [applied([2, 1], [3, 3])], NEWEST) == Match(by_ties=True)


def test_any_of_several_equal_scores_may_survive_a_cut() -> None:
    top_1 = asked(s.TopK(1), logits=[1, 3, 3, 2])
    assert compare(top_1, [applied([2], [3])], NEWEST) == Match(by_ties=True)


@pytest.mark.parametrize("survivor", [0, 1, 2])
def test_any_of_several_equal_scores_may_survive_a_cut_from_the_front(survivor: int) -> None:
    case = asked(s.TopK(3), s.Xtc(1.0, 0.0, 0, 1), logits=[5, 5, 5, 5])
    assert cause(case, applied([survivor], [5], [float(np.float32(1) / np.float32(3))])) is None


def test_a_worse_score_may_not_survive_in_place_of_a_better_one() -> None:
    assert cause(TOP_2, applied([1, 3], [3, 2])) is Cause.KEPT_SET


def test_temperature_zero_may_keep_either_of_two_equals_but_no_other() -> None:
    chain = asked(s.TopK(4), s.Temp(0.0), logits=[1, 3, 3, 2])
    inf = float("inf")
    assert cause(chain, applied([2, 1, 3, 0], [3, -inf, -inf, -inf])) is None
    assert cause(chain, applied([3, 1, 2, 0], [2, -inf, -inf, -inf])) is Cause.LOGITS


def test_the_number_of_candidates_counts() -> None:
    assert cause(TOP_2, applied([1], [3])) is Cause.KEPT_SET


def test_one_bit_of_a_probability_counts() -> None:
    chain = asked(s.TopK(2), s.TopP(0.99, 1), logits=[0, 0])
    right = applied([0, 1], [0, 0], [0.5, 0.5])
    assert cause(chain, right) is None
    wrong = applied([0, 1], [0, 0], [0.5, float(np.nextafter(np.float32(0.5), np.float32(0)))])
    assert cause(chain, wrong) is Cause.PROBABILITIES


def test_an_order_that_is_no_order_counts() -> None:
    unsorted = asked(s.Penalties(4, 2.0, 0.0, 0.0), logits=[1, 2])
    assert cause(unsorted, applied([0, 1], [1, 2], ordered=False)) is None
    assert cause(unsorted, applied([1, 0], [2, 1], ordered=False)) is Cause.ORDER
    assert cause(unsorted, applied([0, 1], [1, 2], ordered=True)) is Cause.FALSE_ORDER


def test_nan_belongs_at_the_end_of_an_order() -> None:
    nan = float("nan")
    case = asked(s.TopK(2), logits=[nan, 1])
    assert cause(case, applied([1, 0], [1, nan])) is None
    assert cause(case, applied([0, 1], [nan, 1])) is Cause.FALSE_ORDER


def test_the_selection_counts() -> None:
    answer = applied([0, 1], [1, 3], selected=0, ordered=False)
    assert cause(asked(s.Greedy(), logits=[1, 3]), answer) is Cause.SELECTION


def test_equal_nans_are_equal_whatever_their_bits() -> None:
    nan = np.array([0x7FC00000, 0xFFC00001], np.uint32).view(np.float32)
    case = asked(s.Temp(2.0), logits=[1, 1])
    case = Case(family=case.family, chain=case.chain, inputs=(nan,), calls=case.calls)
    answer = Applied(np.arange(2, dtype=np.int32), nan[::-1].copy(), np.zeros(2, np.float32), -1, False)
    assert compare(case, [answer], NEWEST) == Match(by_ties=False)


NOTHING_LEFT = asked(s.Dist(1), logits=[-np.inf, -np.inf])


def test_a_token_from_no_distribution_is_a_difference() -> None:
    nan = float("nan")
    answer = applied([0, 1], [-np.inf, -np.inf], [nan, nan], selected=1, ordered=False)
    assert cause(NOTHING_LEFT, answer) is Cause.UNDEFINED


def test_a_refusal_where_there_is_no_distribution_is_right() -> None:
    assert cause(NOTHING_LEFT, applied([0, 1], [-np.inf, -np.inf], ordered=False)) is None


def test_a_wrong_choice_after_an_overflow_names_the_best() -> None:
    nan = float("nan")
    case = asked(s.Temp(1e-40), s.Dist(1), logits=[2, 1])
    answer = applied([0, 1], [np.inf, np.inf], [nan, nan], selected=1, ordered=False)
    verdict = compare(case, [answer], NEWEST)
    assert isinstance(verdict, Difference)
    assert verdict.cause is Cause.OVERFLOW
    assert "the best is token 0" in verdict.detail


def test_what_differs_only_after_a_clone_is_a_matter_of_state() -> None:
    calls: tuple[Invocation, ...] = ((Call.APPLY, 0, 0), (Call.CLONE, 0), (Call.APPLY, 1, 0))
    case = asked(s.Greedy(), logits=[1, 3], calls=calls)
    right = applied([0, 1], [1, 3], selected=1, ordered=False)
    wrong = applied([0, 1], [1, 3], selected=0, ordered=False)
    verdict = compare(case, [right, Returned(True), wrong], NEWEST)
    assert isinstance(verdict, Difference)
    assert (verdict.cause, verdict.call) == (Cause.STATE, 2)
    verdict = compare(case, [wrong, Returned(True), wrong], NEWEST)
    assert isinstance(verdict, Difference)
    assert (verdict.cause, verdict.call) == (Cause.SELECTION, 0)


def test_a_sequence_of_draws_has_to_be_the_same_throughout() -> None:
    case = asked(s.Greedy(), logits=[1, 3], calls=((Call.DRAWS, 0, 0, 3),))
    assert compare(case, [Drawn(np.array([1, 1, 1], np.int32))], NEWEST) == Match(by_ties=False)
    verdict = compare(case, [Drawn(np.array([1, 1, 0], np.int32))], NEWEST)
    assert isinstance(verdict, Difference)
    assert verdict.cause is Cause.SELECTION


def test_a_death_is_a_difference_and_a_refusal_no_verdict() -> None:
    verdict = compare(TOP_2, Death(DeathKind.CRASH, "SIGABRT"), NEWEST)
    assert isinstance(verdict, Difference)
    assert verdict.cause is Cause.DIED
    with pytest.raises(ValueError, match="no such sampler"):
        compare(TOP_2, Refusal("no such sampler"), NEWEST)
