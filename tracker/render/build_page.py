"""What the page of a build shows, taken from its documents and the history. Pure.

It chooses, groups and counts; the words and the layout are the template's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tracker.config import Watch
from tracker.history import Entry, Strand, Transition
from tracker.render import words
from tracker.render.cases import Case, case_of, smallest_case, strand_of
from tracker.render.changes import ChangeGroup, group_changes
from tracker.results import (
    NEWS,
    AuditName,
    BuildIdentity,
    Deviation,
    Document,
    Finding,
    GrammarDocument,
    GrammarResult,
    Kind,
    SubjectResult,
)
from tracker.watches import Verdict, WatchPoint, verdict_word

MAX_CHANGES = 60
MAX_OTHER_CASES = 24


@dataclass(frozen=True, slots=True)
class FindingRow:
    """The findings of one subject that share kind, cause and whether they lie inside a code point."""

    subject: str
    kind: str
    cause: str
    mid_code_point: bool
    places: int
    atoms: int
    where: str
    example: str
    examples_left: int
    news: bool


@dataclass(frozen=True, slots=True)
class CauseRow:
    """The findings of one kind and cause over all subjects."""

    kind: str
    cause: str
    mid_code_point: bool
    subjects: int
    places: int
    atoms: int
    news: bool


@dataclass(frozen=True, slots=True)
class WatchLine:
    """A watch's verdict on this build."""

    name: str
    audit: str
    word: str
    verdict: Verdict
    transition: str
    earlier: str


@dataclass(frozen=True, slots=True)
class AuditPart:
    """One audit of the build; ``rows`` are empty unless the result can be trusted.

    ``alarms`` counts findings and ``affected`` their subjects, but for what is only recorded.
    """

    document: Document
    reason: str
    rows: tuple[FindingRow, ...]
    causes: tuple[CauseRow, ...]
    affected: int
    alarms: int
    untested: tuple[SubjectResult, ...]
    changes: tuple[ChangeGroup, ...]
    changes_left: int
    earlier: str


@dataclass(frozen=True, slots=True)
class GrammarPart:
    """What only the grammar audit has."""

    document: GrammarDocument
    clean: int
    affected: int
    asked: tuple[GrammarResult, ...]
    states: int
    exhaustive: int
    places: int
    atoms: int
    case: Case | None
    others: tuple[Case, ...]
    others_left: int
    with_notes: tuple[GrammarResult, ...]


@dataclass(frozen=True, slots=True)
class BuildView:
    """Everything on the page of a build. ``note`` is the configuration's word about the release."""

    build: BuildIdentity
    note: str
    watches: tuple[WatchLine, ...]
    parts: tuple[AuditPart, ...]
    grammar: GrammarPart | None


def build_view(
    documents: Sequence[Document],
    entries: Mapping[AuditName, Entry],
    points: Sequence[tuple[Watch, WatchPoint]],
    note: str = "",
) -> BuildView:
    """The view of a build.

    Args:
        documents: its documents, one an audit; at least one.
        entries: its places in the histories; missing for a build that has none.
        points: each watch that has a point here, with it.
        note: about the release, from the configuration.
    """
    grammar = next((d for d in documents if isinstance(d, GrammarDocument) and d.trustworthy), None)
    return BuildView(
        build=documents[0].build,
        note=note,
        watches=tuple([_watch_line(watch, point) for watch, point in points]),
        parts=tuple([_part(document, entries.get(document.audit)) for document in documents]),
        grammar=_grammar_part(grammar) if grammar else None,
    )


def _watch_line(watch: Watch, point: WatchPoint) -> WatchLine:
    transition = str(point.transition or "")
    word = verdict_word(point.verdict)
    return WatchLine(watch.name, watch.audit, word, point.verdict, transition, point.earlier)


def _part(document: Document, entry: Entry | None) -> AuditPart:
    failed = next((c for c in document.controls if not c.passed), None)
    reason = document.reason or (f"control {failed.name} failed: {failed.detail}" if failed else "")
    if not document.trustworthy and not reason:
        reason = "no control was run"
    changes = entry.changes if entry else ()
    groups = group_changes([c for c in changes if c.transition is not Transition.UNTESTABLE])
    trusted = document.trustworthy
    rows = finding_rows(document.subjects) if trusted else []
    return AuditPart(
        document=document,
        reason="" if trusted else reason,
        rows=tuple(rows),
        causes=tuple(cause_rows(rows)),
        affected=len({row.subject for row in rows if row.kind != Kind.POLICY}),
        alarms=sum(row.atoms for row in rows if row.kind != Kind.POLICY),
        untested=tuple(s for s in document.subjects if s.status != "complete") if trusted else (),
        changes=tuple(groups[:MAX_CHANGES]),
        changes_left=max(0, len(groups) - MAX_CHANGES),
        earlier=entry.earlier if entry else "",
    )


