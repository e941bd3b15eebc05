"""The commands compare and report: words, JSON, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from builders import build, deviation, document, grammar, untestable

from tracker.cli import compare, report
from tracker.config import ConfigError
from tracker.errors import ExitCode, TrackerError, UsageError
from tracker.results import Cause
from tracker.store import Store, encode

HOLE = deviation("f0", ["84", "85"])
OTHER = deviation("f0", ["85", "86"])
NEWS = deviation("61", ["62"], cause=Cause.NOT_IN_LANGUAGE, mid=False)


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    store = Store(tmp_path / "reports" / "data")
    store.write(document(build("1", day=1), grammar("g", HOLE), grammar("h")))
    store.write(document(build("2", day=2), grammar("g", OTHER), grammar("h", NEWS)))
    store.write(document(build("3", day=3), grammar("g", OTHER), audit_version="f" * 64))
    store.write(untestable(build("4", day=4), "it does not build"))
    (tmp_path / "builds.yaml").write_text("releases: [llama-cpp-python==1]\nwatches: [{name: w}]\n")
    return tmp_path / "reports"


def _run(*arguments: str) -> int:
    app = typer.Typer()
    compare.register(app)
    report.register(app)
    return int(app(list(arguments), standalone_mode=False) or 0)


def test_compare_says_in_words_what_came_and_what_went_news_first(
    reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("compare", "llama-cpp-python==1", "llama-cpp-python-2", "--reports", str(reports)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 findings came and 1 went from llama-cpp-python 1 to llama-cpp-python 2:"
    assert lines[2] == "h: new: UNSOUND (not-in-language)"
    assert "  + after 61: 62" in lines
    assert "g: other findings: UNSOUND (overlong, inside a code point)" in lines
    assert lines[-2:] == ["  + after F0: 86", "  - after F0: 84"]


def test_compare_says_the_same_in_json(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = _run(
        "compare",
        "llama-cpp-python==1",
        "llama-cpp-python==2",
        "--reports",
        str(reports),
        "--json",
        "-",
        "--exit-code",
    )
    assert code == ExitCode.CHANGED
    found = json.loads(capsys.readouterr().out)
    assert (found["old"]["id"], found["new"]["id"]) == ("llama-cpp-python-1", "llama-cpp-python-2")
    assert found["comparable"] is True
    assert found["changes"][0] == {
        "transition": "changed",
        "subject": "g",
        "kind": "UNSOUND",
        "cause": "overlong",
        "mid_code_point": True,
        "added": [{"where": "f0", "detail": "86"}],
        "removed": [{"where": "f0", "detail": "84"}],
        "reason": "",
    }


def test_equal_results_are_no_change(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        _run(
            "compare", "llama-cpp-python==1", "llama-cpp-python==1", "--reports", str(reports), "--exit-code"
        )
        == 0
    )
    assert capsys.readouterr().out.startswith("Nothing changed")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("llama-cpp-python==3", "different versions of the audit"),
        ("llama-cpp-python==4", "it does not build"),
    ],
)
def test_what_cannot_be_compared_is_incomplete_and_says_why(
    reports: Path, capsys: pytest.CaptureFixture[str], other: str, reason: str
) -> None:
    assert _run("compare", "llama-cpp-python==1", other, "--reports", str(reports)) == ExitCode.INCOMPLETE
    out = capsys.readouterr().out
    assert out.startswith("Nothing can be said")
    assert reason in out


def test_a_file_can_be_compared_with_a_stored_result_of_the_same_build(
    reports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.json"
    mine.write_bytes(encode(document(build("1", day=1), grammar("g"), grammar("h"))))
    assert _run("compare", "llama-cpp-python==1", str(mine), "--reports", str(reports)) == 0
    assert capsys.readouterr().out.startswith("0 findings came and 2 went")


def test_a_result_that_is_not_there_is_refused_with_those_that_are(reports: Path) -> None:
    with pytest.raises(UsageError, match=r"llama-cpp-python==9.*llama-cpp-python-1, llama-cpp-python-2"):
        _run("compare", "llama-cpp-python==9", "llama-cpp-python==1", "--reports", str(reports))


def test_report_renders_and_lists_what_changed(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(reports.parent / "builds.yaml")
    assert _run("report", "--config", config, "--reports", str(reports), "--list") == 0
    listed = capsys.readouterr().out.splitlines()
    assert str(reports / "README.md") in listed
    assert all(Path(line).exists() for line in listed)
    assert _run("report", "--config", config, "--reports", str(reports), "--list") == 0
    assert capsys.readouterr().out == ""


def test_report_without_results_is_incomplete(tmp_path: Path) -> None:
    (tmp_path / "builds.yaml").write_text("releases: [llama-cpp-python==1]\n")
    with pytest.raises(TrackerError, match="no results") as caught:
        _run("report", "--config", str(tmp_path / "builds.yaml"), "--reports", str(tmp_path))
    assert caught.value.exit_code is ExitCode.INCOMPLETE


def test_report_names_a_file_that_cannot_be_read(reports: Path) -> None:
    bad = reports / "data" / "llama-cpp-python-2" / "grammar.json"
    bad.write_bytes(bad.read_bytes()[:100])
    with pytest.raises(TrackerError, match=r"llama-cpp-python-2/grammar\.json: .*corrupt"):
        _run("report", "--config", str(reports.parent / "builds.yaml"), "--reports", str(reports))


def test_report_with_a_wrong_configuration_is_a_usage_error(reports: Path) -> None:
    (reports.parent / "builds.yaml").write_text("releases: []\n")
    with pytest.raises(ConfigError):
        _run("report", "--config", str(reports.parent / "builds.yaml"), "--reports", str(reports))
