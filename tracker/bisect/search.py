"""The least-satisfying search with three answers: which index to look at next, or what the answer is.

The search is a pure function of what is known: a mapping from indices to verdicts. It keeps no state, so
a resumed run, a run with verdicts from a store and one that looks at two indices at once are all the same
call. It does not know what an index stands for.

What it relies on: both ends are testable and differ. What it does not rely on: that verdicts are monotone (of
several changes it finds one, and tells which verdicts contradict it), or that anything between the ends is
testable. Indices that cannot be tested are a verdict of their own, never taken for one of the other two.

An untestable index cuts the interval; the search goes on in the larger outer part, so that one connected
stretch of untestable indices costs a number of steps logarithmic in the interval. Only when the neighbours of
both sides are untestable does it look inside the stretch, and there it gives up once ``patience`` indices of
it have been tried.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

DEFAULT_PATIENCE = 16
"""How many untestable indices between the last and the first are put up with."""

_WINDOW = 8
"""A midpoint may lie up to one part in this many of the interval away from the middle."""


class Verdict(StrEnum):
    """The three answers to a question about one build."""

    PRESENT = "present"
    ABSENT = "absent"
    UNTESTABLE = "untestable"


class Outcome(StrEnum):
    """How a search ended."""

    FOUND = "found"
    SAME_ENDS = "same-ends"
    """Both ends answer alike: there is nothing to find between them."""
    END_UNTESTABLE = "end-untestable"
    """One of the ends cannot be tested, so nothing is known about the range."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The index to look at next, and the open interval (``low``, ``high``) that it will narrow."""

    index: int
    low: int
    high: int

    @property
    def steps_left(self) -> int:
        """Further probes to expect, this one included, if everything is testable."""
        if self.index in (self.low, self.high):
            return math.ceil(math.log2(max(1, self.high - self.low))) + (2 if self.index == self.low else 1)
        return math.ceil(math.log2(self.high - self.low))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a search found.

    ``last`` is the last index known to answer like the lower end, ``first`` the first one known to answer
    like the upper end (the ends themselves unless FOUND). Every index between them is either in
    ``untestable`` or, when the search ran out of patience, in ``untried``. ``contradicting`` are indices
    outside that answer unlike their side: the verdicts are not monotone, and there is more than one change.
    """

    outcome: Outcome
    last: int
    first: int
    untestable: tuple[int, ...] = ()
    untried: tuple[int, ...] = ()
    contradicting: tuple[int, ...] = ()


def next_step(
    verdicts: Mapping[int, Verdict],
    size: int,
    *,
    priorities: Sequence[int] | None = None,
    patience: int = DEFAULT_PATIENCE,
) -> Probe | Answer:
    """What to look at next in ``range(size)``, or the answer.

    ``priorities`` holds one number per index that belongs to what the index stands for, not to its place: of
    the indices about the middle, the one with the smallest number is probed, so that another search over a
    range that overlaps this one asks about the same builds. Raises ValueError when ``size`` is below 2.
    """
    if size < 2:
        raise ValueError(f"a search needs two ends, not {size}")
    low, high = 0, size - 1
    for end in (low, high):
        if end not in verdicts:
            return Probe(end, low, high)
        if verdicts[end] is Verdict.UNTESTABLE:
            return Answer(outcome=Outcome.END_UNTESTABLE, last=low, first=high)
    before, after = verdicts[low], verdicts[high]
    if before is after:
        return Answer(outcome=Outcome.SAME_ENDS, last=low, first=high)
    low, high = _narrow(verdicts, low, high)
    broken = sorted(i for i in verdicts if low < i < high)
    gap = _gap(low, high, broken, patience)
    if gap is not None:
        return Probe(_midpoint(*gap, priorities), low, high)
    return Answer(
        outcome=Outcome.FOUND,
        last=low,
        first=high,
        untestable=tuple(broken),
        untried=tuple(i for i in range(low + 1, high) if i not in verdicts),
        contradicting=tuple(
            sorted(
                i for i, v in verdicts.items() if v is (after if i <= low else before if i >= high else None)
            )
        ),
    )


def plan(
    verdicts: Mapping[int, Verdict],
    size: int,
    count: int,
    *,
    priorities: Sequence[int] | None = None,
    patience: int = DEFAULT_PATIENCE,
) -> tuple[Probe, ...] | Answer:
    """Up to ``count`` probes that may run at once, most useful first, or the answer.

    The first is ``next_step``'s; the others are those that would be next for each verdict that it may get.
    """
    found: dict[int, Probe] = {}
    hypotheses: list[Mapping[int, Verdict]] = [verdicts]
    for hypothesis in hypotheses:
        step = next_step(hypothesis, size, priorities=priorities, patience=patience)
        if isinstance(step, Answer):
            if hypothesis is verdicts:
                return step
            continue
        found.setdefault(step.index, step)
        if len(found) >= count or len(hypotheses) > 4 * count:
            break
        hypotheses.extend(
            {**hypothesis, step.index: verdict} for verdict in (Verdict.ABSENT, Verdict.PRESENT)
        )
    return tuple(found.values())


def _narrow(verdicts: Mapping[int, Verdict], low: int, high: int) -> tuple[int, int]:
    """The smallest interval with different ends that bisection by the known verdicts leads to."""
    testable = sorted(i for i, v in verdicts.items() if low < i < high and v is not Verdict.UNTESTABLE)
    while testable:
        middle = min(testable, key=lambda i: (abs(2 * i - low - high), i))
        if verdicts[middle] is verdicts[low]:
            low = middle
        else:
            high = middle
        testable = [i for i in testable if low < i < high]
    return low, high


def _gap(low: int, high: int, broken: Sequence[int], patience: int) -> tuple[int, int] | None:
    """The open interval of untried indices to look into, None when there is none or patience has run out."""
    if not broken:
        return (low, high) if high - low > 1 else None
    outer = max((low, broken[0]), (broken[-1], high), key=_length)
    if _length(outer) > 1:
        return outer
    if len(broken) >= patience:
        return None
    inner = max(itertools.pairwise(broken), key=_length, default=(low, low))
    return inner if _length(inner) > 1 else None


def _length(gap: tuple[int, int]) -> int:
    return gap[1] - gap[0]


def _midpoint(low: int, high: int, priorities: Sequence[int] | None) -> int:
    """An index strictly between, about the middle."""
    middle = (low + high) // 2
    if priorities is None:
        return middle
    slack = (high - low) // (2 * _WINDOW)
    window = range(max(low + 1, middle - slack), min(high - 1, middle + slack) + 1)
    return min(window, key=lambda i: (priorities[i], i))
