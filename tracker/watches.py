"""Watches: a named filter over findings, its verdict on a build, and what became of it from build to build.

A verdict is present, absent or untestable, never a bool: absent only after a complete audit whose controls
passed and in which every subject the watch asks for was complete. Pure; it reads and tells nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import assert_never

from tracker.config import Watch
from tracker.history import Change, Entry, History, Strand, SubjectSummary, Summary, Transition
from tracker.results import Atom, BuildIdentity, Document, Finding


@dataclass(frozen=True, slots=True)
class Present:
    """The build shows it. Equal fingerprints mean equal findings, token for token.

    ``atoms`` counts them, ``subjects`` names where they are, ``untested`` what could not be tested besides.
    """

    fingerprint: str
    atoms: int
    subjects: tuple[str, ...]
    untested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """A complete audit, controls passed, has not seen it anywhere that the watch asks for."""


@dataclass(frozen=True, slots=True)
class Untestable:
    """Nothing is known; the reason in one line."""

    reason: str


Verdict = Present | Absent | Untestable


def verdict_word(verdict: Verdict) -> str:
    """``present``, ``absent`` or ``untestable``."""
    match verdict:
        case Present():
            return "present"
        case Absent():
            return "absent"
        case Untestable():
            return "untestable"
        case _:
            assert_never(verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPoint:
    """A watch on one build.

    ``transition`` is None for the first build and where nothing changed. ``changes`` are those of the watch's
    strands since ``earlier``, the closest earlier build with a verdict that this one may be compared with.
    """

    build: BuildIdentity
    audit_version: str
    verdict: Verdict
    transition: Transition | None
    earlier: str = ""
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Since:
    """Since when a verdict holds: a range, as far as builds were tested.

    ``first`` is the oldest build of the unbroken run; ``after`` the newest tested one before it, which had
    the other verdict, or empty when the verdict is as old as the comparable record. ``between`` are builds
    after ``after`` and before ``first`` that could not be tested. ``builds`` counts the run's tested ones.
    """

    first: str
    after: str
    between: tuple[str, ...]
    builds: int


@dataclass(frozen=True, slots=True)
class WatchHistory:
    """A watch over the builds, oldest first."""

    watch: Watch
    points: tuple[WatchPoint, ...]

    @property
    def newest(self) -> WatchPoint | None:
        """The newest build that could be tested."""
        return next((p for p in reversed(self.points) if not isinstance(p.verdict, Untestable)), None)

    @property
    def last_present(self) -> WatchPoint | None:
        """The newest build that shows it."""
        return next((p for p in reversed(self.points) if isinstance(p.verdict, Present)), None)

    @property
    def since(self) -> Since | None:
        """Since when the newest verdict holds; None when there is none."""
        newest = self.newest
        if newest is None:
            return None
        first, after, builds = newest.build.id, "", 0
        between: list[str] = []
        for point in reversed(self.points):
            if isinstance(point.verdict, Untestable):
                between.append(point.build.id)
            elif point.audit_version != newest.audit_version:
                continue
            elif type(point.verdict) is type(newest.verdict):
                first, builds, between = point.build.id, builds + 1, []
            else:
                after = point.build.id
                break
        return Since(first, after, tuple(reversed(between)) if after else (), builds)


def selects(watch: Watch, strand: Strand) -> bool:
    """Whether a watch asks for the findings of a strand."""
    return (
        _selects_subject(watch, strand.subject)
        and (not watch.kinds or strand.kind in watch.kinds)
        and (not watch.causes or strand.cause in watch.causes)
        and (watch.mid_code_point is None or watch.mid_code_point == strand.mid_code_point)
    )


def _selects_subject(watch: Watch, name: str) -> bool:
    return not watch.grammars or any(fnmatchcase(name, pattern) for pattern in watch.grammars)


def matches(watch: Watch, document: Document) -> Iterator[tuple[Finding, Atom]]:
    """The findings of a document that a watch asks for, taken apart, in the document's order."""
    for subject in document.subjects:
        for finding, atom in subject.atoms():
            strand = Strand(
                subject.name, subject.sha256, str(finding.kind), finding.cause, finding.mid_code_point
            )
            if selects(watch, strand):
                yield finding, atom