def finding_rows(
    subjects: Sequence[SubjectResult], selected: Callable[[Strand], bool] = lambda _: True
) -> list[FindingRow]:
    """Findings by subject, kind and cause: news first, then in the order of the subjects."""
    rows: list[FindingRow] = []
    for subject in subjects:
        groups: dict[tuple[str, str, bool], list[Finding]] = {}
        for finding in subject.findings():
            key = (str(finding.kind), finding.cause, finding.mid_code_point)
            groups.setdefault(key, []).append(finding)
        for (kind, cause, mid), found in sorted(groups.items()):
            if not selected(Strand(subject.name, subject.sha256, kind, cause, mid)):
                continue
            example = min(found, key=lambda f: (len(f.where()), f.where()))
            details = list(example.details())
            rows.append(
                FindingRow(
                    subject=subject.name,
                    kind=kind,
                    cause=cause,
                    mid_code_point=mid,
                    places=len({f.where() for f in found}),
                    atoms=sum(len(f.details()) for f in found),
                    where=example.where(),
                    example=min(details, key=lambda d: (len(d), d)),
                    examples_left=len(details) - 1,
                    news=cause in NEWS,
                )
            )
    return sorted(rows, key=lambda row: not row.news)


def cause_rows(rows: Sequence[FindingRow]) -> list[CauseRow]:
    """The rows added up by kind and cause: news before all, then kind by kind, the most findings first."""
    groups: dict[tuple[str, str, bool], list[FindingRow]] = {}
    for row in rows:
        groups.setdefault((row.kind, row.cause, row.mid_code_point), []).append(row)
    summed = [
        CauseRow(
            kind=kind,
            cause=cause,
            mid_code_point=mid,
            subjects=len(found),
            places=sum(row.places for row in found),
            atoms=sum(row.atoms for row in found),
            news=cause in NEWS,
        )
        for (kind, cause, mid), found in groups.items()
    ]
    return sorted(summed, key=lambda row: (not row.news, kind_rank(row.kind), -row.atoms, row.cause))


def _grammar_part(document: GrammarDocument) -> GrammarPart:
    asked = [g for g in document.grammars if g.status == "complete" and g.states]
    affected = [g for g in document.grammars if g.deviations]
    case = smallest_case(document.grammars)
    others = _other_cases(document.grammars, case)
    return GrammarPart(
        document=document,
        clean=sum(not g.deviations for g in asked),
        affected=len(affected),
        asked=tuple(asked),
        states=sum(g.states for g in asked),
        exhaustive=sum(g.exhaustive for g in asked),
        places=sum(len({d.prefix for d in g.deviations}) for g in affected),
        atoms=sum(len(d.details()) for g in affected for d in g.deviations),
        case=case,
        others=tuple(others[:MAX_OTHER_CASES]),
        others_left=max(0, len(others) - MAX_OTHER_CASES),
        with_notes=tuple(g for g in document.grammars if g.notes),
    )


def _other_cases(grammars: Sequence[GrammarResult], first: Case | None) -> list[Case]:
    """The smallest case of each kind and cause that the first one does not show."""
    smallest: dict[tuple[str, str], tuple[tuple[int, int, str, str], GrammarResult, Deviation]] = {}
    for grammar in grammars:
        for deviation in grammar.deviations:
            strand = strand_of(grammar, deviation)
            size = (len(grammar.text), len(deviation.prefix), grammar.name, deviation.prefix)
            key = (strand.kind, strand.cause)
            if key not in smallest or size < smallest[key][0]:
                smallest[key] = (size, grammar, deviation)
    if first is not None:
        smallest.pop((str(first.deviation.kind), first.deviation.cause), None)
    order = sorted(
        smallest.items(), key=lambda item: (item[0][1] not in NEWS, kind_rank(item[0][0]), item[0][1])
    )
    return [case_of(grammar, deviation) for _, (_, grammar, deviation) in order]


def kind_rank(kind: str) -> int:
    """The place of a kind in the order in which kinds are told: as they are defined."""
    return list(Kind).index(Kind(kind))


def reproducer_file(grammar: GrammarResult) -> str:
    """What the commands on a page call the file of a grammar."""
    return f"{grammar.name}.gbnf" if grammar.name.replace("-", "").isalnum() else "grammar.gbnf"


def commands(documents: Sequence[Document]) -> str:
    """What to type to have the results again."""
    release = words.release_of(documents[0].build)
    lines: list[str] = []
    for document in documents:
        if document.audit is AuditName.GRAMMAR:
            lines.append(f"llama-tracker run {release}")
            lines.append(f"llama-tracker control {release}")
        else:
            lines.append(f"llama-tracker {document.audit} {release}")
    return "\n".join(lines)


def title_of(build: BuildIdentity) -> str:
    """The heading of a build's page."""
    upstream = f"b{build.build_number}" if build.build_number is not None else (build.commit or "")[:12]
    return words.name_of(build) + (f" (llama.cpp {upstream})" if upstream else "")
