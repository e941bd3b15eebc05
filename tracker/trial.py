"""What a patch changes: two builds asked the same, state by state, and their audits held against each other.

The masks of both builds are compared bit by bit at every state that the walks over the build without the
patch come to, and each token that moves is judged by the oracle: it was wrong and is right now, or the other
way round. Places that only the patched build lets one come to are seen by its own audit. Times of apply are
taken in the same run, the two builds asked in turn.

It knows no patches, sources or files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from oracle import OracleError
from oracle.gbnf import parse
from oracle.mask import Mask, Oracle
from oracle.vocabulary import Vocabulary
from tracker.audits.grammar.audit import LIMITS, VocabularyFile
from tracker.audits.grammar.compare import BoolMask, Ends, Place
from tracker.audits.grammar.corpus import CorpusEntry
from tracker.audits.grammar.walk import Progress, Walk, walk
from tracker.build import Build
from tracker.history import Change, Transition, compare, evidence_of, summarise
from tracker.history.model import Evidence
from tracker.libllama.client import GrammarRejected, LibllamaClient, WorkerDied
from tracker.results import Atom, GrammarDocument

EXAMPLES = 20
"""Moves for the worse that are told in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A state where the masks of the two builds differ. Counts are of tokens; the end counts as one."""

    grammar: str
    prefix: bytes
    better: int
    worse: int
    tokens: tuple[int, ...]
    """Those that were right and are wrong now."""
    death: str = ""
    """Why only one of the two has answered."""


@dataclass
class SideBySide:
    """Two builds at the same states.

    Attributes:
        states: states at which both have answered.
        moves: those where their masks differ.
        before_seconds, after_seconds: CPU time in apply, over the same states.
        left_out: grammars that were not compared, with the reason.
    """

    states: int = 0
    moves: list[Move] = field(default_factory=list)
    before_seconds: float = 0.0
    after_seconds: float = 0.0
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def better(self) -> int:
        """Tokens that were wrong and are right now."""
        return sum(move.better for move in self.moves)

    @property
    def worse(self) -> tuple[Move, ...]:
        """States where something was right and is wrong now."""
        return tuple(move for move in self.moves if move.worse or move.death)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a patch does.

    Attributes:
        before, after: the audits of the two builds.
        removed, added: atoms gone and come, counted by kind and cause, at places that both audits looked at.
        incomparable: findings of which the audits cannot say, one line each.
        masks: the two builds state by state.
    """

    before: GrammarDocument
    after: GrammarDocument
    removed: Mapping[tuple[str, str], int]
    added: Mapping[tuple[str, str], int]
    incomparable: tuple[str, ...]
    masks: SideBySide


def hold_against(before: GrammarDocument, after: GrammarDocument, masks: SideBySide) -> Trial:
    """Put two audits of one version and the comparison of masks together."""
    documents = {document.build.id: document for document in (before, after)}

    def evidence(build_id: str, subject: str) -> Evidence:
        return evidence_of(next(s for s in documents[build_id].subjects if s.name == subject))

    changes = compare(summarise(before), summarise(after), evidence)
    return Trial(
        before=before,
        after=after,
        removed=_counted(atom for change in changes for atom in change.removed),
        added=_counted(atom for change in changes for atom in change.added),
        incomparable=tuple(_line(change) for change in changes if not (change.added or change.removed)),
        masks=masks,
    )


def _counted(atoms: Iterator[Atom]) -> Mapping[tuple[str, str], int]:
    return dict(sorted(Counter((atom.kind, atom.cause) for atom in atoms).items()))


def _line(change: Change) -> str:
    what = f"{change.strand.kind} {change.strand.cause}" if change.strand else ""
    reason = change.reason or ("" if change.transition is Transition.NOT_COMPARABLE else change.transition)
    return ": ".join(part for part in (change.subject, what, reason) if part)


