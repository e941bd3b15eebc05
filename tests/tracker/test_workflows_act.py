"""The nightly workflow, run by the real act on a real git repository, each night leaving the right state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import builders
import pytest
from github_server import GitHubServer
from nights import REPOSITORY, ROOT, STORY, TOKEN, Nights, tell

from tracker.results import AuditName
from tracker.store import Store

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1200)]


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    with GitHubServer(REPOSITORY) as server:
        yield server
        assert server.violations == []


@pytest.fixture
def nights(tmp_path: Path, server: GitHubServer) -> Nights:
    return Nights(tmp_path, server)


def test_a_schedule_audits_commits_and_tells(nights: Nights, server: GitHubServer) -> None:
    nights.release(*STORY[0][1])
    night = nights.live()
    assert night.code == 0, night.log
    assert night.jobs == {
        "Plan": "succeeded",
        "Audit llama-cpp-python-0.3.35": "succeeded",
        "Audit llama-cpp-python-0.3.36": "succeeded",
        "Publish": "succeeded",
    }
    assert nights.committed() == ["Reports of the night", "Begin"]
    checkout = nights.pull()
    assert (checkout / "reports" / "README.md").is_file()
    assert [key.build_id for key in Store(checkout / "reports" / "data").keys()] == [
        "llama-cpp-python-0.3.35",
        "llama-cpp-python-0.3.36",
    ]
    assert [issue["state"] for issue in server.issues.values()] == ["open"]
    assert TOKEN not in night.log

    again = nights.live()
    assert again.code == 0, again.log
    assert again.jobs == {"Plan": "succeeded", "Publish": "succeeded"}
    assert [call for call in again.calls if call.method != "GET"] == []
    assert nights.committed()[0] == "Reports of the night"


def test_a_failed_audit_still_lets_the_others_be_told(nights: Nights, server: GitHubServer) -> None:
    nights.release(*STORY[0][1], *STORY[3][1])
    night = nights.live()
    assert night.code != 0
    assert night.jobs["Audit llama-cpp-python-0.3.38"] == "failed"
    assert night.jobs["Audit llama-cpp-python-0.3.36"] == "succeeded"
    assert "Newer, but not testable" in server.issues[1]["body"]
    assert len(nights.committed()) == 2


def test_a_hostile_result_is_refused_and_the_others_are_told(nights: Nights, server: GitHubServer) -> None:
    nights.release(*STORY[0][1])
    nights.release(builders.document(builders.build("0.3.37", day=30), builders.grammar("a")))
    path = nights.documents.path("llama-cpp-python-0.3.37", AuditName.GRAMMAR)
    raw = json.loads(path.read_text())
    raw["grammars"][0]["name"] = "../../../.github/workflows/nightly.yml"
    path.write_text(json.dumps(raw))
    night = nights.live()
    assert night.jobs["Publish"] == "failed"
    assert "was refused" in server.issues[2]["body"]
    assert [key.build_id for key in Store(nights.pull() / "reports" / "data").keys()] == [
        "llama-cpp-python-0.3.35",
        "llama-cpp-python-0.3.36",
    ]


def test_the_six_nights_of_the_documentation_are_these(tmp_path: Path) -> None:
    assert tell(tmp_path) == (ROOT / "docs" / "six-nights.md").read_text()
