"""From stored results to what the publisher has to know. Reads documents through a function, writes

nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from tracker.config import Watch
from tracker.history import Evidence, History, build_history, evidence_of, summarise
from tracker.publish.facts import Case, Coverage, Point, Row, Standing, WatchFacts
from tracker.results import NEWS, Atom, AuditName, Deviation, Document, Finding, GrammarDocument
from tracker.store import Store
from tracker.watches import (
    Absent,
    Present,
    Untestable,
    WatchHistory,
    WatchPoint,
    follow,
    matches,
)

Read = Callable[[str], Document]
"""Build id -> its document of the watch's audit."""


def facts_of(watches: Sequence[Watch], store: Store) -> list[WatchFacts]:
    """The facts of each watch, in their order. Raises StoreError when a document cannot be read."""
    histories = {audit: _history(store, audit) for audit in {AuditName(w.audit) for w in watches}}
    return [
        watch_facts(
            follow(watch, histories[AuditName(watch.audit)]),
            partial(store.read, audit=AuditName(watch.audit)),
        )
        for watch in watches
    ]


def watch_facts(followed: WatchHistory, read: Read) -> WatchFacts:
    """The facts of one watch. Only results of the newest one's audit version are among its points.

    What another audit version has measured is no point to compare with, so it is left out; a build without a
    result is a point under any version.
    """
    watch, newest, last = followed.watch, followed.newest, followed.last_present
    version = newest.audit_version if newest else ""
    points = [
        point
        for point in followed.points
        if isinstance(point.verdict, Untestable) or point.audit_version == version
    ]
    found = []
    if last is not None and last.audit_version == version:
        found = list(matches(watch, read(last.build.id)))
    return WatchFacts(
        name=watch.name,
        title=watch.title,
        description=watch.about,
        audit_version=version,
        points=tuple(map(_point, points)),
        case=_smallest(read(last.build.id), found) if last is not None and found else None,
        rows=tuple(_rows(found)),
        coverage=_coverage(read(newest.build.id)) if newest else None,
    )


def _history(store: Store, audit: AuditName) -> History:
    summaries = [summarise(document) for document in store.documents(audit)]

    @lru_cache(maxsize=4)
    def document(build_id: str) -> Document:
        return store.read(build_id, audit)

    def evidence(build_id: str, subject: str) -> Evidence:
        return evidence_of(next(s for s in document(build_id).subjects if s.name == subject))

    return build_history(summaries, evidence, audit)


def _point(point: WatchPoint) -> Point:
    added = tuple(atom for change in point.changes for atom in change.added)
    removed = tuple(atom for change in point.changes for atom in change.removed)
    match point.verdict:
        case Present(fingerprint=fingerprint, atoms=count):
            return Point(
                build=point.build,
                standing=Standing.PRESENT,
                fingerprint=fingerprint,
                count=count,
                transition=point.transition,
                added=added,
                removed=removed,
            )
        case Absent():
            return Point(
                build=point.build,
                standing=Standing.ABSENT,
                transition=point.transition,
                added=added,
                removed=removed,
            )
        case Untestable(reason=reason):
            return Point(build=point.build, standing=Standing.UNTESTABLE, reason=reason)


def _smallest(document: Document, found: Sequence[tuple[Finding, Atom]]) -> Case | None:
    """The case that says most with least: where invalid output comes out whole, then the smallest grammar."""
    if not isinstance(document, GrammarDocument):
        return None
    grammars = {grammar.name: grammar for grammar in document.grammars}
    cases = {
        (atom.subject, atom.where, atom.kind, atom.cause): (finding, atom.subject)
        for finding, atom in found
        if isinstance(finding, Deviation)
    }

    def size(item: tuple[Deviation, str]) -> tuple[bool, int, int, int, str, str]:
        finding, name = item
        ends = finding.escape is not None and finding.escape.outcome == "end-of-generation"
        return (
            not ends,
            len(grammars[name].text),
            len(finding.prefix),
            len(finding.tokens),
            name,
            finding.prefix,
        )

    if not cases:
        return None
    finding, name = min(cases.values(), key=size)
    return Case(grammar=name, text=grammars[name].text, deviation=finding)


def _rows(found: Sequence[tuple[Finding, Atom]]) -> list[Row]:
    groups: dict[str, list[Atom]] = {}
    for _, atom in found:
        groups.setdefault(atom.subject, []).append(atom)
    rows = []
    for subject, atoms in groups.items():
        # A token says more than the end of generation, which only follows from one.
        smallest = min(atoms, key=lambda a: (not a.detail, len(a.where), len(a.detail), a))
        kinds = Counter(str(atom.kind) for atom in atoms)
        causes = Counter(str(atom.cause) for atom in atoms)
        rows.append(
            Row(
                grammar=subject,
                kinds=tuple(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))),
                causes=tuple(
                    sorted(causes.items(), key=lambda item: (item[0] not in NEWS, -item[1], item[0]))
                ),
                where=smallest.where,
                detail=smallest.detail,
            )
        )
    return sorted(rows, key=lambda row: (row.causes[0][0] not in NEWS, row.grammar))


def _coverage(document: Document) -> Coverage | None:
    if not isinstance(document, GrammarDocument) or document.vocabulary is None:
        return None
    complete = [grammar for grammar in document.grammars if grammar.status == "complete"]
    return Coverage(
        grammars=len(complete),
        exhaustive=sum(grammar.exhaustive for grammar in complete),
        states=sum(grammar.states for grammar in complete),
        vocabulary=document.vocabulary.name,
        tokens=document.vocabulary.tokens,
        controls=tuple(control.name for control in document.controls if control.passed),
    )
