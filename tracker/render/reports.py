"""Stored results → the files below ``reports/``: pages, charts, and nothing that was not asked for.

It knows which files there are and writes those that changed. Documents are read one at a time, twice: once to
order and compare them, once to show them; memory holds summaries and what the pages keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from tracker.atomic import sweep, write_atomic
from tracker.config import Config, Watch
from tracker.history import Evidence, History, Summary, build_history, evidence_of, summarise
from tracker.render import charts, markdown, words
from tracker.render.build_page import (
    FindingRow,
    build_view,
    commands,
    finding_rows,
    reproducer_file,
    title_of,
)
from tracker.render.entry_page import entry_view
from tracker.render.grammar_page import grammar_view, subjects_of
from tracker.render.html import render_page
from tracker.render.watch_page import watch_view
from tracker.results import AuditName, BuildIdentity, Document, GrammarDocument, GrammarResult
from tracker.store import Store
from tracker.watches import WatchHistory, WatchPoint, follow

GENERATED = (("builds", ".md"), ("grammars", ".md"), ("watches", ".md"), ("charts", ".svg"))
"""Folders below ``reports/`` whose files of that suffix are all ours: one that is not written is removed."""


def load_histories(store: Store) -> dict[AuditName, History]:
    """The history of each audit that has results. Raises StoreError for a result that cannot be read."""
    summaries: dict[AuditName, list[Summary]] = {}
    for key in store.keys():
        summaries.setdefault(key.audit, []).append(summarise(store.read(key.build_id, key.audit)))

    @lru_cache(maxsize=3)
    def document(build_id: str, audit: AuditName) -> Document:
        return store.read(build_id, audit)

    def history(audit: AuditName) -> History:
        def evidence(build_id: str, subject: str) -> Evidence:
            found = document(build_id, audit).subjects
            return next(evidence_of(item) for item in found if item.name == subject)

        return build_history(summaries[audit], evidence, audit)

    return {audit: history(audit) for audit in AuditName if audit in summaries}


def render_all(store: Store, config: Config, out: Path) -> list[Path]:
    """Write every report; returns the files that changed, stale ones that were removed among them.

    Raises StoreError for a result that cannot be read, OSError when a file cannot be written.
    """
    histories = load_histories(store)
    writer = _Writer(out)
    reports = _Reports(store, config, histories, writer)
    reports.write()
    writer.remove_stale()
    return writer.changed


@dataclass
class _Writer:
    """Writes below a folder and remembers what."""

    root: Path
    written: set[Path] = field(default_factory=set)
    changed: list[Path] = field(default_factory=list)

    def write(self, name: str, text: str) -> None:
        """One file; not touched when it holds this text already."""
        path = self.root / name
        self.written.add(path)
        if write_atomic(path, text.encode("utf-8", "replace")):
            self.changed.append(path)

    def remove_stale(self) -> None:
        """Remove pages of what is no longer there."""
        for folder, suffix in GENERATED:
            sweep(self.root / folder)
            for path in sorted((self.root / folder).glob(f"*{suffix}")):
                if path not in self.written:
                    path.unlink()
                    self.changed.append(path)


class _Reports:
    """One rendering of all reports."""

    def __init__(self, store: Store, config: Config, histories: Mapping[AuditName, History], writer: _Writer):
        self._store = store
        self._histories = histories
        self._writer = writer
        self._markdown = markdown.environment()
        self._charts = charts.environment()
        self._notes = {entry.release: entry.note for entry in config.releases if entry.note}
        self._watches = [
            follow(watch, histories.get(AuditName(watch.audit)) or History(AuditName(watch.audit), ()))
            for watch in config.watches
        ]
        self._points: dict[str, list[tuple[Watch, WatchPoint]]] = {}
        for history in self._watches:
            for point in history.points:
                self._points.setdefault(point.build.id, []).append((history.watch, point))
        self._audits: dict[str, list[AuditName]] = {}
        for key in store.keys():
            self._audits.setdefault(key.build_id, []).append(key.audit)
        self._passed: set[str] = set()
        self._newest_with: dict[str, str] = {}
        for entry in histories[AuditName.GRAMMAR].entries if AuditName.GRAMMAR in histories else ():
            if entry.summary.trustworthy:
                self._newest_with.update(dict.fromkeys(entry.summary.subjects, entry.build.id))
        self._grammars: dict[str, tuple[GrammarResult, BuildIdentity]] = {}
        self._news: list[FindingRow] = []

    def write(self) -> None:
        """All files."""
        drawn = self._draw_charts()
        grammar = self._histories.get(AuditName.GRAMMAR, History(AuditName.GRAMMAR, ()))
        # Documents are large, so each is read once for all pages; its build's are written as it passes.
        self._writer.write("index.html", render_page(self._pass, grammar, self._watches))
        for build_id in self._audits:
            if build_id not in self._passed:
                self._pass(build_id)
        for history in self._watches:
            if history.last_present is None:
                self._watch_page(history, None)
        for name, (result, build) in sorted(self._grammars.items()):
            view = grammar_view(result, build, grammar)
            self._page(f"grammars/{words.page_name(name)}", "grammar.md.j2", view=view)
        self._entry(drawn)

    def _page(self, name: str, template: str, **view: object) -> None:
        self._writer.write(name, markdown.render(self._markdown, template, **view))

    def _draw_charts(self) -> dict[str, str]:
        """Charts by what they show; paths seen from the entry page."""
        drawn: dict[str, str] = {}
        for audit, history in self._histories.items():
            if subjects := [name for name in subjects_of(history) if _asked(history, name)]:
                drawn[str(audit)] = f"charts/{audit}.svg"
                chart = charts.matrix_chart(self._charts, history, subjects)
                self._writer.write(drawn[str(audit)], chart)
        if any(history.points for history in self._watches):
            drawn["timeline"] = "charts/timeline.svg"
            chart = charts.timeline_chart(self._charts, self._watches)
            self._writer.write(drawn["timeline"], chart)
        return drawn

    def _pass(self, build_id: str) -> Document:
        """Write the pages that show a build's documents; returns that of the grammar audit, or another."""
        order = list(AuditName)
        audits = sorted(self._audits[build_id], key=order.index)
        documents = [self._store.read(build_id, audit) for audit in audits]
        self._build(documents)
        for document in documents:
            self._watch_pages(document)
            if isinstance(document, GrammarDocument):
                self._keep(document)
        self._passed.add(build_id)
        return documents[0]

    def _build(self, documents: Sequence[Document]) -> None:
        build = documents[0].build
        entries = {
            audit: entry for audit, history in self._histories.items() if (entry := history.entry(build.id))
        }
        note = self._notes.get(words.release_of(build), "")
        view = build_view(documents, entries, self._points.get(build.id, []), note)
        case = view.grammar.case if view.grammar else None
        file = reproducer_file(case.grammar) if case else ""
        self._page(
            f"builds/{build.id}.md",
            "build.md.j2",
            view=view,
            title=title_of(build),
            file=file,
            commands=commands(documents),
        )

    def _keep(self, document: GrammarDocument) -> None:
        """Keep what the pages of grammars and the entry page show of a document."""
        grammar = self._histories[AuditName.GRAMMAR]
        if grammar.newest and grammar.newest.build.id == document.build.id:
            self._news = [row for row in finding_rows(document.grammars) if row.news]
        for result in document.grammars:
            if self._newest_with.get(result.name) == document.build.id:
                self._grammars[result.name] = (result, document.build)

    def _watch_pages(self, document: Document) -> None:
        for history in self._watches:
            last = history.last_present
            if last and last.build.id == document.build.id and history.watch.audit == document.audit:
                self._watch_page(history, document)

    def _watch_page(self, history: WatchHistory, document: Document | None) -> None:
        timeline = "../charts/timeline.svg" if history.points else ""
        view = watch_view(history, document)
        self._page(f"watches/{history.watch.name}.md", "watch.md.j2", view=view, timeline=timeline)

    def _entry(self, drawn: Mapping[str, str]) -> None:
        view = entry_view(self._histories, self._watches, self._news, drawn)
        self._page("README.md", "entry.md.j2", view=view, up="")
        everything = entry_view(self._histories, self._watches, self._news, drawn, most=1_000_000)
        self._page("builds/README.md", "builds.md.j2", view=everything, up="../")


def _asked(history: History, name: str) -> bool:
    subjects = [entry.summary.subjects.get(name) for entry in history.entries]
    return any(subject is not None and subject.asked for subject in subjects)
