"""Two results compared, in words for a terminal and as plain JSON values. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tracker.history import Change, Transition
from tracker.render.words import CAUSES, KINDS, count, name_of, spaced
from tracker.results import NEWS, Atom, BuildIdentity

SHOWN = 5
"""Findings that are written out of one change; the others are counted."""

_WORDS = {
    Transition.APPEARED: "new",
    Transition.REGRESSED: "back",
    Transition.CHANGED: "other findings",
    Transition.FIXED: "gone",
    Transition.UNTESTABLE: "untestable",
    Transition.NOT_COMPARABLE: "not comparable",
}


def is_decided(changes: Sequence[Change]) -> bool:
    """Whether the two results could be compared at all."""
    return not any(
        not change.subject and change.transition in (Transition.UNTESTABLE, Transition.NOT_COMPARABLE)
        for change in changes
    )


def in_words(old: BuildIdentity, new: BuildIdentity, changes: Sequence[Change]) -> str:
    """What changed, news first, as lines of text."""
    lines = list(_lines(old, new, changes))
    return "\n".join(lines)


def _lines(old: BuildIdentity, new: BuildIdentity, changes: Sequence[Change]) -> Iterator[str]:
    pair = f"from {name_of(old)} to {name_of(new)}"
    if not is_decided(changes):
        yield f"Nothing can be said {pair}: {changes[0].reason}."
        return
    strands = [change for change in changes if change.strand is not None]
    others = [change for change in changes if change.strand is None]
    real = [change for change in strands if change.transition is not Transition.NOT_COMPARABLE]
    if not real:
        yield f"Nothing changed {pair}, as far as the two can be compared."
    else:
        came = sum(len(change.added) for change in real)
        went = sum(len(change.removed) for change in real)
        yield f"{count(came, 'finding')} came and {went:,} went {pair}:"
    for change in sorted(strands, key=_rank):
        yield from _strand(change)
    if others:
        yield ""
        yield "Could not be compared:"
        for change in others:
            yield f"  {change.subject}: {change.reason}"


def _rank(change: Change) -> tuple[bool, str]:
    return change.strand is None or change.strand.cause not in NEWS, change.subject


def _strand(change: Change) -> Iterator[str]:
    strand = change.strand
    assert strand is not None
    where = ", inside a code point" if strand.mid_code_point else ""
    yield ""
    yield f"{strand.subject}: {_WORDS[change.transition]}: {strand.kind} ({strand.cause}{where})"
    yield f"  {KINDS.get(strand.kind, strand.kind)}; {CAUSES.get(strand.cause, strand.cause)}"
    if change.reason:
        yield f"  {change.reason}"
    for sign, atoms in (("+", change.added), ("-", change.removed)):
        for atom in atoms[:SHOWN]:
            yield f"  {sign} {_atom(atom)}"
        if len(atoms) > SHOWN:
            yield f"  {sign} and {len(atoms) - SHOWN:,} more"


def _atom(atom: Atom) -> str:
    where = _bytes(atom.where)
    return f"after {where}: {_bytes(atom.detail)}" if atom.detail else f"after {where}"


def _bytes(text: str) -> str:
    # Other audits than the grammar's have names here, not bytes.
    try:
        bytes.fromhex(text)
    except ValueError:
        return text
    return spaced(text)


def as_json(old: BuildIdentity, new: BuildIdentity, changes: Sequence[Change]) -> dict[str, Any]:
    """What changed, every finding of it, as plain values."""
    return {
        "old": old.model_dump(mode="json"),
        "new": new.model_dump(mode="json"),
        "comparable": is_decided(changes),
        "changes": [
            {
                "transition": str(change.transition),
                "subject": change.subject,
                "kind": change.strand.kind if change.strand else None,
                "cause": change.strand.cause if change.strand else None,
                "mid_code_point": change.strand.mid_code_point if change.strand else None,
                "added": [{"where": atom.where, "detail": atom.detail} for atom in change.added],
                "removed": [{"where": atom.where, "detail": atom.detail} for atom in change.removed],
                "reason": change.reason,
            }
            for change in changes
        ],
    }
