"""The search against every layout of untestable stretches up to a size, and against random ones."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.bisect.search import Answer, Outcome, Probe, Verdict, next_step, plan

P, A, U = Verdict.PRESENT, Verdict.ABSENT, Verdict.UNTESTABLE
LARGEST = 9
"""Every assignment of three verdicts to ranges of up to this many builds is tried."""


def run(
    truth: Sequence[Verdict],
    known: Mapping[int, Verdict] | None = None,
    *,
    patience: int = 1000,
    priorities: Sequence[int] | None = None,
) -> tuple[Answer, list[int]]:
    """The answer, and the indices that were asked about, in order."""
    verdicts = dict(known or {})
    asked: list[int] = []
    for _ in range(len(truth) + 1):
        step = next_step(verdicts, len(truth), patience=patience, priorities=priorities)
        if isinstance(step, Answer):
            return step, asked
        assert step.index not in verdicts, "an index is never asked about twice"
        verdicts[step.index] = truth[step.index]
        asked.append(step.index)
    raise AssertionError("the search does not end")


def layouts(size: int) -> list[tuple[Verdict, ...]]:
    """Every layout of one change with any set of untestable builds between testable ends."""
    found = []
    for change in range(1, size):
        for holes in itertools.product((False, True), repeat=size - 2):
            broken = (False, *holes, False)
            for before, after in ((A, P), (P, A)):
                found.append(tuple(U if broken[i] else before if i < change else after for i in range(size)))
    return list(dict.fromkeys(found))


def expected(truth: Sequence[Verdict]) -> tuple[int, int]:
    """By definition: the last that answers like the start, the first that answers like the end."""
    return (
        max(i for i, v in enumerate(truth) if v is truth[0]),
        min(i for i, v in enumerate(truth) if v is truth[-1]),
    )


@pytest.mark.parametrize("size", range(2, LARGEST + 1))
def test_every_layout_of_untestable_builds_yields_the_exact_range(size: int) -> None:
    for truth in layouts(size):
        answer, _ = run(truth)
        last, first = expected(truth)
        assert (answer.outcome, answer.last, answer.first) == (Outcome.FOUND, last, first), truth
        assert answer.untestable == tuple(range(last + 1, first)), truth
        assert answer.untried == answer.contradicting == ()


@pytest.mark.parametrize("size", range(2, LARGEST + 1))
@pytest.mark.parametrize("patience", [0, 1, 3])
def test_with_bounded_patience_every_build_of_the_range_is_accounted_for(size: int, patience: int) -> None:
    for truth in layouts(size):
        answer, asked = run(truth, patience=patience)
        between = range(answer.last + 1, answer.first)
        assert truth[answer.last] is truth[0]
        assert truth[answer.first] is truth[-1]
        assert all(truth[i] is U and i in asked for i in answer.untestable)
        assert not set(answer.untried) & set(asked)
        assert sorted((*answer.untestable, *answer.untried)) == list(between)
        assert answer.untried == () or len(answer.untestable) >= patience
        if between:
            assert {between[0], between[-1]} <= set(answer.untestable), "both neighbours were tried"


@pytest.mark.parametrize("size", [2, 3, 5, 17, 41])
def test_a_single_broken_stretch_is_delimited_exactly_with_no_patience_at_all(size: int) -> None:
    for begin in range(1, size - 1):
        for end in range(begin + 1, size):
            for change in {begin, (begin + end) // 2, end, 1, size - 1}:
                truth = [U if begin <= i < end else A if i < change else P for i in range(size)]
                answer, asked = run(truth, patience=0)
                assert (answer.last, answer.first) == expected(truth)
                assert len(asked) <= 2 + 2 * math.ceil(math.log2(size)) + 2


@pytest.mark.parametrize("size", range(2, 300, 7))
def test_without_untestable_builds_no_more_than_the_binary_logarithm_is_asked(size: int) -> None:
    for change in range(1, size):
        _, asked = run([A] * change + [P] * (size - change))
        assert len(asked) <= 2 + math.ceil(math.log2(size - 1))


def test_both_ends_are_asked_about_first() -> None:
    _, asked = run([A, A, P, P, P, P, P])
    assert asked[:2] == [0, 6]


@pytest.mark.parametrize("same", [P, A])
def test_equal_ends_stop_the_search_after_two_questions(same: Verdict) -> None:
    answer, asked = run([same] * 9)
    assert answer.outcome is Outcome.SAME_ENDS
    assert asked == [0, 8]


@pytest.mark.parametrize(("truth", "questions"), [([U, A, P], 1), ([A, P, U], 2), ([U, U], 1)])
def test_an_untestable_end_stops_the_search(truth: list[Verdict], questions: int) -> None:
    answer, asked = run(truth)
    assert answer.outcome is Outcome.END_UNTESTABLE
    assert len(asked) == questions


def test_a_range_of_one_is_no_range() -> None:
    with pytest.raises(ValueError, match="two ends"):
        next_step({}, 1)


@pytest.mark.parametrize("size", range(2, 8))
def test_any_verdicts_whatever_yield_a_real_change(size: int) -> None:
    for truth in itertools.product((P, A, U), repeat=size):
        answer, _ = run(truth)
        if answer.outcome is not Outcome.FOUND:
            continue
        assert truth[answer.last] is truth[0]
        assert truth[answer.first] is truth[-1]
        assert all(truth[i] is U for i in range(answer.last + 1, answer.first))


def test_verdicts_that_contradict_the_answer_are_told() -> None:
    answer = next_step({0: A, 1: P, 2: A, 3: P, 4: A, 5: P}, 6)
    assert isinstance(answer, Answer)
    told = set(answer.contradicting)
    assert told == {i for i in range(6) if i <= answer.last and i % 2 == 1} | {
        i for i in range(6) if i >= answer.first and i % 2 == 0
    }
    assert told


@st.composite
def _searches(draw: st.DrawFn) -> tuple[list[Verdict], set[int], list[int]]:
    size = draw(st.integers(2, 120))
    change = draw(st.integers(1, size - 1))
    broken = draw(st.sets(st.integers(1, max(1, size - 2)), max_size=size)) - {0, size - 1}
    known = draw(st.sets(st.integers(0, size - 1)))
    priorities = draw(st.permutations(range(size)))
    truth = [U if i in broken else A if i < change else P for i in range(size)]
    return truth, known, list(priorities)


@given(_searches())
def test_what_is_known_beforehand_and_midpoints_by_priority_never_change_the_answer(
    search: tuple[list[Verdict], set[int], list[int]],
) -> None:
    truth, known, priorities = search
    answer, asked = run(truth, {i: truth[i] for i in known}, priorities=priorities)
    assert (answer.last, answer.first) == expected(truth)
    assert not known & set(asked)


@given(_searches(), st.integers(0, 40))
def test_a_search_cut_off_anywhere_and_resumed_asks_the_same_questions(
    search: tuple[list[Verdict], set[int], list[int]], cut: int
) -> None:
    truth, _, priorities = search
    whole, asked = run(truth, priorities=priorities)
    resumed, rest = run(truth, {i: truth[i] for i in asked[:cut]}, priorities=priorities)
    assert (resumed, rest) == (whole, asked[cut:])


@given(_searches(), st.integers(1, 4))
def test_probing_ahead_finds_the_same_range(
    search: tuple[list[Verdict], set[int], list[int]], jobs: int
) -> None:
    truth, _, priorities = search
    verdicts: dict[int, Verdict] = {}
    while not isinstance(probes := plan(verdicts, len(truth), jobs, priorities=priorities), Answer):
        assert 1 <= len(probes) <= jobs
        assert probes[0] == next_step(verdicts, len(truth), priorities=priorities)
        assert len({p.index for p in probes}) == len(probes)
        verdicts |= {probe.index: truth[probe.index] for probe in probes}
    answer, _ = run(truth, priorities=priorities)
    assert (probes.last, probes.first) == (answer.last, answer.first)


@pytest.mark.parametrize("size", [2, 3, 4, 9, 33, 100, 269])
def test_three_at_once_take_two_steps_of_the_search_in_each_round(size: int) -> None:
    priorities = [random.Random(size + i).getrandbits(64) for i in range(size)]
    for change in range(1, size):
        truth = [A] * change + [P] * (size - change)
        steps = len(run(truth, priorities=priorities)[1])
        assert rounds(truth, 1, priorities) == steps
        assert rounds(truth, 2, priorities) <= steps - 1  # both ends at once
        # Both ends and a middle; then each time the next one and those that follow its two verdicts.
        assert rounds(truth, 3, priorities) <= 1 + math.ceil((steps - 2) / 2)


def rounds(truth: Sequence[Verdict], jobs: int, priorities: Sequence[int]) -> int:
    """How often a search that looks at so many at once has to wait for all of them."""
    verdicts: dict[int, Verdict] = {}
    count = 0
    while not isinstance(probes := plan(verdicts, len(truth), jobs, priorities=priorities), Answer):
        verdicts |= {probe.index: truth[probe.index] for probe in probes}
        count += 1
    return count


def test_two_jobs_verify_both_ends_at_once() -> None:
    probes = plan({}, 10, 2)
    assert not isinstance(probes, Answer)
    assert [p.index for p in probes] == [0, 9]


def test_moving_an_end_keeps_asking_about_the_same_builds() -> None:
    source = random.Random(5)
    names = [source.getrandbits(64) for _ in range(280)]
    truth = [A] * 150 + [P] * 130
    _, first = run(truth[:270], priorities=names[:270])
    shared = 0
    for newer in range(271, 281):
        _, again = run(truth[:newer], priorities=names[:newer])
        shared += len(set(again[2:]) & set(first[2:])) / len(again[2:])
    plain = set(run(truth[:270])[1][2:])
    unquantised = sum(len(set(run(truth[:n])[1][2:]) & plain) / 8 for n in range(271, 281))
    assert shared / 10 > 0.75
    assert shared > unquantised


def test_steps_left_counts_down_to_one() -> None:
    verdicts: dict[int, Verdict] = {}
    left = []
    truth = [A] * 20 + [P] * 13
    while isinstance(step := next_step(verdicts, 33), Probe):
        left.append(step.steps_left)
        verdicts[step.index] = truth[step.index]
    assert left == [7, 6, 5, 4, 3, 2, 1]
