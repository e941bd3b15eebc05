"""Documents, history and watches → the data that reports/index.html carries.

It knows what the page needs, how to keep it small, and says what was left out. It knows nothing of HTML and
nothing of files. Tables refer to each other by number; numbers are given newest build first, so that the
data is the same in whatever order the documents come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tracker.history import Change, Entry, History, Summary, summarise
from tracker.render.condensed import Condensed, Control, Numbered, Outcome, Told, Way
from tracker.render.right import RightBytes
from tracker.results import Document, GrammarDocument, Kind
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


class _Tables:
    """The tables of the page, filled as they are asked for."""

    def __init__(self, condensed: Condensed, kept: frozenset[int]):
        self.condensed = condensed
        self.kept = kept
        self.texts = Numbered[str]()
        self.tokens = Numbered[tuple[str, str]]()
        self.escapes = Numbered[Way]()
        self.deviations = Numbered[Told]()
        self.outcomes = Numbered[Outcome]()
        self.controls = Numbered[Control]()
        self._rows: dict[int, list[Any]] = {}

    def data(self) -> dict[str, Any]:
        """All tables as JSON values; what they refer to is filled in first."""
        outcomes = [self._outcome(outcome) for outcome in self.outcomes.values]
        deviations = [self._deviation(told) for told in self.deviations.values]
        return {
            "outcomes": outcomes,
            "deviations": deviations,
            "right": self._right(),
            "texts": self.texts.values,
            "tokens": self.tokens.values,
            "escapes": self.escapes.values,
            "controls": self.controls.values,
        }

    def _outcome(self, outcome: Outcome) -> dict[str, Any]:
        shown = [n for n in outcome.deviations if n in self.kept]
        row = outcome._asdict() | {
            "text": self.texts.number(outcome.text),
            "deviations": [self.deviations.number(self.condensed.all_deviations.values[n]) for n in shown],
            "omitted": len(outcome.deviations) - len(shown),
        }
        return {key: value for key, value in row.items() if key not in {"origin", "published"}}

    def _deviation(self, told: Told) -> list[Any]:
        return [
            told.kind,
            told.cause,
            int(told.mid),
            told.prefix,
            told.path,
            self.tokens.number((told.tokens, told.ids)),
            told.count,
            self.escapes.number(told.escape) if told.escape else -1,
            told.detail,
        ]

    def _right(self) -> dict[str, dict[str, list[Any]]]:
        """By number of a text and by prefix: the bytes that may come next, may it end, is it viable."""
        found: dict[str, dict[str, list[Any]]] = {}
        for outcome in self.outcomes.values:
            told = [self.condensed.all_deviations.values[n] for n in outcome.deviations if n in self.kept]
            prefixes = {t.prefix for t in told if t.kind in _AT_A_STATE}
            answers = found.setdefault(str(self.texts.number(outcome.text)), {})
            oracle = RightBytes(outcome.text)
            for prefix in sorted(prefixes - answers.keys()):
                if right := oracle.after(bytes.fromhex(prefix)):
                    answers[prefix] = [" ".join(right.next_bytes), int(right.may_end), int(right.viable)]
        return {text: answers for text, answers in found.items() if answers}


def page_data(
    documents: Iterable[Document],
    history: History,
    watches: Sequence[WatchHistory],
    limits: PageLimits,
) -> dict[str, Any]:
    """Everything that the page shows, as plain JSON values.

    Of the documents, those of the grammar audit that the history holds are shown, build by build. They are
    asked for one after another and not kept.
    """
    summaries = {s.build.id: s for s in (*(e.summary for e in history.entries), *history.aside)}
    condensed = Condensed(limits.tokens, limits.text)
    for document in documents:
        known = summaries.get(document.build.id)
        if isinstance(document, GrammarDocument) and known and summarise(document) == known:
            condensed.add(document)
    newest_first = [entry.build.id for entry in reversed(history.entries)]
    newest_first += [summary.build.id for summary in history.aside]
    tables = _Tables(condensed, condensed.fitting(newest_first, limits.size))
    rows = _grammar_rows(condensed, newest_first)
    columns = {build: _cells(build, rows, tables) for build in newest_first}
    builds = [_build(entry.summary, entry, limits) for entry in history.entries]
    builds += [_build(summary, None, limits) for summary in history.aside]
    for build in builds:
        build["cells"] = columns[build["id"]]
        build["controls"] = [tables.controls.number(c) for c in condensed.controls.get(build["id"], ())]
    vocabulary = next((condensed.vocabulary[b] for b in newest_first if b in condensed.vocabulary), None)
    return {
        "vocabulary": vocabulary,
        "builds": builds,
        "grammars": [{"name": n, "origin": o.origin, "published": o.published} for n, o in rows.items()],
        "watches": [watch_data(watch, list(rows)) for watch in watches],
        "max_tokens": limits.tokens,
        "omitted": len(condensed.all_deviations.values) - len(tables.kept),
        **tables.data(),
    }


def _grammar_rows(condensed: Condensed, newest_first: Sequence[str]) -> dict[str, Outcome]:
    """Grammars with their newest outcome: the published ones, the corpus, the sources' own; each by name."""
    newest: dict[str, Outcome] = {}
    for build in newest_first:
        for name, number in condensed.outcomes.get(build, {}).items():
            newest.setdefault(name, condensed.all_outcomes.values[number])
    origins = ("corpus", "source-tree", "file")

    def rank(name: str) -> tuple[bool, int, str]:
        return not newest[name].published, origins.index(newest[name].origin), name

    return {name: newest[name] for name in sorted(newest, key=rank)}


def _cells(build: str, rows: Iterable[str], tables: _Tables) -> list[int]:
    """A build's outcomes by grammar, -1 where it has none."""
    numbers = tables.condensed.outcomes.get(build, {})
    values = tables.condensed.all_outcomes.values
    return [tables.outcomes.number(values[numbers[name]]) if name in numbers else -1 for name in rows]


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
