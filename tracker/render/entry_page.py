"""What the entry page shows: the watches, what changed last, and the matrix of builds and subjects. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracker.history import Change, Entry, History, Summary, Transition
from tracker.history.order import order_key
from tracker.render.build_page import FindingRow
from tracker.render.changes import ChangeGroup, group_changes
from tracker.render.grammar_page import subjects_of
from tracker.render.watch_page import Standing, standing_of
from tracker.results import NEWS, AuditName, BuildIdentity, Kind
from tracker.watches import WatchHistory, verdict_word

MAX_COLUMNS = 8
MAX_BUILDS = 40
MAX_ENTRIES = 6
MAX_CHANGES = 6

REAL = frozenset({Transition.APPEARED, Transition.REGRESSED, Transition.CHANGED, Transition.FIXED})
"""Transitions that are something that happened to the builds, and not to our knowledge of them."""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One subject over the builds: findings counted, ``untestable``, or empty where it was not asked."""

    name: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """The newest builds, newest first, against the subjects of one audit."""

    audit: AuditName
    builds: tuple[BuildIdentity, ...]
    rows: tuple[MatrixRow, ...]
    older: int
    chart: str


@dataclass(frozen=True, slots=True)
class News:
    """What changed at one build, by one audit."""

    build: BuildIdentity
    audit: AuditName
    changes: tuple[ChangeGroup, ...]
    left: int


@dataclass(frozen=True, slots=True)
class BuildRow:
    """A build in the table of builds: findings over all subjects, and each watch's verdict."""

    build: BuildIdentity
    reason: str
    affected: int
    subjects: int
    atoms: int
    news: int
    verdicts: tuple[str, ...]
    placed: bool


@dataclass(frozen=True, slots=True)
class EntryView:
    """Everything on the entry page. ``news`` are findings without a known cause, of the build ``newest``."""

    newest: BuildIdentity | None
    standings: tuple[Standing, ...]
    news: tuple[FindingRow, ...]
    changed: tuple[News, ...]
    matrices: tuple[Matrix, ...]
    builds: tuple[BuildRow, ...]
    builds_left: int
    timeline: str


def entry_view(
    histories: Mapping[AuditName, History],
    watches: Sequence[WatchHistory],
    news: Sequence[FindingRow],
    charts: Mapping[str, str],
    most: int = MAX_BUILDS,
) -> EntryView:
    """The view of the entry page.

    Args:
        histories: by audit; the grammar audit's may be missing.
        watches: followed over them.
        news: rows of the newest build with a result whose cause is news.
        charts: paths of charts, by audit and for ``timeline``.
        most: builds in the table of builds.
    """
    grammar = histories.get(AuditName.GRAMMAR)
    changed = [_news(entry) for history in histories.values() for entry in history.entries if _real(entry)]
    changed.sort(key=lambda news: order_key(news.build), reverse=True)
    rows = _build_rows(grammar, watches) if grammar else []
    newest = grammar.newest if grammar else None
    return EntryView(
        newest=newest.build if newest else None,
        standings=tuple([standing_of(history) for history in watches]),
        news=tuple(news),
        changed=tuple(changed[:MAX_ENTRIES]),
        matrices=tuple([_matrix(h, charts.get(str(audit), "")) for audit, h in histories.items()]),
        builds=tuple(rows[:most]),
        builds_left=max(0, len(rows) - most),
        timeline=charts.get("timeline", ""),
    )


def _real(entry: Entry) -> list[Change]:
    return [
        change
        for change in entry.changes
        if change.transition in REAL and change.strand is not None and change.strand.kind != Kind.POLICY
    ]


def _news(entry: Entry) -> News:
    changes = group_changes(_real(entry))
    return News(
        entry.build, entry.summary.audit, tuple(changes[:MAX_CHANGES]), max(0, len(changes) - MAX_CHANGES)
    )


def _matrix(history: History, chart: str) -> Matrix:
    columns = [entry.summary for entry in reversed(history.entries[-MAX_COLUMNS:])]
    rows = [
        MatrixRow(name, cells)
        for name in subjects_of(history)
        if any(cells := tuple([_cell(summary, name) for summary in columns]))
    ]
    return Matrix(
        audit=history.audit,
        builds=tuple(summary.build for summary in columns),
        rows=tuple(rows),
        older=max(0, len(history.entries) - MAX_COLUMNS),
        chart=chart,
    )


def _cell(summary: Summary, name: str) -> str:
    if not summary.trustworthy:
        return "untestable"
    subject = summary.subjects.get(name)
    if subject is None or not subject.asked:
        return ""
    return f"{subject.alarms:,}" if subject.complete else "untestable"


def _build_rows(history: History, watches: Sequence[WatchHistory]) -> list[BuildRow]:
    verdicts: dict[str, dict[str, str]] = {}
    for watch in watches:
        for point in watch.points:
            verdicts.setdefault(point.build.id, {})[watch.watch.name] = verdict_word(point.verdict)
    names = [watch.watch.name for watch in watches]
    summaries = [(entry.summary, True) for entry in reversed(history.entries)]
    summaries += [(summary, False) for summary in history.aside]
    return [
        _build_row(summary, tuple(verdicts.get(summary.build.id, {}).get(n, "") for n in names), placed)
        for summary, placed in summaries
    ]


def _build_row(summary: Summary, verdicts: tuple[str, ...], placed: bool) -> BuildRow:
    asked = [subject for subject in summary.subjects.values() if subject.asked]
    return BuildRow(
        build=summary.build,
        reason=summary.reason,
        affected=sum(bool(subject.alarms) for subject in asked),
        subjects=len(asked),
        atoms=sum(subject.alarms for subject in asked),
        news=sum(n for s in asked for strand, n in s.atoms.items() if strand.cause in NEWS),
        verdicts=verdicts,
        placed=placed,
    )
