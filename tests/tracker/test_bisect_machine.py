"""A search on a machine that fails: it stops, blames no release, and goes on where it was."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from repositories import Repository
from test_bisect_session import Heard, releases
from test_build import CMAKE_LISTS, HEADER, LIBRARY

from tracker.bisect.looks import Log, Look
from tracker.bisect.session import Session
from tracker.cache import Cache
from tracker.cli import bisect, run
from tracker.errors import ExitCode
from tracker.releases import Release
from tracker.releases.channels import list_range

KILLED = "c++: fatal error: Killed signal terminated program cc1plus"


@dataclass(frozen=True)
class Project:
    """A repository of a small library; ``failing`` is a file that breaks every build while it is there."""

    repository: Repository
    commits: Sequence[str]
    failing: Path

    def asked(self) -> list[str]:
        url = self.repository.url
        ends = ["--good", f"git+{url}@{self.commits[0]}", "--bad", f"git+{url}@{self.commits[-1]}"]
        return ["bisect", *ends, "--probe", "! grep -q bad $LLAMA_TRACKER_TREE/src/llama.c"]

    def answer(self) -> str:
        return f"bad since {self.commits[2][:12]}; good up to {self.commits[1][:12]}."


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("LLAMA_TRACKER_CACHE", str(tmp_path / "cache"))
    # Its server would outlive the test's folder.
    monkeypatch.setenv("LLAMA_TRACKER_COMPILER_CACHE", "none")
    failing = tmp_path / "failing"
    lists = CMAKE_LISTS.replace("{counter}", str(tmp_path / "counter"))
    lists += f'if(EXISTS "{failing}")\nmessage(FATAL_ERROR "{KILLED}")\nendif()\n'
    repository = Repository(tmp_path / "repository")
    tree = {
        "CMakeLists.txt": lists.encode(),
        "include/llama.h": HEADER.encode(),
        "ggml/src/ggml.c": b"int base(void) { return 41; }\n",
    }
    texts = [
        LIBRARY + f"// {comment}\n" for comment in ("one", "two", "bad", "bad, still", "bad, at the end")
    ]
    commits = [repository.commit({**tree, "src/llama.c": text.encode()}) for text in texts]
    return Project(repository, commits, failing)


def seen(project: Project) -> str:
    return "".join(path.read_text() for path in Cache.default().folder("bisect").iterdir())


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_killed_compiler_stops_the_search_and_the_same_command_goes_on(
    project: Project, capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    project.failing.touch()
    assert run([*project.asked(), "--jobs", jobs, "--quiet"]) == ExitCode.INCOMPLETE
    printed = capsys.readouterr()
    assert printed.out == "" and len(printed.err.strip().splitlines()) == 1
    assert KILLED in printed.err and "this machine is to blame" in printed.err
    assert seen(project) == ""
    project.failing.unlink()
    assert run([*project.asked(), "--jobs", jobs, "--quiet"]) == ExitCode.OK
    assert capsys.readouterr().out.startswith(project.answer())


def test_a_lost_network_stops_the_search_and_the_same_command_goes_on(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away = project.repository.folder.with_name("away")

    def listed(good: Release, bad: Release, cache: Cache) -> Sequence[Release]:
        found = list_range(good, bad, cache)
        project.repository.folder.rename(away)
        return found

    with monkeypatch.context() as lost:
        lost.setattr(bisect, "list_range", listed)
        assert run([*project.asked(), "--quiet"]) == ExitCode.INCOMPLETE
    printed = capsys.readouterr()
    assert printed.out == "" and len(printed.err.strip().splitlines()) == 1
    assert "check the URL and the network" in printed.err
    assert seen(project) == ""
    away.rename(project.repository.folder)
    assert run([*project.asked(), "--quiet"]) == ExitCode.OK
    assert capsys.readouterr().out.startswith(project.answer())


def test_a_full_disk_stops_the_search(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tracker.bisect.looks.fetch", full)
    assert run([*project.asked(), "--quiet"]) == ExitCode.INCOMPLETE
    assert capsys.readouterr().err == (
        "llama-tracker: /full: No space left on device: make room or give another place\n"
    )
    assert seen(project) == ""


@dataclass(frozen=True)
class OnFullDisk:
    def __call__(self, release: Release) -> Look:
        return full()


def full(*_: object) -> Look:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_full_disk_in_a_process_that_looks_ahead_is_told_as_one(tmp_path: Path, jobs: int) -> None:
    with pytest.raises(OSError, match="No space left") as raised:
        Session(releases(5), OnFullDisk(), Log(tmp_path / "log.jsonl"), Heard(), jobs=jobs).run()
    assert raised.value.errno == errno.ENOSPC
