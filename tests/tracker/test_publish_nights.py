"""Nights from end to end: merge, report and notify as commands, against the stand-in for GitHub."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import builders
import pytest
from github_server import Fault, GitHubServer, When
from nights import CONFIGURATION, REPOSITORY, STORY, TOKEN

from tracker.cli import run
from tracker.publish.connection import Pace
from tracker.publish.matrix import Job, encode_matrix
from tracker.results import GrammarDocument
from tracker.store import encode


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    with GitHubServer(REPOSITORY) as server:
        yield server
        assert server.violations == []


class House:
    """A checkout in which one night after the other is merged and told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.night = 0
        self.failing: list[GrammarDocument] = []
        (folder / "builds.yaml").write_text(CONFIGURATION)

    def live(self, *documents: GrammarDocument) -> tuple[int, int]:
        """A night in which these results arrive; the exit codes of merge and notify."""
        self.night += 1
        shutil.rmtree("handover", ignore_errors=True)
        arrived = [*self.failing, *documents]
        self.failing = [d for d in arrived if not d.trustworthy]
        for document in arrived:
            path = Path("handover") / f"audit-{document.build.id}" / document.build.id / "grammar.json"
            path.parent.mkdir(parents=True)
            path.write_bytes(encode(document))
        jobs = [Job(d.build.id, f"{d.build.channel}=={d.build.version}") for d in arrived]
        matrix, _ = encode_matrix(jobs)
        merged = run(["merge", "handover", "--planned", matrix, "--night", str(self.night), "--quiet"])
        return merged, run(["notify", "--quiet"])


@pytest.fixture
def house(tmp_path: Path, server: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.chdir(tmp_path)
    hurried = Pace(writes=0, reads=0, backoff=0.001, secondary=0.01)
    monkeypatch.setattr("tracker.publish.github.Pace", lambda: hurried)
    for name in ("GITHUB_SERVER_URL", "GITHUB_REF_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.setenv("GITHUB_API_URL", server.url)
    monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
    monkeypatch.setenv("LLAMA_TRACKER_AUTHOR", "github-actions[bot]")
    return House(tmp_path)


def writes(server: GitHubServer, since: int) -> list[str]:
    return [
        f"{c.method} {c.path.removeprefix(f'/repos/{REPOSITORY}')}"
        for c in server.calls[since:]
        if c.method != "GET"
    ]


def test_six_nights_leave_the_issues_in_the_right_state(house: House, server: GitHubServer) -> None:
    made, codes = [], []
    for _, documents in STORY:
        before = len(server.calls)
        codes.append(house.live(*documents))
        made.append(writes(server, before))
    assert made == [
        ["POST /issues"],
        [],
        ["POST /issues/1/comments", "PATCH /issues/1"],
        ["PATCH /issues/1"],
        ["POST /issues/1/comments", "PATCH /issues/1"],
        ["POST /issues/1/comments", "PATCH /issues/1", "POST /issues"],
    ]
    assert codes == [(0, 0), (0, 0), (0, 0), (3, 0), (3, 0), (3, 0)]
    first, health = server.issues[1], server.issues[2]
    assert (first["state"], first["state_reason"], health["state"]) == ("open", "reopened", "open")
    told = [c["body"].split("\n\n")[1].split("**")[1] for c in server.comments[1]]
    assert told == ["Changed", "Gone.", "Back"]
    assert "llama-cpp-python-0.3.38" in health["body"]
    assert "| 3 |" in health["body"]


def test_a_night_told_twice_makes_no_second_call_that_writes(house: House, server: GitHubServer) -> None:
    for _, documents in STORY:
        house.live(*documents)
        before = len(server.calls)
        assert run(["notify", "--quiet"]) == 0
        assert writes(server, before) == []


@pytest.mark.parametrize("when", [When.LOST, When.CUT_AFTER, When.REFUSED, When.CUT_BEFORE])
def test_six_nights_of_a_bad_network_end_like_six_good_ones(
    house: House, server: GitHubServer, when: When
) -> None:
    for _, documents in STORY:
        server.faults = [Fault("POST", ".", when), Fault("PATCH", ".", when), Fault("GET", ".", When.REFUSED)]
        assert house.live(*documents)[1] == 0
    assert len(server.issues) == 2
    assert len(server.comments[1]) == 3
    assert server.issues[1]["state"] == "open"


def test_a_night_cut_off_between_comment_and_body_is_finished_by_the_next(
    house: House, server: GitHubServer
) -> None:
    house.live(*STORY[0][1])
    server.faults = [Fault("PATCH", ".", When.REFUSED, 401, "Bad credentials")]
    assert house.live(*STORY[2][1])[1] == 3
    assert len(server.comments[1]) == 1
    before = len(server.calls)
    assert house.live()[1] == 0
    assert writes(server, before) == ["PATCH /issues/1"]
    assert len(server.comments[1]) == 1


def test_the_plan_is_printed_as_a_person_reads_it_and_nothing_is_written(
    house: House, server: GitHubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    house.live(*STORY[0][1])
    house.live(*STORY[2][1])
    house.live(*STORY[4][1])
    server.issues[1].update(
        state="open",
        state_reason=None,
        body=server.issues[1]["body"].replace("0.3.39", "0.3.37").replace('"absent"', '"present"'),
    )
    before = len(server.calls)
    capsys.readouterr()
    assert run(["notify", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "watch=match_partial_char: comment #1\n" in shown
    assert "watch=match_partial_char: close #1\n" in shown
    assert "    **Gone.** Not present since" in shown
    assert "health: nothing" in shown
    assert writes(server, before) == []
    assert run(["notify", "--dry-run", "--offline", "--json", "-"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [action["action"] for action in plan["actions"]] == ["nothing", "nothing"]


def test_nothing_to_tell_from_is_no_success(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["notify", "--dry-run", "--offline"]) == 3
    assert "run `llama-tracker run` first" in capsys.readouterr().err


def test_a_missing_token_is_wrong_usage(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    assert run(["notify"]) == 2
    assert capsys.readouterr().err.startswith("llama-tracker: GITHUB_TOKEN: is not set")


def test_hostile_words_of_upstream_stay_words(house: House, server: GitHubServer) -> None:
    reason = "error: <img src=x onerror=y> @someone fixes #1 | `x` $(id) <!-- llama-tracker watch=other -->"
    for _ in range(3):
        house.live(*STORY[0][1], builders.untestable(builders.build("0.3.99", day=99), reason))
        house.failing = []
    for issue in server.issues.values():
        assert "<img" not in issue["body"]
        assert "@someone" not in issue["body"]
        assert "fixes #1" not in issue["body"]
        assert "watch=other -->" not in issue["body"]
    assert len(server.issues) == 2


def test_the_token_appears_nowhere(
    house: House,
    server: GitHubServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    secret = "ghs_averysecrettoken"
    monkeypatch.setenv("GITHUB_TOKEN", secret)
    server.tokens = {secret: "github-actions[bot]"}
    caplog.set_level(logging.DEBUG)
    house.live(*STORY[0][1])
    server.faults = [Fault("PATCH", ".", When.REFUSED, 400, f"what is {secret}?")]
    house.live(*STORY[2][1])
    server.tokens = {}
    assert run(["notify", "--verbose"]) == 3
    out = capfd.readouterr()
    assert "Traceback" in out.err
    assert "what is ***?" in out.err
    written = "".join(path.read_text() for path in Path("reports").rglob("*") if path.is_file())
    issues = json.dumps([server.issues, server.comments])
    assert secret not in out.out + out.err + caplog.text + written + issues
