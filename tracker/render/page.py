"""Documents, history and watches → the data that reports/index.html carries.

It knows what the page needs, how to keep it small, and says what was left out. It knows nothing of HTML and
nothing of files. Tables refer to each other by number, given in the order of builds, newest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tracker.history import Change, Entry, History, Summary
from tracker.render import words
from tracker.render.condensed import Condensed, Control, Numbered, Outcome, Way
from tracker.render.right import RightBytes
from tracker.results import NEWS, Document, GrammarDocument, Kind
from tracker.watches import WatchHistory, verdict_word

_AT_A_STATE = frozenset({Kind.UNSOUND, Kind.OVER_RESTRICTIVE, Kind.EOS_UNSOUND, Kind.EOS_MISSING})
"""Kinds for which it means something to ask what is right at the place."""

_SAMPLES = 6
"""Atoms that are named of a change; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
    """What is cut, and counted where it is cut. Totals are never cut.

    ``tokens`` of one deviation, characters of a grammar's ``text``, ``changes`` of one build, and ``size``,
    about the bytes of all deviations together, newest builds first.
    """

    tokens: int = 96
    text: int = 20_000
    changes: int = 60
    size: int = 6_000_000


DocumentSource = Callable[[str], Document]
"""Build id → that build's document of the grammar audit."""


def page_data(
    documents: DocumentSource,
    history: History,
    watches: Sequence[WatchHistory],
    limits: PageLimits,
) -> dict[str, Any]:
    """Everything that the page shows, as plain JSON values.

    Documents are asked for one after another, the newest first, and not kept.
    """
    placed = [entry.build.id for entry in reversed(history.entries)]
    newest_first = [*placed, *(summary.build.id for summary in history.aside)]
    condensed = Condensed(limits.tokens, limits.text, limits.size)
    for build_id in newest_first:
        document = documents(build_id)
        if isinstance(document, GrammarDocument):
            condensed.add(document)
    rows = _grammar_rows(condensed, newest_first)
    controls = Numbered[Control]()
    builds = [_build(entry.summary, entry, limits) for entry in history.entries]
    builds += [_build(summary, None, limits) for summary in history.aside]
    for build in builds:
        cells = condensed.cells.get(build["id"], {})
        build["cells"] = [cells.get(name, -1) for name in rows]
        build["controls"] = [controls.number(c) for c in condensed.controls.get(build["id"], ())]
    return {
        "vocabulary": condensed.vocabulary,
        "builds": builds,
        "grammars": [{"name": n, "origin": o.origin, "published": o.published} for n, o in rows.items()],
        "watches": [watch_data(watch, list(rows)) for watch in watches],
        "kinds": dict(words.KINDS),
        "causes": dict(words.CAUSES),
        "news": sorted(NEWS),
        "controls": controls.values,
        "omitted": sum(outcome.omitted for outcome in condensed.outcomes.values),
        **_tables(condensed),
    }


def _tables(condensed: Condensed) -> dict[str, Any]:
    """Outcomes and deviations, and what they refer to by number."""
    texts, tokens, escapes = Numbered[str](), Numbered[tuple[str, str]](), Numbered[Way]()
    outcomes = [
        {
            key: value
            for key, value in outcome._asdict().items()
            if key not in {"origin", "published", "identity"}
        }
        | {"text": texts.number(outcome.text)}
        for outcome in condensed.outcomes.values
    ]
    deviations = [
        [
            told.kind,
            told.cause,
            int(told.mid),
            told.prefix,
            told.path,
            tokens.number((told.tokens, told.ids)),
            told.total,
            escapes.number(told.escape) if told.escape else -1,
            told.detail,
        ]
        for told in condensed.deviations.values
    ]
    return {
        "outcomes": outcomes,
        "deviations": deviations,
        "texts": texts.values,
        "tokens": tokens.values,
        "escapes": escapes.values,
        "right": _right(condensed, texts),
    }


def _right(condensed: Condensed, texts: Numbered[str]) -> dict[str, dict[str, list[Any]]]:
    """By number of a text and by prefix: the bytes that may come next, may it end, is it viable."""
    prefixes: dict[str, set[str]] = {}
    for outcome in condensed.outcomes.values:
        told = (condensed.deviations.values[number] for number in outcome.deviations)
        prefixes.setdefault(outcome.text, set()).update(t.prefix for t in told if t.kind in _AT_A_STATE)
    found: dict[str, dict[str, list[Any]]] = {}
    for text, places in prefixes.items():
        oracle = RightBytes(text)
        answers = {place: oracle.after(bytes.fromhex(place)) for place in sorted(places)}
        found[str(texts.number(text))] = {
            place: [" ".join(right.next_bytes), int(right.may_end), int(right.viable)]
            for place, right in answers.items()
            if right is not None
        }
    return {text: answers for text, answers in found.items() if answers}


def _grammar_rows(condensed: Condensed, newest_first: Sequence[str]) -> dict[str, Outcome]:
    """Grammars with their newest outcome: the published ones, the corpus, the sources' own; each by name."""
    newest: dict[str, Outcome] = {}
    for build in newest_first:
        for name, number in condensed.cells.get(build, {}).items():
            newest.setdefault(name, condensed.outcomes.values[number])
    origins = ("corpus", "source-tree", "file")

    def rank(name: str) -> tuple[bool, int, str]:
        return not newest[name].published, origins.index(newest[name].origin), name

    return {name: newest[name] for name in sorted(newest, key=rank)}


def _build(summary: Summary, entry: Entry | None, limits: PageLimits) -> dict[str, Any]:
    identity = summary.build
    changes = entry.changes if entry else ()
    return {
        "id": identity.id,
        "channel": identity.channel,
        "version": identity.version,
        "commit": identity.commit,
        "number": identity.build_number,
        "date": (identity.date or "")[:10],
        "date_of": identity.date_of,
        "patch": identity.patch,
        "source": identity.source_sha256,
        "audit_version": summary.audit_version[:12],
        "tested": summary.trustworthy,
        "reason": summary.reason,
        "placed": entry is not None,
        "earlier": entry.earlier if entry else "",
        "changes": [change_data(change) for change in changes[: limits.changes]],
        "changes_omitted": max(0, len(changes) - limits.changes),
    }


def change_data(change: Change) -> dict[str, Any]:
    """A change, with a few of its atoms by name and the others counted."""
    strand = change.strand
    return {
        "what": str(change.transition),
        "build": change.build,
        "earlier": change.earlier,
        "subject": change.subject,
        "kind": strand.kind if strand else "",
        "cause": strand.cause if strand else "",
        "added": len(change.added),
        "removed": len(change.removed),
        "samples": [
            [sign, atom.where, atom.detail]
            for sign, atoms in (("+", change.added), ("-", change.removed))
            for atom in atoms[:_SAMPLES]
        ],
        "reason": change.reason,
    }


def watch_data(history: WatchHistory, grammars: Sequence[str]) -> dict[str, Any]:
    """A watch: what it lets through, for the filter of the matrix."""
    watch = history.watch
    return {
        "name": watch.name,
        "audit": watch.audit,
        "kinds": [str(kind) for kind in watch.kinds],
        "causes": list(watch.causes),
        "mid": watch.mid_code_point,
        "grammars": [
            index
            for index, name in enumerate(grammars)
            if not watch.grammars or any(fnmatchcase(name, pattern) for pattern in watch.grammars)
        ],
        "verdicts": {point.build.id: verdict_word(point.verdict) for point in history.points},
    }
