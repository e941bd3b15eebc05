"""The results of one audit in order, each with what changed at it. Pure.

Each subject is compared with its own closest earlier result: a build that could not be tested, or on which
one grammar could not be, is passed over and changes nothing. The order in which results are handed over,
the builds that are missing, and a result handed over twice do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

from tracker.history.compare import compare_subjects, difference_of_basis
from tracker.history.model import (
    Change,
    Entry,
    Evidence,
    EvidenceSource,
    History,
    Strand,
    SubjectSummary,
    Summary,
    Transition,
    evidence_of,
    summarise,
)
from tracker.history.order import in_order
from tracker.results import AuditName, Document

Basis = tuple[str, str, str]


def history_of(documents: Sequence[Document], audit: AuditName = AuditName.GRAMMAR) -> History:
    """The history of documents that are all in memory. Raises ValueError as ``build_history`` does."""
    mine = [(summarise(document), document) for document in documents if document.audit == audit]
    kept = _one_a_build(summary for summary, _ in mine)
    by_build = {summary.build.id: document for summary, document in mine if summary == kept[summary.build.id]}

    @cache
    def evidence(build_id: str, subject: str) -> Evidence:
        return next(evidence_of(found) for found in by_build[build_id].subjects if found.name == subject)

    return build_history(kept.values(), evidence, audit)


def build_history(summaries: Iterable[Summary], evidence: EvidenceSource, audit: AuditName) -> History:
    """The history of one audit's results; of other audits' results nothing is taken.

    ``evidence`` is asked for pairs of results whose digests differ, in the order of builds. Raises ValueError
    for two different results of one build: which of them is its result has to be settled before.
    """
    kept = _one_a_build(summary for summary in summaries if summary.audit == audit)
    placed, aside = in_order(kept.values(), lambda summary: summary.build)
    line = _Line(evidence)
    return History(audit, tuple([line.enter(summary) for summary in placed]), tuple(aside))


def _one_a_build(summaries: Iterable[Summary]) -> dict[str, Summary]:
    """By build id. A rerun that has a result replaces one that has none; an equal one says nothing new."""
    kept: dict[str, Summary] = {}
    for summary in summaries:
        other = kept.setdefault(summary.build.id, summary)
        if other.trustworthy and summary.trustworthy and other != summary:
            raise ValueError(f"two different results of {summary.build.id}")
        if (summary.trustworthy, summary.reason) > (other.trustworthy, other.reason):
            kept[summary.build.id] = summary
    return kept


@dataclass
class _Seen:
    """What is known of one subject definition up to some build."""

    build: str
    summary: SubjectSummary
    ever: set[Strand] = field(default_factory=set)


@dataclass
class _Line:
    """The way through the builds; ``last`` is by basis and by a subject's name and definition."""

    evidence: EvidenceSource
    last_result: Summary | None = None
    last_on: dict[Basis, str] = field(default_factory=dict)
    last: dict[tuple[Basis, str, str], _Seen] = field(default_factory=dict)
    names: dict[tuple[Basis, str], str] = field(default_factory=dict)

    def enter(self, summary: Summary) -> Entry:
        """The next newer build."""
        build, basis = summary.build.id, summary.basis
        earlier = self.last_on.get(basis, "")
        if not summary.trustworthy:
            change = Change(transition=Transition.UNTESTABLE, build=build, reason=summary.reason)
            return Entry(summary, earlier, (change,))
        changes: list[Change] = []
        if not earlier and self.last_result is not None:
            changes.append(
                Change(
                    transition=Transition.NOT_COMPARABLE,
                    build=build,
                    earlier=self.last_result.build.id,
                    reason=difference_of_basis(self.last_result, summary),
                )
            )
        for name in sorted(summary.subjects):
            changes.extend(self._subject(summary.subjects[name], basis, build))
        self.last_on[basis] = build
        self.last_result = summary
        return Entry(summary, earlier, tuple(changes))

    def _subject(self, subject: SubjectSummary, basis: Basis, build: str) -> Iterator[Change]:
        if not subject.complete:
            yield Change(
                transition=Transition.UNTESTABLE, build=build, subject=subject.name, reason=subject.reason
            )
            return
        key = (basis, subject.name, subject.sha256)
        seen = self.last.get(key)
        before = self.names.get((basis, subject.name), build)
        self.names[basis, subject.name] = build
        if seen is None:
            self.last[key] = _Seen(build, subject, set(subject.digests))
            if before != build:
                yield Change(
                    transition=Transition.NOT_COMPARABLE,
                    build=build,
                    earlier=before,
                    subject=subject.name,
                    reason=f"its definition is not that in {before}",
                )
            return
        sides = partial(self.evidence, seen.build, subject.name), partial(self.evidence, build, subject.name)
        for change in compare_subjects(seen.summary, subject, seen.build, build, *sides):
            again = change.transition is Transition.APPEARED and change.strand in seen.ever
            yield replace(change, transition=Transition.REGRESSED) if again else change
        seen.build, seen.summary = build, subject
        seen.ever.update(subject.digests)
