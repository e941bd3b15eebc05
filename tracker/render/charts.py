"""Charts as SVG files: the matrix of builds and subjects, and the verdicts of watches over time. Pure.

It places and colours by class; the drawing is the templates'. Equal histories give equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tracker.history import Entry, History
from tracker.history.order import moment_of
from tracker.render.escape import visible
from tracker.render.markdown import TEMPLATES
from tracker.render.runs import Run, Scale, Tick, runs
from tracker.results import NEWS, BuildIdentity
from tracker.watches import WatchHistory, verdict_word

GRID = 760.0
"""Width of the part with cells, in pixels."""
ROW = 16.0
MAX_CELL, MIN_CELL = 28.0, 2.0
MAX_LABEL = 34
LABELS = 10
"""Builds named on an axis, at most."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Neighbouring builds with the same class in one row; ``x`` and ``width`` in pixels."""

    x: float
    width: float
    look: str
    news: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One subject."""

    label: str
    y: float
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """A build named on the axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A build on a timeline, ``x`` in pixels."""

    x: float
    word: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One watch on the timeline."""

    label: str
    y: float
    runs: tuple[Run, ...]
    marks: tuple[Mark, ...]


@cache
def environment() -> Environment:
    """The environment of the charts' templates."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["px"] = pixels
    return made


def pixels(value: float) -> str:
    """A coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def matrix_chart(made: Environment, history: History, subjects: Sequence[str]) -> str:
    """The matrix: a row a subject, a column a build, oldest left."""
    width = min(MAX_CELL, max(MIN_CELL, GRID / max(1, len(history.entries))))
    rows = []
    for index, name in enumerate(subjects):
        looks = [_look(entry, name) for entry in history.entries]
        cells = []
        position = 0
        for (look, news), group in groupby(looks):
            length = len(list(group))
            if look != "none":
                cells.append(Cell(position * width, length * width, look, news))
            position += length
        rows.append(Row(_label(name), index * ROW, tuple(cells)))
    return made.get_template("matrix.svg.j2").render(
        audit=str(history.audit),
        rows=rows,
        labels=_labels([entry.build for entry in history.entries], width),
        width=width * len(history.entries),
        cell=width,
        builds=len(history.entries),
        row=ROW,
        left=12 + 6.6 * max((len(row.label) for row in rows), default=0),
    )


def timeline_chart(made: Environment, histories: Sequence[WatchHistory]) -> str:
    """The verdicts of watches by date of the build."""
    builds = [point.build for history in histories for point in history.points]
    scale = Scale.over(builds)
    lanes = []
    for index, history in enumerate(histories):
        marks = [
            Mark(scale.place(moment) * GRID / 100, verdict_word(point.verdict))
            for point in history.points
            if (moment := moment_of(point.build))
        ]
        lanes.append(
            Lane(_label(history.watch.name), index * 30.0, tuple(runs(history, scale)), tuple(marks))
        )
    ticks: list[Tick] = scale.ticks() if builds else []
    return made.get_template("timeline.svg.j2").render(
        lanes=lanes,
        ticks=ticks,
        grid=GRID,
        builds=len({build.id for build in builds}),
        left=12 + 6.6 * max((len(lane.label) for lane in lanes), default=0),
    )


def _look(entry: Entry, name: str) -> tuple[str, bool]:
    """The class of a cell, and whether news is in it."""
    summary = entry.summary
    if not summary.trustworthy:
        return "untestable", False
    subject = summary.subjects.get(name)
    if subject is None or not subject.asked:
        return "none", False
    if not subject.complete:
        return "untestable", False
    atoms = subject.alarms
    news = any(strand.cause in NEWS for strand in subject.atoms)
    return "right" if not atoms else f"wrong{min(4, len(str(atoms)))}", news


def _labels(builds: Sequence[BuildIdentity], width: float) -> list[Label]:
    """Some builds' versions, evenly spread, the newest among them."""
    step = -(-len(builds) // LABELS) if builds else 1
    chosen = range(len(builds) - 1, -1, -step)
    return [Label((index + 0.5) * width, _label(builds[index].version)) for index in reversed(chosen)]


def _label(text: str) -> str:
    text = " ".join(visible(text).split())
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
