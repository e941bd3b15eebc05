"""``llama-tracker bisect`` from end to end, over small repositories and with looks that need no compiler."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from repositories import Repository

from tracker import libllama
from tracker.bisect.looks import Look
from tracker.bisect.questions import Command, Question
from tracker.bisect.search import Verdict
from tracker.cache import Cache
from tracker.cli import bisect, run
from tracker.errors import ExitCode
from tracker.libllama import handlers
from tracker.releases import Release
from tracker.releases.channels import fetch

TREE = {"CMakeLists.txt": b"", "include/llama.h": b""}


@dataclass(frozen=True)
class ReadsTheSource:
    """A look that asks the source tree: what src/verdict.txt says."""

    question: Question
    cache: Cache
    jobs: int
    retry: bool = False

    def __call__(self, release: Release) -> Look:
        source = fetch(release, self.cache)
        verdict = Verdict((source.tree / "src" / "verdict.txt").read_text())
        return Look(
            release=str(release),
            verdict=verdict,
            commit=source.release.commit,
            build_number=source.release.build_number,
            seconds=0.01,
        )


@dataclass(frozen=True)
class History:
    url: str
    commits: tuple[str, ...]

    def ends(self) -> list[str]:
        return [
            "--good",
            f"git+{self.url}@{self.commits[0]}",
            "--bad",
            f"git+{self.url}@{self.commits[-1]}",
        ]


def history(folder: Path, verdicts: str) -> History:
    """One commit a letter: a, p or u."""
    words = {"a": b"absent", "p": b"present", "u": b"untestable"}
    repository = Repository(folder)
    commits = [
        repository.commit({**TREE, "src/verdict.txt": words[letter], "src/number": str(i).encode()})
        for i, letter in enumerate(verdicts)
    ]
    return History(repository.url, tuple(commits))


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLAMA_TRACKER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bisect, "BuildAndAsk", ReadsTheSource)


def test_a_range_of_commits_is_answered_with_page_document_and_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = history(tmp_path / "repository", "aaauuppp")
    page, log = tmp_path / "a.md", tmp_path / "a.log"
    asked = ["bisect", *made.ends(), "--probe", "true", "--report", str(page), "--log", str(log)]
    assert run([*asked, "--json", "-"]) == ExitCode.OK
    out = capsys.readouterr()
    answer = json.loads(out.out)["searches"][0]
    assert answer["last_before"]["commit"] == made.commits[2]
    assert answer["first_after"]["commit"] == made.commits[5]
    assert len(answer["untestable"]) == 2
    assert made.commits[2][:12] in page.read_text()
    steps = [line for line in log.read_text().splitlines() if "looking (about" in line]
    assert len(steps) == len(answer["steps"])
    assert "looking (about" in out.err


def test_the_same_command_again_asks_nothing_that_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = history(tmp_path / "repository", "aapppppp")
    asked = ["bisect", *made.ends(), "--probe", "true"]
    assert run(asked) == ExitCode.OK
    assert "looking (about" in capsys.readouterr().err
    assert run(asked) == ExitCode.OK
    again = capsys.readouterr()
    assert "looking (about" not in again.err
    assert "seen earlier" in again.err
    assert f"since {made.commits[2][:12]}" in again.out
    assert run([*asked, "--fresh"]) == ExitCode.OK
    assert "looking (about" in capsys.readouterr().err


def test_with_another_compiler_or_another_client_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = history(tmp_path / "repository", "ap")
    asked = ["bisect", *made.ends(), "--probe", "true"]
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho cc of tomorrow\n")
    compiler.chmod(0o755)

    def looks() -> int:
        assert run(asked) == ExitCode.OK
        return capsys.readouterr().err.count("looking (about")

    assert [looks(), looks()] == [2, 0]
    monkeypatch.setenv("CC", str(compiler))
    assert [looks(), looks()] == [2, 0]
    client = tmp_path / "client"
    shutil.copytree(Path(libllama.__file__).parent, client)
    monkeypatch.setattr(libllama, "__file__", str(client / "__init__.py"))
    assert [looks(), looks()] == [0, 0]
    with open(client / "worker.py", "a") as file:
        file.write("# another version\n")
    assert [looks(), looks()] == [2, 0]
    monkeypatch.delenv("CC")
    (client / "worker.py").write_bytes((Path(handlers.__file__).parents[1] / "worker.py").read_bytes())
    assert looks() == 0


def test_the_answer_does_not_depend_on_which_end_is_called_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = history(tmp_path / "repository", "ppaaa")
    good, bad = made.ends()[1], made.ends()[3]
    for first, second in ((good, bad), (bad, good)):
        assert run(["bisect", "--good", first, "--bad", second, "--probe", "true", "--quiet"]) == ExitCode.OK
        out = capsys.readouterr()
        assert f"good since {made.commits[2][:12]}; bad up to {made.commits[1][:12]}." in out.out
        assert out.err == ""


@pytest.mark.parametrize("verdicts", ["aaa", "paap", "uap", "apu"])
def test_a_range_without_an_answer_is_incomplete(
    tmp_path: Path, verdicts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = history(tmp_path / "repository", verdicts)
    assert run(["bisect", *made.ends(), "--probe", "true"]) == ExitCode.INCOMPLETE
    assert "end" in capsys.readouterr().out


def test_looking_at_two_at_once_gives_the_same_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = history(tmp_path / "repository", "aaaappp")
    assert run(["bisect", *made.ends(), "--probe", "true", "--jobs", "2"]) == ExitCode.OK
    assert f"bad since {made.commits[4][:12]}; good up to {made.commits[3][:12]}." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "ask one thing"),
        (["--probe", "true", "--watch", "w"], "ask one thing"),
        (["--probe", "true", "--kind", "UNSOUND"], "go with --grammar"),
        (["--probe", "true", "--at", "f0"], "go with --grammar"),
        (["--probe", "true", "--probe-seconds", "0"], "--probe-seconds"),
        (["--grammar", "g.gbnf", "--probe-seconds", "9"], "goes with --probe"),
        (["--probe", "true", "--git", "https://example.org/x"], "--git goes with"),
        (["--grammar", "g.gbnf", "--kind", "WRONG"], "WRONG"),
        (["--grammar", "none.gbnf", "--accepts"], "none.gbnf"),
        (["--grammar", "g.gbnf", "--accepts", "--at", "f0"], "--accepts asks for no deviation"),
        (["--grammar", "g.gbnf", "--at", "f0 8"], "not hexadecimal"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    complaint: str,
) -> None:
    made = history(tmp_path / "repository", "ap")
    monkeypatch.chdir(tmp_path)
    Path("g.gbnf").write_text('root ::= "a"\n')
    assert run(["bisect", *made.ends(), *arguments]) == ExitCode.USAGE
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert complaint in lines[0]


def test_a_command_may_take_as_long_as_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Question] = []

    def looking(question: Question, *rest: Any) -> ReadsTheSource:
        asked.append(question)
        return ReadsTheSource(question, *rest)

    monkeypatch.setattr(bisect, "BuildAndAsk", looking)
    made = history(tmp_path / "repository", "ap")
    for more in ([], ["--probe-seconds", "7200"]):
        assert run(["bisect", *made.ends(), "--probe", "true", *more]) == ExitCode.OK
    assert [question.seconds for question in asked if isinstance(question, Command)] == [600, 7200]


def test_a_range_of_one_commit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = history(tmp_path / "repository", "a")
    assert run(["bisect", *made.ends(), "--probe", "true"]) == ExitCode.USAGE
    assert "have to differ" in capsys.readouterr().err