def judge(watch: Watch, summary: Summary) -> Verdict:
    """The verdict of a watch on one result."""
    if summary.audit != watch.audit:
        return Untestable(f"the watch asks for the {watch.audit} audit")
    if not summary.trustworthy:
        return Untestable(summary.reason)
    asked = [s for name, s in sorted(summary.subjects.items()) if _selects_subject(watch, name)]
    if not asked:
        return Untestable("nothing that the watch asks for was audited")
    untested = [subject for subject in asked if not subject.complete]
    found = [(strand, digest) for subject in asked for strand, digest in _selected(watch, subject)]
    if found:
        lines = sorted("\0".join((*map(str, strand), digest)) for strand, digest in found)
        names = {strand.subject for strand, _ in found}
        return Present(
            fingerprint=hashlib.sha256("\n".join(lines).encode()).hexdigest(),
            atoms=sum(s.atoms.get(strand, 0) for s in asked for strand, _ in _selected(watch, s)),
            subjects=tuple(sorted(names)),
            untested=tuple(subject.name for subject in untested),
        )
    if untested:
        return Untestable(
            f"{untested[0].name} could not be tested: {untested[0].reason or 'no reason given'}"
        )
    return Absent()


def _selected(watch: Watch, subject: SubjectSummary) -> Iterator[tuple[Strand, str]]:
    if subject.complete:
        for strand, digest in sorted(subject.digests.items()):
            if selects(watch, strand):
                yield strand, digest


def follow(watch: Watch, history: History) -> WatchHistory:
    """A watch over all builds of a history, each with what became of it.

    Compared is with the closest earlier build that has a verdict of the same audit version and vocabulary.
    Fixed and appeared are said only where the findings themselves went or came: when the only grammar that
    showed it is another text now, or a walk no longer comes to the place, it is not comparable.
    """
    track = _Track(watch)
    return WatchHistory(watch, tuple([track.enter(entry) for entry in history.entries]))


@dataclass
class _Before:
    """The closest earlier point on one basis, and the changes at builds without a verdict since."""

    point: WatchPoint
    ever_present: bool
    pending: list[Change] = field(default_factory=list)


@dataclass
class _Track:
    watch: Watch
    before: dict[tuple[str, str, str], _Before] = field(default_factory=dict)

    def enter(self, entry: Entry) -> WatchPoint:
        """The next newer build."""
        summary = entry.summary
        verdict = judge(self.watch, summary)
        before = self.before.get(summary.basis)
        changes = [c for c in entry.changes if c.strand is not None and selects(self.watch, c.strand)]
        if isinstance(verdict, Untestable):
            if before:
                before.pending += changes
            return self._point(entry, verdict, Transition.UNTESTABLE)
        if before is None:
            transition = Transition.NOT_COMPARABLE if self.before else None
            point = self._point(entry, verdict, transition)
            self.before[summary.basis] = _Before(point, isinstance(verdict, Present))
            return point
        changes = before.pending + changes
        became, verdict = _became(before, verdict, changes, entry.build.id)
        told = () if became is None else tuple(changes)
        point = self._point(entry, verdict, became, before.point.build.id, told)
        if isinstance(verdict, Untestable):
            before.pending = changes
        else:
            ever = before.ever_present or isinstance(verdict, Present)
            self.before[summary.basis] = _Before(point, ever)
        return point

    def _point(
        self,
        entry: Entry,
        verdict: Verdict,
        transition: Transition | None,
        earlier: str = "",
        changes: tuple[Change, ...] = (),
    ) -> WatchPoint:
        return WatchPoint(
            build=entry.build,
            audit_version=entry.summary.audit_version,
            verdict=verdict,
            transition=transition,
            earlier=earlier,
            changes=changes,
        )


def _became(
    before: _Before, verdict: Present | Absent, changes: Sequence[Change], build: str
) -> tuple[Transition | None, Verdict]:
    was, earlier = before.point.verdict, before.point.build.id
    came = any(change.added for change in changes)
    went = any(change.removed for change in changes)
    latest = {change.strand: change.transition for change in changes}
    match was, verdict:
        case Present(), Absent() if Transition.NOT_COMPARABLE in latest.values():
            reason = f"the walk on {build} has not come to places that showed it on {earlier}"
            return Transition.UNTESTABLE, Untestable(reason)
        case Present(), Absent():
            return (Transition.FIXED if went else Transition.NOT_COMPARABLE), verdict
        case Absent(), Present() if came:
            return (Transition.REGRESSED if before.ever_present else Transition.APPEARED), verdict
        case Absent(), Present():
            return Transition.NOT_COMPARABLE, verdict
        case Present(fingerprint=old), Present(fingerprint=new) if old != new and (came or went):
            return Transition.CHANGED, verdict
        case _:
            return None, verdict
