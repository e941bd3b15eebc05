"""Two results held against each other, strand by strand. Pure.

Digests tell which strands differ; only for those the atoms are looked at. Where an audit's way depends on
the build, a finding counts as gone only from a place that was looked at again, and as new only at a place
that had been looked at before; anything else is not comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from tracker.history.model import (
    Change,
    Evidence,
    EvidenceSource,
    Strand,
    SubjectSummary,
    Summary,
    Transition,
    evidence_of,
    summarise,
)
from tracker.results import Atom, Document, Kind

_NOTHING: frozenset[Atom] = frozenset()
_OF_THE_TEXT = frozenset({Kind.GRAMMAR_REJECTED, Kind.GRAMMAR_ACCEPTED, Kind.CRASH, Kind.HANG, Kind.OOM})


def compare(old: Summary, new: Summary, evidence: EvidenceSource) -> tuple[Change, ...]:
    """What changed from one result to another, of two builds; see ``compare_documents``."""
    return _compare(old, new, partial(evidence, old.build.id), partial(evidence, new.build.id))


def compare_documents(old: Document, new: Document) -> tuple[Change, ...]:
    """What changed from one result to another, by subject and strand; empty when nothing did.

    The two may be results of one build.

    A result that is not trustworthy, or of another audit version or vocabulary, gives one change saying so.
    """
    return _compare(summarise(old), summarise(new), _from(old), _from(new))


def _from(document: Document) -> Callable[[str], Evidence]:
    return lambda name: next(evidence_of(found) for found in document.subjects if found.name == name)


def _compare(
    old: Summary,
    new: Summary,
    old_evidence: Callable[[str], Evidence],
    new_evidence: Callable[[str], Evidence],
) -> tuple[Change, ...]:
    build, earlier = new.build.id, old.build.id
    for summary in (old, new):
        if not summary.trustworthy:
            reason = f"{summary.build.id} has no result: {summary.reason}"
            return (Change(transition=Transition.UNTESTABLE, build=build, earlier=earlier, reason=reason),)
    if reason := difference_of_basis(old, new):
        return (Change(transition=Transition.NOT_COMPARABLE, build=build, earlier=earlier, reason=reason),)
    changes: list[Change] = []
    for name in sorted(old.subjects.keys() | new.subjects.keys()):
        before, after = old.subjects.get(name), new.subjects.get(name)
        transition, reason = _standing(before, after, earlier, build)
        if reason or before is None or after is None:
            changes.append(
                Change(transition=transition, build=build, earlier=earlier, subject=name, reason=reason)
            )
            continue
        sides = partial(old_evidence, name), partial(new_evidence, name)
        changes.extend(compare_subjects(before, after, earlier, build, *sides))
    return tuple(changes)


def difference_of_basis(old: Summary, new: Summary) -> str:
    """Why two results may not be compared, or nothing."""
    if old.audit != new.audit:
        return f"one is the {old.audit} audit's, the other the {new.audit} audit's"
    if old.audit_version != new.audit_version:
        return "they were made by different versions of the audit (its oracle, corpus or bounds)"
    if old.vocabulary_sha256 != new.vocabulary_sha256:
        return "they were made over different vocabularies"
    return ""


def _standing(
    before: SubjectSummary | None, after: SubjectSummary | None, earlier: str, build: str
) -> tuple[Transition, str]:
    for subject, name in ((before, earlier), (after, build)):
        if subject is None:
            return Transition.NOT_COMPARABLE, f"{name} does not have it"
        if not subject.complete:
            return Transition.UNTESTABLE, f"{name}: {subject.reason or 'untestable'}"
    if before and after and before.sha256 != after.sha256:
        return Transition.NOT_COMPARABLE, f"its definition in {build} is not that in {earlier}"
    return Transition.CHANGED, ""


def compare_subjects(
    before: SubjectSummary,
    after: SubjectSummary,
    earlier: str,
    build: str,
    old_evidence: Callable[[], Evidence],
    new_evidence: Callable[[], Evidence],
) -> Iterator[Change]:
    """What changed between two complete results of one subject, in the order of strands."""
    strands = before.digests.keys() | after.digests.keys()
    differing = sorted(s for s in strands if before.digests.get(s) != after.digests.get(s))
    if not differing:
        return
    old, new = old_evidence(), new_evidence()
    for strand in differing:
        yield _change(strand, old, new, earlier, build)


def _change(strand: Strand, old: Evidence, new: Evidence, earlier: str, build: str) -> Change:
    was, now = old.atoms.get(strand, _NOTHING), new.atoms.get(strand, _NOTHING)
    added = tuple(sorted(_looked_at(now - was, new, old)))
    removed = tuple(sorted(_looked_at(was - now, old, new)))
    transition, reason = Transition.CHANGED, ""
    if not added and not removed:
        transition = Transition.NOT_COMPARABLE
        reason = f"the differing places were looked at in only one of {earlier} and {build}"
    elif not was:
        transition = Transition.APPEARED
    elif not now:
        transition = Transition.FIXED
        if len(removed) < len(was):
            reason = f"gone from every place that both have looked at; {build} has not come to the others"
    return Change(
        transition=transition,
        build=build,
        earlier=earlier,
        subject=strand.subject,
        strand=strand,
        added=added,
        removed=removed,
        reason=reason,
    )


def _looked_at(atoms: Iterable[Atom], here: Evidence, there: Evidence) -> Iterator[Atom]:
    """Those atoms, found by ``here``, whose places ``there`` has looked at as well.

    What becomes of a grammar's text as such every result has seen, also one that came to no state at all.
    A finding away from every place (the end of an escape) hangs on the last place that its output passed.
    """
    for atom in atoms:
        place = place_of(atom.kind, atom.where, here.places)
        if place is None or there.places is None or place in there.places:
            yield atom


def place_of(kind: str, where: str, places: frozenset[str] | None) -> str | None:
    """The place that has to be looked at again before a finding counts as gone; None for no place at all.

    ``where`` is the finding's, ``places`` are those that its result has looked at.
    """
    if not where and kind in _OF_THE_TEXT:
        return None
    if places is None or where in places:
        return where
    for length in range(len(where) - 2, -1, -2):
        if where[:length] in places:
            return where[:length]
    return where
