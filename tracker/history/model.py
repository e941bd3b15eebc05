"""The vocabulary of history: summaries of results, strands of findings, transitions.

It knows what is compared and what a comparison can say; it compares nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from tracker.results import Atom, AuditName, BuildIdentity, Document, Kind, SubjectResult

_MID = "+mid"


class Strand(NamedTuple):
    """The findings of one subject that share a kind and a cause: what is followed from build to build.

    ``mid_code_point`` keeps those inside a code point apart, since watches ask for them.
    """

    subject: str
    subject_sha256: str
    kind: str
    cause: str
    mid_code_point: bool


class Transition(StrEnum):
    """What became of something since the closest earlier result that it may be compared with."""

    APPEARED = "appeared"
    """It is there, it was not, and no comparable earlier build had it."""
    REGRESSED = "regressed"
    """It is there, it was not, and a comparable earlier build had had it."""
    CHANGED = "changed"
    """It was and is there, with other places or tokens."""
    FIXED = "fixed"
    """It was there, and a complete audit with passed controls that looked again has not seen it."""
    UNTESTABLE = "untestable"
    """There is no result; nothing is known."""
    NOT_COMPARABLE = "not comparable"
    """There is a result, and nothing that it may be compared with."""


@dataclass(frozen=True, slots=True)
class SubjectSummary:
    """A subject without its findings. By strand: its digest, its atoms counted, the places it is seen at."""

    name: str
    sha256: str
    complete: bool
    asked: bool
    reason: str
    digests: Mapping[Strand, str]
    atoms: Mapping[Strand, int]
    places: Mapping[Strand, int]

    @property
    def alarms(self) -> int:
        """Atoms in all, but for what is only recorded (``POLICY``)."""
        return sum(count for strand, count in self.atoms.items() if strand.kind != Kind.POLICY)


@dataclass(frozen=True, slots=True)
class Summary:
    """A document without its findings: small enough to hold hundreds of them.

    ``trustworthy`` is the document's; ``reason`` says why not, and is empty otherwise.
    """

    audit: AuditName
    audit_version: str
    vocabulary_sha256: str
    build: BuildIdentity
    trustworthy: bool
    reason: str
    subjects: Mapping[str, SubjectSummary]

    @property
    def basis(self) -> tuple[str, str, str]:
        """What has to be equal for two results to be comparable."""
        return self.audit, self.audit_version, self.vocabulary_sha256


@dataclass(frozen=True, slots=True)
class Evidence:
    """A subject's findings taken apart, and where the audit looked (None: everywhere)."""

    atoms: Mapping[Strand, frozenset[Atom]]
    places: frozenset[str] | None


EvidenceSource = Callable[[str, str], Evidence]
"""Build id and subject name → evidence. Asked only where digests differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of one strand, one subject or a whole result at a build.

    ``strand`` is None when it is about a subject or all of the result, ``subject`` is empty in the latter
    case. ``earlier`` is the build compared with, empty when there is none. ``added`` and ``removed`` are
    sorted.
    """

    transition: Transition
    build: str
    earlier: str = ""
    subject: str = ""
    strand: Strand | None = None
    added: tuple[Atom, ...] = ()
    removed: tuple[Atom, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One build in the history. ``earlier`` is the closest earlier comparable build, or empty."""

    summary: Summary
    earlier: str
    changes: tuple[Change, ...]

    @property
    def build(self) -> BuildIdentity:
        """The build."""
        return self.summary.build


@dataclass(frozen=True, slots=True)
class History:
    """The results of one audit, oldest build first.

    ``aside`` are results that have no place in the order: of patched builds, and of builds without a date.
    """

    audit: AuditName
    entries: tuple[Entry, ...]
    aside: tuple[Summary, ...] = field(default=())

    @property
    def newest(self) -> Entry | None:
        """The newest build with a result."""
        return next((entry for entry in reversed(self.entries) if entry.summary.trustworthy), None)

    def entry(self, build_id: str) -> Entry | None:
        """The entry of a build."""
        return next((entry for entry in self.entries if entry.build.id == build_id), None)

    def changes(self) -> Iterator[Change]:
        """All changes, oldest build first."""
        for entry in self.entries:
            yield from entry.changes


def summarise(document: Document) -> Summary:
    """A document without its findings."""
    subjects = {subject.name: _subject(subject) for subject in document.subjects}
    reason = ""
    if not document.trustworthy:
        failed = next((control for control in document.controls if not control.passed), None)
        reason = document.reason or (
            f"control {failed.name} failed: {failed.detail}" if failed else "no control was run"
        )
    return Summary(
        audit=document.audit,
        audit_version=document.audit_version,
        vocabulary_sha256=document.vocabulary.sha256 if document.vocabulary else "",
        build=document.build,
        trustworthy=document.trustworthy,
        reason=" ".join(reason.split()),
        subjects=subjects,
    )


def _subject(subject: SubjectResult) -> SubjectSummary:
    digests = {
        _strand(subject, kind, key): digest
        for kind, causes in subject.digests.items()
        for key, digest in causes.items()
    }
    atoms: Counter[Strand] = Counter()
    places: Counter[Strand] = Counter()
    for finding in subject.findings():
        strand = Strand(
            subject.name, subject.sha256, str(finding.kind), finding.cause, finding.mid_code_point
        )
        atoms[strand] += len(finding.details())
        places[strand] += 1
    return SubjectSummary(
        name=subject.name,
        sha256=subject.sha256,
        complete=subject.status == "complete",
        asked=subject.asked,
        reason=" ".join((subject.reason or "").split()),
        digests=digests,
        atoms=dict(atoms),
        places=dict(places),
    )


def _strand(subject: SubjectResult, kind: str, key: str) -> Strand:
    return Strand(subject.name, subject.sha256, kind, key.removesuffix(_MID), key.endswith(_MID))


def evidence_of(subject: SubjectResult) -> Evidence:
    """A subject's findings taken apart."""
    atoms: dict[Strand, set[Atom]] = {}
    for finding, atom in subject.atoms():
        strand = Strand(atom.subject, atom.subject_sha256, atom.kind, atom.cause, finding.mid_code_point)
        atoms.setdefault(strand, set()).add(atom)
    return Evidence({strand: frozenset(found) for strand, found in atoms.items()}, subject.places())