def side_by_side(
    before: Build,
    after: Build,
    vocabulary: VocabularyFile,
    entries: Sequence[CorpusEntry],
    progress: Progress | None = None,
) -> SideBySide:
    """Ask two builds for their masks at the same states.

    Args:
        before: the build whose walks decide on the states.
        after: the other one.
        vocabulary: what masks are computed over; both builds are taken to spell it the same.
        entries: the grammars; those that are there because they may kill a build are left out.
        progress: told after each state.
    """
    with (
        LibllamaClient(before, vocabulary.path, LIMITS) as old,
        LibllamaClient(after, vocabulary.path, LIMITS) as new,
    ):
        ends = Ends.of(vocabulary.vocabulary, old.vocabulary().eog)
        return ask_both(old, new, vocabulary.vocabulary, ends, entries, progress)


def ask_both(
    old: LibllamaClient,
    new: LibllamaClient,
    vocabulary: Vocabulary,
    ends: Ends,
    entries: Sequence[CorpusEntry],
    progress: Progress | None = None,
) -> SideBySide:
    """The same with clients that are open already."""
    found = SideBySide()
    for entry in entries:
        if entry.group == "robustness" or entry.oracle_only:
            found.left_out[entry.name] = "may kill a build; its audit tells"
            continue
        try:
            oracle = Oracle(parse(entry.text), vocabulary, end_tokens=ends.ids)
            for count, _ in enumerate(_states(oracle, old, new, entry, ends, found), 1):
                if progress is not None:
                    progress(entry.name, count, 0)
        except (OracleError, GrammarRejected) as error:
            found.left_out[entry.name] = " ".join(str(error).split())[:200]
    return found


def _states(
    oracle: Oracle,
    old: LibllamaClient,
    new: LibllamaClient,
    entry: CorpusEntry,
    ends: Ends,
    found: SideBySide,
) -> Iterator[Place]:
    """Compare the masks at each state of the walk over the old build."""
    seen = Walk()
    count = len(oracle.vocabulary)
    for place, _ in walk(
        oracle, old, entry.text, ends, states=entry.states, keep_every=1, result=seen, ahead=1
    ):
        was = np.unpackbits(np.frombuffer(seen.masks[-1][1], np.uint8), count=count).view(np.bool_)
        try:
            reply = new.mask(entry.text, place.path, check_path=True)
            if reply.refused_at is None:
                # Asked again for the time, both alike: the first answer of a path pays for what the second
                # finds ready, and so does whoever is asked first.
                order = (old, new) if found.states % 2 else (new, old)
                again = {client: client.mask(entry.text, place.path) for client in order}
        except (WorkerDied, GrammarRejected) as error:
            found.moves.append(_died(entry, place, str(error)))
            continue
        if reply.refused_at is not None:
            found.moves.append(_died(entry, place, "a token on the way, which both should allow, is masked"))
            continue
        found.states += 1
        found.before_seconds += again[old].apply_cpu_seconds
        found.after_seconds += again[new].apply_cpu_seconds
        if not np.array_equal(was, reply.allowed):
            found.moves.append(_move(entry, place, was, reply.allowed, oracle.mask(place.state), ends))
        yield place


def _died(entry: CorpusEntry, place: Place, reason: str) -> Move:
    return Move(grammar=entry.name, prefix=place.prefix, better=0, worse=0, tokens=(), death=reason)


def _move(entry: CorpusEntry, place: Place, was: BoolMask, now: BoolMask, right: Mask, ends: Ends) -> Move:
    """A difference of two masks, judged; what ends the output is judged once."""
    text = ~ends.all
    moved = (was != now) & text
    worse = np.flatnonzero(moved & (was == right.tokens))
    end_was, end_now = bool(was[ends.all].any()), bool(now[ends.all].any())
    end_moved = end_was != end_now
    return Move(
        grammar=entry.name,
        prefix=place.prefix,
        better=int((moved & (now == right.tokens)).sum()) + (end_moved and end_now == right.eos),
        worse=len(worse) + (end_moved and end_was == right.eos),
        tokens=tuple(worse.tolist()),
    )
