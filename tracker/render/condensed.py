"""Many grammar documents, held together in the space of what differs between them.

Builds mostly agree: equal deviations, lists of tokens, texts and whole results are kept once and numbered.
Documents come one at a time and may be forgotten afterwards. Long lists are cut on the way in, their length
is kept.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from tracker.results import Deviation, GrammarDocument, GrammarResult

Value = TypeVar("Value", bound=Hashable)


class Numbered(Generic[Value]):
    """Values by number; equal values share one."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._numbers: dict[Value, int] = {}

    def number(self, value: Value) -> int:
        """The value's number, the next free one when it is new."""
        found = self._numbers.setdefault(value, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found


class Way(NamedTuple):
    """Where following a hole led to; ``path`` holds token ids."""

    outcome: str
    output: str
    path: str
    well_formed: bool
    explored: int


class Told(NamedTuple):
    """A deviation. ``tokens`` and ``ids`` hold the first ones, ``count`` says how many there are."""

    kind: str
    cause: str
    mid: bool
    prefix: str
    path: str
    tokens: str
    ids: str
    count: int
    escape: Way | None
    detail: str

    @property
    def size(self) -> int:
        """About how many bytes it takes on a page, when nothing is shared."""
        way = len(self.escape.output) + len(self.escape.path) + 40 if self.escape else 0
        return (
            60 + len(self.prefix) + len(self.path) + len(self.tokens) + len(self.ids) + len(self.detail) + way
        )


class Outcome(NamedTuple):
    """What a build does with a grammar.

    ``counts`` are atoms by kind, cause and whether inside a code point; ``deviations`` are numbers.
    """

    text: str
    origin: str
    published: bool
    status: str
    reason: str
    counts: tuple[tuple[str, str, bool, int], ...]
    states: int
    exhaustive: bool
    left: int
    bound: str
    reached: int
    positions: int
    start_tokens: int | None
    notes: tuple[str, ...]
    deviations: tuple[int, ...]


class Control(NamedTuple):
    """A check of the tracker itself."""

    name: str
    passed: bool
    detail: str


@dataclass
class Condensed:
    """What was handed over, by build id. ``outcomes`` maps a build's grammars to numbers."""

    max_tokens: int
    max_text: int
    all_deviations: Numbered[Told] = field(default_factory=Numbered)
    all_outcomes: Numbered[Outcome] = field(default_factory=Numbered)
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    controls: dict[str, tuple[Control, ...]] = field(default_factory=dict)
    vocabulary: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, document: GrammarDocument) -> None:
        """Take what is new of a document."""
        build = document.build.id
        if document.vocabulary:
            self.vocabulary[build] = document.vocabulary.name, document.vocabulary.tokens
        self.controls[build] = tuple(Control(c.name, c.passed, c.detail) for c in document.controls)
        self.outcomes[build] = {g.name: self.all_outcomes.number(self._outcome(g)) for g in document.grammars}

    def _outcome(self, grammar: GrammarResult) -> Outcome:
        counts: dict[tuple[str, str, bool], int] = {}
        for found in grammar.deviations:
            key = (str(found.kind), found.cause, found.mid_code_point)
            counts[key] = counts.get(key, 0) + len(found.details())
        text = grammar.text
        if len(text) > self.max_text:
            text = text[: self.max_text] + f"\n# … {len(text) - self.max_text:,} more characters"
        return Outcome(
            text=text,
            origin=grammar.origin,
            published=grammar.published,
            status=grammar.status,
            reason=grammar.reason or "",
            counts=tuple((*key, count) for key, count in sorted(counts.items())),
            states=grammar.states,
            exhaustive=grammar.exhaustive,
            left=grammar.left,
            bound=grammar.bound or "",
            reached=grammar.coverage.reached if grammar.coverage else 0,
            positions=grammar.coverage.positions if grammar.coverage else 0,
            start_tokens=grammar.start_tokens,
            notes=grammar.notes,
            deviations=tuple(self.all_deviations.number(self._told(found)) for found in grammar.deviations),
        )

    def _told(self, found: Deviation) -> Told:
        way = found.escape
        return Told(
            kind=str(found.kind),
            cause=found.cause,
            mid=found.mid_code_point,
            prefix=found.prefix,
            path=_words(found.path),
            tokens=" ".join(found.tokens[: self.max_tokens]),
            ids=_words(found.token_ids[: self.max_tokens]),
            count=len(found.tokens),
            escape=Way(way.outcome, way.bytes, _words(way.path), way.well_formed, way.explored)
            if way
            else None,
            detail=found.detail,
        )

    def fitting(self, builds: Iterable[str], size: int) -> frozenset[int]:
        """Numbers of the deviations that fit into a size, those of the builds named first before others."""
        kept: set[int] = set()
        numbers = (number for build in builds for number in self.outcomes.get(build, {}).values())
        for outcome in dict.fromkeys(numbers):
            for number in self.all_outcomes.values[outcome].deviations:
                if number not in kept:
                    size -= self.all_deviations.values[number].size
                    if size < 0:
                        return frozenset(kept)
                    kept.add(number)
        return frozenset(kept)


def _words(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))
