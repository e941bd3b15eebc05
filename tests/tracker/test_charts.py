"""Charts: well-formed SVG, the cells where they belong, equal bytes for equal histories."""

from __future__ import annotations

from xml.etree import ElementTree

from builders import build, deviation, document, grammar, untestable

from tracker.config import Watch
from tracker.history import History, history_of
from tracker.render.charts import MAX_CELL, environment, matrix_chart, timeline_chart
from tracker.results import Cause, Document
from tracker.watches import follow

SVG = "{http://www.w3.org/2000/svg}"
HOLE = deviation("f0", ["84"])
NEWS = deviation("61", ["62"], cause=Cause.NOT_IN_LANGUAGE, mid=False)


def _history(*documents: Document) -> History:
    return history_of(documents)


def _cells(svg: str) -> list[tuple[str, float, float, float]]:
    """Class, x, y and width of each rectangle in the drawing."""
    grid = ElementTree.fromstring(svg).findall(f"{SVG}g")[0]
    return [
        (cell.attrib["class"], *(float(cell.attrib[name]) for name in ("x", "y", "width")))
        for cell in grid.findall(f"{SVG}rect")
    ]


def test_equal_neighbours_are_one_cell_and_rows_follow_the_subjects() -> None:
    history = _history(
        document(build("1", day=1), grammar("a"), grammar("b", deviation("f0", ["84"] * 12))),
        document(build("2", day=2), grammar("a"), grammar("b")),
        untestable(build("3", day=3)),
        document(build("4", day=4), grammar("a", HOLE), grammar("b")),
    )
    cells = _cells(matrix_chart(environment(), history, ["b", "a"]))
    w = MAX_CELL
    assert cells == [
        ("wrong2", 0, 0, w),
        ("right", w, 0, w),
        ("untestable", 2 * w, 0, w),
        ("right", 3 * w, 0, w),
        ("right", 0, 16, 2 * w),
        ("untestable", 2 * w, 16, w),
        ("wrong1", 3 * w, 16, w),
    ]


def test_what_was_not_asked_is_left_blank_and_news_is_framed() -> None:
    history = _history(
        document(build("1", day=1), grammar("a", states=0, exhaustive=False), grammar("b", NEWS)),
        document(build("2", day=2), grammar("b", untestable="no answer")),
    )
    cells = _cells(matrix_chart(environment(), history, ["a", "b"]))
    assert [(look, y) for look, _, y, _ in cells] == [("wrong1", 16), ("news", 17), ("untestable", 16)]


def test_counts_choose_the_shade_by_their_digits() -> None:
    def look(count: int) -> str:
        tokens = [f"{n:06x}" for n in range(count)]
        history = _history(document(build("1"), grammar("a", deviation("f0", tokens))))
        return _cells(matrix_chart(environment(), history, ["a"]))[0][0]

    assert [look(n) for n in (1, 9, 10, 99, 100, 999, 1000, 20_000)] == [
        "wrong1",
        "wrong1",
        "wrong2",
        "wrong2",
        "wrong3",
        "wrong3",
        "wrong4",
        "wrong4",
    ]


def test_a_timeline_marks_each_build_by_its_date() -> None:
    history = _history(
        document(build("1", day=0), grammar("a")),
        untestable(build("2", day=25)),
        document(build("3", day=100), grammar("a", HOLE)),
    )
    svg = timeline_chart(environment(), [follow(Watch(name="w"), history)])
    drawing = ElementTree.fromstring(svg).findall(f"{SVG}g")[0]
    circles = [float(item.attrib["cx"]) for item in drawing.findall(f"{SVG}circle")]
    squares = [float(item.attrib["x"]) + 4 for item in drawing.findall(f"{SVG}rect[@height='8']")]
    crosses = [item.attrib["d"] for item in drawing.findall(f"{SVG}path")]
    assert circles == [0]
    assert squares == [760]
    assert crosses[0].startswith("M187 ")


def test_names_are_text_whatever_they_hold() -> None:
    name = 'a<script>&"' + "x" * 60 + "\u202e"
    history = _history(document(build("1"), grammar(name, HOLE)))
    svg = matrix_chart(environment(), history, [name])
    labels = [item.text for item in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert labels[0] is not None and labels[0].startswith('a<script>&"xx') and labels[0].endswith("…")
    assert "<script" not in svg


def test_there_is_nothing_to_draw_without_builds() -> None:
    ElementTree.fromstring(matrix_chart(environment(), _history(), []))
    ElementTree.fromstring(timeline_chart(environment(), [follow(Watch(name="w"), _history())]))


def test_equal_histories_give_equal_bytes_in_any_order() -> None:
    documents = [document(build(str(day), day=day), grammar("a", *[HOLE] * (day % 2))) for day in range(30)]
    first, second = _history(*documents), _history(*reversed(documents))
    assert matrix_chart(environment(), first, ["a"]) == matrix_chart(environment(), second, ["a"])
    watch = Watch(name="w")
    charts = [timeline_chart(environment(), [follow(watch, history)]) for history in (first, second)]
    assert charts[0] == charts[1]


def test_a_chart_of_thirty_builds_and_ten_grammars_stays_small() -> None:
    documents = [
        document(build(str(day), day=day), *[grammar(f"g{n}", *[HOLE] * ((day + n) % 2)) for n in range(10)])
        for day in range(30)
    ]
    names = [f"g{n}" for n in range(10)]
    # Every cell differs from its neighbour here: the worst case.
    assert len(matrix_chart(environment(), _history(*documents), names)) < 33_000
