"""What the publisher has to know, and no more: a watch seen over the builds, and the tracker's own troubles.

Plain values without behaviour beyond look-up, so that the plan and the texts can be tested with any of them.
Where they come from is known by ``gather``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from tracker.history import Transition
from tracker.results import Atom, BuildIdentity, Deviation


class Standing(StrEnum):
    """What is known of a watch on one build."""

    PRESENT = "present"
    ABSENT = "absent"
    """Proven: a complete audit whose controls passed has not seen it."""
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A watch on one build.

    ``fingerprint`` and ``count`` are those of its findings when present, ``reason`` says why it is
    untestable. ``transition``, ``added`` and ``removed`` say what became of it since the closest earlier
    build that it may be compared with.
    """

    build: BuildIdentity
    standing: Standing
    fingerprint: str = ""
    count: int = 0
    transition: Transition | None = None
    added: tuple[Atom, ...] = ()
    removed: tuple[Atom, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The smallest grammar and prefix that show a watch on the newest build that has it."""

    grammar: str
    text: str
    deviation: Deviation


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The findings of one subject on one build, counted by kind and by cause.

    ``where`` and ``detail`` are of the smallest.
    """

    grammar: str
    kinds: tuple[tuple[str, int], ...]
    causes: tuple[tuple[str, int], ...]
    where: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much the newest tested build's audit has looked at."""

    grammars: int
    exhaustive: int
    states: int
    vocabulary: str
    tokens: int
    controls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFacts:
    """Everything about one watch. ``points`` are of one audit version, oldest build first."""

    name: str
    title: str
    description: str
    audit_version: str
    points: tuple[Point, ...]
    case: Case | None = None
    rows: tuple[Row, ...] = ()
    coverage: Coverage | None = None

    @property
    def newest(self) -> Point | None:
        """The newest build that could be tested."""
        return next((p for p in reversed(self.points) if p.standing is not Standing.UNTESTABLE), None)

    @property
    def last_present(self) -> Point | None:
        """The newest build that shows it."""
        return next((p for p in reversed(self.points) if p.standing is Standing.PRESENT), None)

    @property
    def first_absent(self) -> Point | None:
        """The oldest build of the absence that lasts until today; None when there is none."""
        found = None
        for point in reversed(self.points):
            if point.standing is Standing.PRESENT:
                break
            found = point if point.standing is Standing.ABSENT else found
        return found

    def index(self, build_id: str) -> int | None:
        """The place of a build among the points."""
        return next((i for i, p in enumerate(self.points) if p.build.id == build_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What came and what went from one build to a newer one, over all builds in between."""

    added: frozenset[Atom]
    removed: frozenset[Atom]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


def net_difference(points: Iterable[Point]) -> Difference:
    """The changes at these points, oldest first, summed up: what came and went again is not in it."""
    added: set[Atom] = set()
    removed: set[Atom] = set()
    for point in points:
        for atom in point.removed:
            added.remove(atom) if atom in added else removed.add(atom)
        for atom in point.added:
            removed.remove(atom) if atom in removed else added.add(atom)
    return Difference(added=frozenset(added), removed=frozenset(removed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that keeps the tracker from its work, for ``nights`` nights now.

    ``key`` names it (a build's id, or a part of the run), ``since`` the night it began.
    """

    key: str
    what: str
    since: str
    nights: int = field(compare=False)
