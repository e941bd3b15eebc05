"""One grammar of one build: read it on both sides, walk, follow the holes, and sum up."""

from __future__ import annotations

from dataclasses import dataclass, replace

from oracle.gbnf import GrammarError, GrammarTooLarge, parse
from oracle.mask import Oracle
from oracle.vocabulary import Vocabulary
from tracker.audits.grammar.causes import cause_of_unsound_end
from tracker.audits.grammar.compare import Ends, Place, deviation
from tracker.audits.grammar.controls import KeptMask
from tracker.audits.grammar.corpus import CorpusEntry
from tracker.audits.grammar.escape import follow
from tracker.audits.grammar.reading import REMEMBERED_MASKS, reading_of
from tracker.audits.grammar.walk import Progress, Walk, death_finding, walk
from tracker.libllama.client import GrammarRejected, LibllamaClient, WorkerDied
from tracker.results import Cause, Deviation, GrammarResult, Kind, tally

ESCAPES_TRIED = 2
"""Unsound states from which an escape is searched, for each cause, until one reaches the end."""

MAX_ESCAPE_PREFIX = 64
"""Longest path of tokens from which an escape is followed."""


@dataclass(frozen=True)
class UnitResult:
    """The result of one grammar, and what the run needs to know besides.

    Attributes:
        kept: masks for the null control.
        asked: states whose mask the build gave.
        apply_seconds: CPU seconds inside the library's apply, over the walk.
        oracle_seconds: CPU seconds that the oracle took for the same states' masks.
    """

    result: GrammarResult
    kept: tuple[KeptMask, ...] = ()
    asked: int = 0
    apply_seconds: float = 0.0
    oracle_seconds: float = 0.0


def audit_grammar(
    entry: CorpusEntry,
    client: LibllamaClient,
    vocabulary: Vocabulary,
    ends: Ends,
    *,
    keep_every: int,
    progress: Progress | None = None,
) -> UnitResult:
    """Audit one grammar of the corpus.

    Args:
        entry: with its text and bounds.
        client: of the build.
        vocabulary: as our reader sees it.
        ends: the build's end-of-generation tokens.
        keep_every: keep the mask of every n-th state for the null control.
        progress: told after each state.
    """
    try:
        oracle = Oracle(parse(entry.text), vocabulary, end_tokens=ends.ids, remember=REMEMBERED_MASKS)
    except GrammarTooLarge as error:
        result = _result(entry, Walk(), (), ())
        return UnitResult(result.model_copy(update={"status": "untestable", "reason": str(error)}))
    except GrammarError as error:
        accepted = _accepted_findings(entry, client, str(error))
        return _finish(entry, Walk(exhaustive=True), accepted, (f"no grammar: {error}",))
    notes = tuple(str(warning) for warning in oracle.grammar.warnings)
    if entry.oracle_only:
        return UnitResult(
            _result(entry, Walk(), (), (*notes, "oracle only: upstream documents it as unsupported"))
        )
    found = Walk()
    try:
        for _ in walk(
            oracle,
            client,
            entry.text,
            ends,
            states=entry.states,
            paths=entry.paths,
            keep_every=keep_every,
            result=found,
            visit=[(visit.text * visit.times).encode() for visit in entry.visit],
            reading=reading_of(oracle),
        ):
            if progress is not None:
                progress(entry.name, found.visited, found.left)
    except GrammarRejected as refusal:
        detail = _one_line(refusal.detail or str(refusal))
        rejected = deviation(Place(0), Kind.GRAMMAR_REJECTED, Cause.PARSER, False, detail=detail)
        return UnitResult(_result(entry, Walk(exhaustive=True), (rejected,), notes))
    return _finish(entry, found, _follow_holes(oracle, client, entry, ends, found.deviations), notes)


