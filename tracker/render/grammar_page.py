"""What the page of a grammar shows: its text, what is right, and what each build does. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tracker.history import Entry, History, SubjectSummary
from tracker.render.cases import Case, case_of, next_bytes, right_after, smallest_case
from tracker.render.changes import ChangeGroup, group_changes
from tracker.results import NEWS, BuildIdentity, GrammarResult

MAX_PLACES = 60
MAX_CHANGES = 40


@dataclass(frozen=True, slots=True)
class Totals:
    """Findings by kind and cause, of one subject."""

    kind: str
    cause: str
    mid_code_point: bool
    atoms: int
    places: int
    news: bool


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring builds that do the same with a grammar, the newest first.

    ``word`` is ``right``, ``wrong`` or ``untestable``; ``same_audit`` is false where the run was measured by
    another version of the audit than the newest one.
    """

    builds: tuple[BuildIdentity, ...]
    word: str
    reason: str
    totals: tuple[Totals, ...]
    same_text: bool
    same_audit: bool

    @property
    def newest(self) -> BuildIdentity:
        """The newest of them."""
        return self.builds[0]

    @property
    def oldest(self) -> BuildIdentity:
        """The oldest of them."""
        return self.builds[-1]


@dataclass(frozen=True, slots=True)
class GrammarView:
    """Everything on the page of a grammar; ``result`` is that of the newest build that has it."""

    result: GrammarResult
    build: BuildIdentity
    totals: tuple[Totals, ...]
    start: str
    runs: tuple[Run, ...]
    case: Case | None
    places: tuple[Case, ...]
    places_left: int
    changes: tuple[tuple[str, ChangeGroup], ...]


def grammar_view(result: GrammarResult, build: BuildIdentity, history: History) -> GrammarView:
    """The view of a grammar.

    Args:
        result: what the newest build that has the grammar does with it.
        build: that build.
        history: of the grammar audit.
    """
    entry = history.entry(build.id)
    order = sorted(result.deviations, key=lambda d: (d.cause not in NEWS, len(d.prefix), d.prefix, d.kind))
    shown = [case_of(result, deviation) for deviation in order[:MAX_PLACES]]
    changes = [
        (at.build.id, group)
        for at in reversed(history.entries)
        for group in group_changes([change for change in at.changes if change.subject == result.name])
    ]
    return GrammarView(
        result=result,
        build=build,
        totals=tuple(totals_of(entry.summary.subjects[result.name])) if entry else (),
        start=next_bytes(right_after(result, "")),
        runs=tuple(subject_runs(result.name, history)),
        case=smallest_case([result]),
        places=tuple(shown),
        places_left=len(order) - len(shown),
        changes=tuple(changes[:MAX_CHANGES]),
    )


def subject_runs(name: str, history: History) -> list[Run]:
    """What each build does with a subject, neighbours that do the same together, newest first."""
    newest = history.newest
    with_it = [
        entry
        for entry in reversed(history.entries)
        if name in entry.summary.subjects or not entry.summary.trustworthy
    ]
    last = next((e.summary.subjects[name] for e in with_it if e.summary.trustworthy), None)
    runs = []
    for _, group in groupby(with_it, key=lambda entry: _sameness(entry, name)):
        entries = list(group)
        summary = entries[0].summary
        subject = summary.subjects.get(name)
        reason = "" if summary.trustworthy else summary.reason
        if subject is not None and not reason and not subject.complete:
            reason = subject.reason or "no reason given"
        found = tuple(totals_of(subject)) if subject and not reason else ()
        runs.append(
            Run(
                builds=tuple(entry.build for entry in entries),
                word="untestable" if reason else "wrong" if found else "right",
                reason=reason,
                totals=found,
                same_text=subject is None or last is None or subject.sha256 == last.sha256,
                same_audit=newest is None or summary.basis == newest.summary.basis,
            )
        )
    return runs


def totals_of(subject: SubjectSummary) -> list[Totals]:
    """A subject's findings counted, news first."""
    return sorted(
        (
            Totals(
                strand.kind,
                strand.cause,
                strand.mid_code_point,
                atoms,
                subject.places.get(strand, 0),
                strand.cause in NEWS,
            )
            for strand, atoms in subject.atoms.items()
        ),
        key=lambda total: (not total.news, total.kind, total.cause, total.mid_code_point),
    )


def _sameness(entry: Entry, name: str) -> tuple[object, ...]:
    summary = entry.summary
    subject = summary.subjects.get(name)
    if not summary.trustworthy or subject is None:
        return False, summary.reason
    return True, summary.basis, subject.sha256, subject.complete, sorted(subject.digests.items())


def subjects_of(history: History) -> Sequence[str]:
    """The names of all subjects that any build has, in the order of the newest build that has each."""
    names: dict[str, None] = {}
    for entry in reversed(history.entries):
        names.update(dict.fromkeys(entry.summary.subjects))
    return list(names)
