"""Changes that say the same of several subjects, put together: for people who read many of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracker.history import Change, Strand, Transition
from tracker.results import NEWS, Atom


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """What became of one kind and cause, in ``subjects``.

    ``strand`` is the first one, None where it is not about one kind and cause; ``came`` and ``went``
    count findings over all of them, the examples are the shortest. ``reason`` is the first one's.
    """

    transition: Transition
    subjects: tuple[str, ...]
    strand: Strand | None
    came: int
    went: int
    came_example: Atom | None
    went_example: Atom | None
    reason: str


def group_changes(changes: Sequence[Change]) -> list[ChangeGroup]:
    """Changes by transition, kind and cause: news first, then what came, then what went, then the rest."""
    groups: dict[tuple[object, ...], list[Change]] = {}
    for change in changes:
        strand = change.strand
        what: object = change.reason
        if strand and change.transition is not Transition.NOT_COMPARABLE:
            what = (strand.kind, strand.cause, strand.mid_code_point)
        groups.setdefault((change.transition, what), []).append(change)
    return sorted((_group(found) for found in groups.values()), key=_rank)


def _group(changes: Sequence[Change]) -> ChangeGroup:
    first = changes[0]
    undecided = first.transition is Transition.NOT_COMPARABLE
    return ChangeGroup(
        transition=first.transition,
        subjects=tuple(dict.fromkeys(change.subject for change in changes if change.subject)),
        strand=None if undecided else first.strand,
        came=sum(len(change.added) for change in changes),
        went=sum(len(change.removed) for change in changes),
        came_example=_shortest([atom for change in changes for atom in change.added]),
        went_example=_shortest([atom for change in changes for atom in change.removed]),
        reason=first.reason,
    )


def _shortest(atoms: Sequence[Atom]) -> Atom | None:
    return min(atoms, key=lambda atom: (len(atom.where), len(atom.detail), atom), default=None)


def _rank(group: ChangeGroup) -> tuple[bool, int, str, str]:
    strand = group.strand
    return (
        strand is None or strand.cause not in NEWS,
        list(Transition).index(group.transition),
        strand.kind if strand else "",
        strand.cause if strand else "",
    )
