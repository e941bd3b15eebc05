"""Many grammar documents, held together in the space of what differs between them.

Builds mostly agree: equal deviations, lists of tokens, texts and whole results are kept once and numbered.
Documents come one at a time, the most important first, and may be forgotten afterwards: when the room for
deviations is used up, those of later documents are counted and no more described.
"""

from __future__ import annotations

import hashlib
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
    """A deviation. ``tokens`` and ``ids`` hold the first ones, ``total`` says how many there are."""

    kind: str
    cause: str
    mid: bool
    prefix: str
    path: str
    tokens: str
    ids: str
    total: int
    escape: Way | None
    detail: str

    @property
    def size(self) -> int:
        """About how many bytes it takes on a page, when nothing is shared."""
        escape = 40 + len(self.escape.output) + len(self.escape.path) if self.escape else 0
        return 60 + sum(map(len, (self.prefix, self.path, self.tokens, self.ids, self.detail))) + escape


class Outcome(NamedTuple):
    """What a build does with a grammar.

    ``counts`` are atoms by kind, cause and whether inside a code point; ``deviations`` are numbers of those
    that are described, ``omitted`` counts the others. ``identity`` keeps results apart that differ only in
    what is omitted.
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
    omitted: int
    identity: str


class Control(NamedTuple):
    """A check of the tracker itself."""

    name: str
    passed: bool
    detail: str


@dataclass
class Condensed:
    """What was handed over. ``cells`` maps a build's grammars to numbers of outcomes.

    ``room`` is about how many bytes of deviations are still described, ``max_tokens`` of each, and
    ``max_text`` characters of a grammar.
    """

    max_tokens: int
    max_text: int
    room: int
    deviations: Numbered[Told] = field(default_factory=Numbered)
    outcomes: Numbered[Outcome] = field(default_factory=Numbered)
    cells: dict[str, dict[str, int]] = field(default_factory=dict)
    controls: dict[str, tuple[Control, ...]] = field(default_factory=dict)
    vocabulary: tuple[str, int] | None = None
    _known: dict[bytes, int] = field(default_factory=dict)

    def add(self, document: GrammarDocument) -> None:
        """Take what is new of a document."""
        build = document.build.id
        if document.vocabulary and self.vocabulary is None:
            self.vocabulary = document.vocabulary.name, document.vocabulary.tokens
        self.controls[build] = tuple(Control(c.name, c.passed, c.detail) for c in document.controls)
        self.cells[build] = {grammar.name: self._number(grammar) for grammar in document.grammars}

    def _number(self, grammar: GrammarResult) -> int:
        # Serialising is many times faster than taking a result apart, and most results have been seen.
        digest = hashlib.sha256(grammar.model_dump_json().encode()).digest()
        if digest not in self._known:
            self._known[digest] = self.outcomes.number(self._outcome(grammar, digest))
        return self._known[digest]

    def _outcome(self, grammar: GrammarResult, digest: bytes) -> Outcome:
        counts: dict[tuple[str, str, bool], int] = {}
        for found in grammar.deviations:
            key = (str(found.kind), found.cause, found.mid_code_point)
            counts[key] = counts.get(key, 0) + len(found.details())
        text = grammar.text
        if len(text) > self.max_text:
            text = text[: self.max_text] + f"\n# … {len(text) - self.max_text:,} more characters"
        shown = [number for found in grammar.deviations if (number := self._describe(found)) is not None]
        omitted = len(grammar.deviations) - len(shown)
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
            deviations=tuple(shown),
            omitted=omitted,
            identity=digest.hex()[:12] if omitted else "",
        )

    def _describe(self, found: Deviation) -> int | None:
        """The deviation's number; None when there is no room for it."""
        if self.room <= 0:
            return None
        told = self._told(found)
        known = len(self.deviations.values)
        number = self.deviations.number(told)
        if number == known:
            self.room -= told.size
        return number

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
            total=len(found.tokens),
            escape=Way(way.outcome, way.bytes, _words(way.path), way.well_formed, way.explored)
            if way
            else None,
            detail=found.detail,
        )


def _words(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))
