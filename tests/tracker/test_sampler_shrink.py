"""Cases made smaller."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.sampling import specification as s
from tracker.audits.sampler.case import Call, Case, Family
from tracker.audits.sampler.shrink import shrink

START = Case(
    family=Family.ORDINARY,
    chain=(s.TopK(200), s.Temp(0.7312), s.Dist(12345)),
    inputs=(np.linspace(-3.3, 4.7, 500, dtype=np.float32), np.ones(3, np.float32)),
    calls=((Call.APPLY, 0, 0), (Call.CLONE, 0), (Call.APPLY, 1, 0), (Call.RESET, 1), (Call.APPLY, 0, 0)),
)


def test_what_shows_always_shrinks_to_one_sampler_one_call_one_logit() -> None:
    least = shrink(START, lambda case: True, 1000)
    assert len(least.chain) == 1
    assert len(least.calls) == 1
    assert [logits.tolist() for logits in least.inputs] == [[0.0]]


def test_what_needs_a_high_logit_among_many_keeps_just_these() -> None:
    def shows(case: Case) -> bool:
        return any(step.name == "top_k" for step in case.chain) and any(
            len(logits) >= 130 and logits.max() >= 4 for logits in case.inputs
        )

    least = shrink(START, shows, 2000)
    assert [step.name for step in least.chain] == ["top_k"]
    assert len(least.inputs) == 1
    assert len(least.inputs[0]) == 130
    assert np.count_nonzero(least.inputs[0]) == 1


def test_whole_numbers_come_down_to_where_it_still_shows() -> None:
    least = shrink(
        START, lambda case: any(isinstance(step, s.TopK) and step.k >= 129 for step in case.chain), 1000
    )
    assert least.chain == (s.TopK(129),)


def test_a_clone_that_is_needed_stays_with_what_it_is_made_of() -> None:
    least = shrink(START, lambda case: (Call.APPLY, 1, 0) in case.calls, 1000)
    assert least.calls == ((Call.CLONE, 0), (Call.APPLY, 1, 0))


def test_a_draw_that_is_needed_is_found() -> None:
    many = replace(START, calls=((Call.DRAWS, 0, 0, 1000),))
    least = shrink(many, lambda case: case.calls[0][0] is Call.DRAWS and case.calls[0][3] >= 37, 1000)
    assert least.calls == ((Call.DRAWS, 0, 0, 37),)


def test_the_allowance_is_kept() -> None:
    asked = 0

    def shows(case: Case) -> bool:
        nonlocal asked
        asked += 1
        return True

    shrink(START, shows, 7)
    assert asked == 7


@given(st.integers(1, 400), st.floats(-3, 4, width=32))
@settings(max_examples=25, deadline=None)
def test_the_result_still_shows_and_is_no_larger(length: int, bound: float) -> None:
    def shows(case: Case) -> bool:
        return len(case.inputs[0]) >= length and bool(case.inputs[0].max() > bound)

    least = shrink(START, shows, 300)
    assert shows(least)
    assert least.size <= START.size