def _finish(
    entry: CorpusEntry, found: Walk, deviations: list[Deviation], notes: tuple[str, ...]
) -> UnitResult:
    kept = tuple(KeptMask(entry.text, path, packed) for path, packed in found.masks)
    result = _result(entry, found, tuple(deviations), notes)
    return UnitResult(result, kept, found.asked, found.apply_seconds, found.oracle_seconds)


def _result(
    entry: CorpusEntry, found: Walk, deviations: tuple[Deviation, ...], notes: tuple[str, ...]
) -> GrammarResult:
    ordered = tuple(
        sorted(deviations, key=lambda d: (len(d.prefix), d.prefix, d.kind, d.cause, d.mid_code_point))
    )
    totals, digests = tally(entry.name, entry.sha256, ordered)
    large = len(entry.text) > 20_000
    return GrammarResult(
        name=entry.name,
        sha256=entry.sha256,
        totals=totals,
        digests=digests,
        notes=notes,
        text=entry.text[:200] + f"... ({len(entry.text)} characters)" if large else entry.text,
        origin=entry.group if entry.group in ("source-tree", "file") else "corpus",
        published=entry.group == "published",
        states=found.visited,
        exhaustive=found.exhaustive,
        left=found.left,
        bound=found.bound,
        start_tokens=found.start_tokens if found.visited else None,
        coverage=found.coverage,
        visited=None if found.exhaustive else tuple(sorted(output.hex() for output in found.outputs)),
        deviations=ordered,
    )


def _accepted_findings(entry: CorpusEntry, client: LibllamaClient, error: str) -> list[Deviation]:
    """What the build does with a text that is no grammar."""
    try:
        if not client.grammar_accepted(entry.text):
            return []
    except WorkerDied as death:
        return [death_finding(Place(0), death)]
    detail = _one_line(f"right is an error: {error}")
    return [deviation(Place(0), Kind.GRAMMAR_ACCEPTED, Cause.PARSER, False, detail=detail)]


def _follow_holes(
    oracle: Oracle,
    client: LibllamaClient,
    entry: CorpusEntry,
    ends: Ends,
    deviations: list[Deviation],
) -> list[Deviation]:
    """Search an escape for each cause of unsound tokens; those that reach the end are findings as well."""
    by_cause: dict[str, list[int]] = {}
    for index, found in enumerate(deviations):
        if found.kind is Kind.UNSOUND and len(found.path) <= MAX_ESCAPE_PREFIX:
            by_cause.setdefault(found.cause, []).append(index)
    followed = list(deviations)
    ended: list[Deviation] = []
    for cause, indexes in sorted(by_cause.items()):
        for index in sorted(indexes, key=lambda i: len(deviations[i].path))[:ESCAPES_TRIED]:
            found = deviations[index]
            place = _place(oracle, found)
            token = min(found.token_ids, key=lambda t: (len(oracle.vocabulary.pieces[t]), t))
            try:
                escape = follow(oracle, client, entry.text, ends, place, token)
            except WorkerDied as death:
                ended.append(death_finding(replace(place, path=(*place.path, token)), death))
                break
            followed[index] = found.model_copy(update={"escape": escape})
            if escape.outcome == "end-of-generation":
                seen = cause_of_unsound_end(bytes.fromhex(escape.bytes)[place.text_start :])
                ended.append(
                    Deviation(
                        kind=Kind.EOS_UNSOUND,
                        cause=cause if seen is Cause.NOT_IN_LANGUAGE else seen,
                        mid_code_point=found.mid_code_point,
                        prefix=escape.bytes,
                        path=escape.path,
                    )
                )
                break
    return followed + ended


def _place(oracle: Oracle, found: Deviation) -> Place:
    """The place of a deviation, walked again from the start."""
    place = Place(oracle.start)
    for token in found.path:
        place = place.after(oracle, token, oracle.step(place.state, token))
    return place


def _one_line(text: str) -> str:
    """Upstream's message without line breaks and control characters, cut to a readable length."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split())[:300]
