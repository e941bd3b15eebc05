"""What the page of a watch shows: its verdict, since when, its history and what it lets through. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from tracker.config import Watch
from tracker.history import Transition
from tracker.render.build_page import FindingRow, finding_rows
from tracker.render.cases import Case, smallest_case
from tracker.render.changes import ChangeGroup, group_changes
from tracker.results import BuildIdentity, Document, GrammarDocument
from tracker.watches import Present, Untestable, WatchHistory, WatchPoint, selects, verdict_word

MAX_STEPS = 60


@dataclass(frozen=True, slots=True)
class VerdictRun:
    """Neighbouring builds with one verdict, finding for finding, the newest first."""

    points: tuple[WatchPoint, ...]

    @property
    def word(self) -> str:
        """Present, absent or untestable."""
        return verdict_word(self.points[0].verdict)

    @property
    def newest(self) -> WatchPoint:
        """The newest of them."""
        return self.points[0]

    @property
    def oldest(self) -> WatchPoint:
        """The oldest of them: where it began."""
        return self.points[-1]


@dataclass(frozen=True, slots=True)
class Standing:
    """The verdict on the newest build that could be tested, and what is known of its age."""

    history: WatchHistory
    word: str
    newest: WatchPoint | None
    untested_since: tuple[WatchPoint, ...]

    @property
    def atoms(self) -> int:
        """Findings on the newest tested build."""
        verdict = self.newest.verdict if self.newest else None
        return verdict.atoms if isinstance(verdict, Present) else 0


@dataclass(frozen=True, slots=True)
class WatchView:
    """Everything on the page of a watch. ``rows`` and ``case`` are of ``shown``, the last build with it."""

    standing: Standing
    filters: tuple[tuple[str, tuple[str, ...]], ...]
    runs: tuple[VerdictRun, ...]
    steps: tuple[tuple[WatchPoint, tuple[ChangeGroup, ...]], ...]
    shown: BuildIdentity | None
    rows: tuple[FindingRow, ...]
    case: Case | None


def standing_of(history: WatchHistory) -> Standing:
    """Where a watch stands."""
    newest = history.newest
    place = history.points.index(newest) + 1 if newest else 0
    word = verdict_word(newest.verdict) if newest else "untestable"
    return Standing(history, word, newest, history.points[place:])


def watch_view(history: WatchHistory, document: Document | None) -> WatchView:
    """The view of a watch; ``document`` is that of the newest build that shows it."""
    watch = history.watch
    rows: list[FindingRow] = []
    case = None
    if document is not None:
        rows = finding_rows(document.subjects, lambda strand: selects(watch, strand))
    if isinstance(document, GrammarDocument):
        case = smallest_case(document.grammars, lambda strand: selects(watch, strand))
    groups = groupby(reversed(history.points), key=_sameness)
    steps = [p for p in history.points if p.transition not in (None, Transition.UNTESTABLE)]
    return WatchView(
        standing=standing_of(history),
        filters=tuple(_filters(watch)),
        runs=tuple([VerdictRun(tuple(points)) for _, points in groups]),
        steps=tuple([(p, tuple(group_changes(p.changes))) for p in reversed(steps[-MAX_STEPS:])]),
        shown=document.build if document else None,
        rows=tuple(rows),
        case=case,
    )


def _filters(watch: Watch) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What it lets through: the name of each filter and its values."""
    yield "audit", (watch.audit,)
    if watch.kinds:
        yield "kind", tuple(map(str, watch.kinds))
    if watch.causes:
        yield "cause", watch.causes
    if watch.grammars:
        yield "grammar", watch.grammars
    if watch.mid_code_point is not None:
        yield "place", ("inside a code point" if watch.mid_code_point else "not inside a code point",)


def _sameness(point: WatchPoint) -> tuple[str, str, str]:
    verdict = point.verdict
    if isinstance(verdict, Present):
        return "present", point.audit_version, verdict.fingerprint
    return (
        verdict_word(verdict),
        point.audit_version,
        verdict.reason if isinstance(verdict, Untestable) else "",
    )
