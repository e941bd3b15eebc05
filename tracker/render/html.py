"""reports/index.html: one page, self-contained, that opens from a disk.

It knows the page's frame: verdicts, news, what changed last and the timeline are written as HTML, so that
they can be read without JavaScript; the matrix and the pages behind it are drawn in the browser from the
embedded data. Everything that comes from a result is data: autoescaped here, set as text there.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tracker.history import Change, History, Transition
from tracker.render.page import DocumentSource, PageLimits, page_data
from tracker.render.runs import Run, Scale, runs
from tracker.render.words import count, noun
from tracker.results import NEWS
from tracker.watches import Absent, Present, Untestable, WatchHistory, verdict_word

_TEMPLATES = Path(__file__).parent / "templates"
_SCRIPTS = tuple(f"index-{part}.js" for part in ("utf8", "data", "matrix", "detail", "place", "main"))
_LATEST_CHANGES = 12
_TOLD_CHANGES = frozenset(
    {Transition.APPEARED, Transition.REGRESSED, Transition.CHANGED, Transition.FIXED, Transition.UNTESTABLE}
)


@dataclass(frozen=True, slots=True)
class VerdictCard:
    """A watch's verdict on the newest build that could be tested, in words."""

    name: str
    audit: str
    title: str
    about: str
    word: str
    headline: str
    since: str
    untested: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class NewsLine:
    """Deviations on the newest build that no known cause explains, of one grammar."""

    grammar: str
    link: str
    cause: str
    count: int


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """Changes at one build that are alike; ``subjects`` are names with their addresses on the page."""

    what: str
    kind: str
    cause: str
    build: str
    earlier: str
    subjects: tuple[tuple[str, str], ...]
    added: int
    removed: int
    reason: str


def render_page(
    documents: DocumentSource,
    history: History,
    watches: Sequence[WatchHistory],
    limits: PageLimits | None = None,
) -> str:
    """The whole page.

    Args:
        documents: gives a build's result; asked once for each build in ``history``, newest first.
        history: the grammar audit's.
        watches: each followed over the history of its audit.
        limits: what is cut.

    Returns:
        HTML; equal results give equal text.
    """
    data = page_data(documents, history, watches, limits or PageLimits())
    script, theme = "".join(_source(name) for name in _SCRIPTS), _source("index-theme.js")
    scale = Scale.over([point.build for watch in watches for point in watch.points])
    newest = history.newest
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["fragment"] = fragment
    environment.filters["number"] = "{:,}".format
    return environment.get_template("index.html.j2").render(
        cards=[_card(watch, scale) for watch in watches],
        news=_news(data, newest.build.id if newest else ""),
        changes=_latest(history),
        ticks=scale.ticks(),
        newest=newest.build if newest else None,
        builds={build["id"] for build in data["builds"]},
        vocabulary=data["vocabulary"],
        trust=_trust(data, newest.build.id if newest else ""),
        css=Markup(_source("index.css")),
        script=Markup(script),
        script_hash=_integrity(script),
        theme_script=Markup(theme),
        theme_hash=_integrity(theme),
        data=embedded(data),
    )


def embedded(data: Any) -> Markup:
    """JSON that can stand in a script element, whatever the texts in it say.

    No ``<``, ``>`` or ``&`` is left, so that neither ``</script`` nor ``<!--`` can occur, and only ASCII.
    """
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def fragment(*parts: str) -> str:
    """The address of a place on the page: build, grammar, prefix (``start`` for none)."""
    return "#" + "/".join(quote(part, safe="") for part in parts)


