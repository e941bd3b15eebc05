"""A watch over time as runs of builds with one verdict: what a timeline draws. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from tracker.history.order import moment_of
from tracker.results import BuildIdentity
from tracker.watches import Present, Untestable, WatchHistory, WatchPoint, verdict_word


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring builds of one audit version on which a watch has the same verdict, finding for finding.

    ``left`` and ``width`` are per cent of the timeline; ``became`` is the transition at the first build, or
    empty. Between two runs lie only builds that are not listed: the change happened somewhere in the gap.
    """

    word: str
    first: BuildIdentity
    last: BuildIdentity
    builds: int
    atoms: int
    became: str
    reason: str
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A date on the axis; ``minor`` ones may be left out on a narrow screen."""

    label: str
    left: float
    minor: bool


@dataclass(frozen=True, slots=True)
class Scale:
    """Dates to per cent."""

    first: datetime
    last: datetime

    @classmethod
    def over(cls, builds: Sequence[BuildIdentity]) -> Scale:
        """The scale from the oldest to the newest of some builds."""
        moments = [moment for build in builds if (moment := moment_of(build))]
        return cls(min(moments), max(moments)) if moments else cls(datetime.min, datetime.min)

    def place(self, moment: datetime) -> float:
        """Per cent from the left, two decimals; everything is at 0 on a scale of one moment."""
        span = (self.last - self.first).total_seconds()
        return round(100 * (moment - self.first).total_seconds() / span, 2) if span else 0.0

    def ticks(self) -> list[Tick]:
        """Quarters for up to three years, else years."""
        found: list[Tick] = []
        months = (1, 4, 7, 10) if (self.last - self.first).days <= 3 * 366 else (1,)
        for year in range(self.first.year, self.last.year + 1):
            for month in months:
                moment = datetime(year, month, 1, tzinfo=UTC)
                if self.first.tzinfo and self.first <= moment <= self.last and self.place(moment) <= 95:
                    label = str(year) if month == 1 else f"{moment:%b}"
                    found.append(Tick(label, self.place(moment), month != 1))
        return found


def runs(history: WatchHistory, scale: Scale) -> list[Run]:
    """The runs of a watch, oldest first."""
    return [_run(list(points), scale) for _, points in groupby(history.points, _sameness)]


def _sameness(point: WatchPoint) -> tuple[str, str, str]:
    verdict = point.verdict
    if isinstance(verdict, Present):
        return verdict_word(verdict), point.audit_version, verdict.fingerprint
    reason = verdict.reason if isinstance(verdict, Untestable) else ""
    return verdict_word(verdict), point.audit_version, reason


def _run(points: Sequence[WatchPoint], scale: Scale) -> Run:
    first, last = points[0], points[-1]
    verdict = first.verdict
    begin, end = moment_of(first.build), moment_of(last.build)
    left = scale.place(begin) if begin else 0.0
    return Run(
        word=verdict_word(verdict),
        first=first.build,
        last=last.build,
        builds=len(points),
        atoms=verdict.atoms if isinstance(verdict, Present) else 0,
        became=str(first.transition) if first.transition else "",
        reason=verdict.reason if isinstance(verdict, Untestable) else "",
        left=left,
        width=round(max(0.0, (scale.place(end) if end else 0.0) - left), 2),
    )