def _source(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _integrity(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _card(history: WatchHistory, scale: Scale) -> VerdictCard:
    watch, newest = history.watch, history.newest
    headline, word = "No build could be tested.", "untestable"
    if not history.points:
        headline = f"No build has a result of the {watch.audit} audit."
    if newest is not None:
        word = verdict_word(newest.verdict)
        headline = _headline(newest.verdict, _dated(newest.build.id, newest.build.date), noun(watch.audit))
    trailing = history.points[history.points.index(newest) + 1 :] if newest else history.points
    untested = ""
    if trailing and isinstance(trailing[-1].verdict, Untestable):
        ids = ", ".join(point.build.id for point in trailing[-3:])
        more = f" and {len(trailing) - 3} more" if len(trailing) > 3 else ""
        untested = f"Not tested: {ids}{more} ({trailing[-1].verdict.reason})."
    return VerdictCard(
        name=watch.name,
        audit=watch.audit,
        title=watch.title or watch.name,
        about=watch.about,
        word=word,
        headline=headline,
        since=_since(history),
        untested=untested,
        runs=tuple(runs(history, scale)),
    )


def _headline(verdict: Present | Absent | Untestable, build: str, subject: str) -> str:
    match verdict:
        case Present(atoms=atoms, subjects=subjects, untested=untested):
            beside = f"; {len(untested)} could not be tested" if untested else ""
            return f"{count(atoms, 'deviation')} in {count(len(subjects), subject)} on {build}{beside}."
        case Absent():
            return f"A complete audit of {build}, controls passed, has not seen it."
        case Untestable(reason=reason):
            return f"Nothing is known of {build}: {reason}."


def _since(history: WatchHistory) -> str:
    since, newest = history.since, history.newest
    if since is None or newest is None:
        return ""
    word = verdict_word(newest.verdict).capitalize()
    dates = {point.build.id: point.build.date for point in history.points}
    first = _dated(since.first, dates.get(since.first))
    if not since.after:
        if since.builds == 1:
            return f"{word} in the only comparable build, {first}."
        return f"{word} in all {since.builds} comparable builds, back to {first}."
    other = "without" if isinstance(newest.verdict, Present) else "with"
    between = f"; not tested between: {', '.join(since.between)}" if since.between else ""
    return f"{word} since {first}; the last build {other} it is {since.after}{between}."


def _dated(build: str, date: str | None) -> str:
    return f"{build} ({date[:10]})" if date else build


def _news(data: dict[str, Any], newest: str) -> list[NewsLine]:
    """What leads the page: causes that are news, on the newest build with a result."""
    build = next((b for b in data["builds"] if b["id"] == newest), None)
    lines: list[NewsLine] = []
    for grammar, cell in zip(data["grammars"], build["cells"] if build else (), strict=False):
        counts: dict[str, int] = {}
        for _, cause, _, atoms in data["outcomes"][cell]["counts"] if cell >= 0 else ():
            if cause in NEWS:
                counts[cause] = counts.get(cause, 0) + atoms
        name = grammar["name"]
        lines += [NewsLine(name, fragment(newest, name), cause, n) for cause, n in sorted(counts.items())]
    return lines


def _latest(history: History) -> list[ChangeLine]:
    """What changed last: the changes of the newest builds that had any, those alike on one line."""
    lines: list[ChangeLine] = []
    for entry in reversed(history.entries):
        alike: dict[tuple[str, ...], list[Change]] = {}
        for change in entry.changes:
            if change.transition in _TOLD_CHANGES:
                strand = change.strand
                pair = (strand.kind, strand.cause) if strand else ("", "")
                key = (change.transition, *pair, change.earlier, change.reason)
                alike.setdefault(key, []).append(change)
        lines += [_change_line(changes) for changes in alike.values()]
        if len(lines) >= _LATEST_CHANGES:
            break
    return lines[:_LATEST_CHANGES]


def _change_line(changes: Sequence[Change]) -> ChangeLine:
    first = changes[0]
    subjects = [
        (change.subject, fragment(change.build, change.subject)) for change in changes if change.subject
    ]
    return ChangeLine(
        what=str(first.transition),
        kind=first.strand.kind if first.strand else "",
        cause=first.strand.cause if first.strand else "",
        build=first.build,
        earlier=first.earlier,
        subjects=tuple(subjects),
        added=sum(len(change.added) for change in changes),
        removed=sum(len(change.removed) for change in changes),
        reason=first.reason,
    )


def _trust(data: dict[str, Any], newest: str) -> dict[str, int]:
    """Figures of the newest build with a result that say how far to trust it."""
    build = next((b for b in data["builds"] if b["id"] == newest), None)
    cells = [data["outcomes"][cell] for cell in build["cells"] if cell >= 0] if build else []
    controls = [data["controls"][number] for number in build["controls"]] if build else []
    return {
        "states": sum(outcome["states"] for outcome in cells),
        "exhaustive": sum(outcome["exhaustive"] and outcome["states"] > 0 for outcome in cells),
        "grammars": len(cells),
        "controls": len(controls),
        "passed": sum(control.passed for control in controls),
    }
