"""``llama-tracker run`` as a user has it: resumed, killed, failing in parts, and never empty."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tracker.build import Build, BuildError
from tracker.cache import Cache
from tracker.cli import run
from tracker.errors import ExitCode
from tracker.results import AuditName
from tracker.store import Store

pytestmark = pytest.mark.build

CONFIG = """\
vocabulary: qwen2.5
releases:
  - release: llama-cpp-python==0.3.36
    grammars: [ascii-repetition, alternation-three-four, euro-repetition]
watches:
  - name: match_partial_char
    mid_code_point: true
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "builds.yaml").write_text(CONFIG)
    corpus = Path(__file__).parents[2] / "grammars"
    (tmp_path / "grammars").symlink_to(corpus)
    return tmp_path


def arguments(folder: Path, *more: str) -> list[str]:
    return ["run", *more, "--config", str(folder / "builds.yaml"), "--reports", str(folder / "reports")]


def test_a_run_writes_result_and_pages_and_a_second_one_has_nothing_to_do(
    folder: Path, build_0_3_36: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments(folder)) == ExitCode.OK
    first = {p: p.read_bytes() for p in (folder / "reports").rglob("*") if p.is_file()}
    result = folder / "reports" / "data" / "llama-cpp-python-0.3.36" / "grammar.json"
    assert result in first
    assert folder / "reports" / "README.md" in first
    assert "present" in capsys.readouterr().out
    assert run(arguments(folder)) == ExitCode.OK
    assert "current" in capsys.readouterr().out
    assert {p: p.read_bytes() for p in (folder / "reports").rglob("*") if p.is_file()} == first
    # What was measured anew is the same bytes; only the uncommitted facts of the run may differ.
    assert run(arguments(folder, "--force")) == ExitCode.OK
    facts = folder / "reports" / "run-facts.json"
    again = {p: p.read_bytes() for p in (folder / "reports").rglob("*") if p.is_file() and p != facts}
    assert again == {p: content for p, content in first.items() if p != facts}


def test_results_and_pages_hold_no_path_host_or_time(folder: Path, build_0_3_36: Build) -> None:
    assert run(arguments(folder, "--quiet")) == ExitCode.OK
    forbidden = [str(folder), os.uname().nodename, str(Path.home()), time.strftime("%H:%M")]
    for path in (folder / "reports").rglob("*"):
        if path.is_file() and path.name != "run-facts.json":
            text = path.read_text()
            assert not [word for word in forbidden if word in text], path


def test_nothing_audited_is_not_green(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(arguments(folder, "path:/does/not/exist"))
    assert code == ExitCode.INCOMPLETE
    assert "nothing was audited" in capsys.readouterr().err


@pytest.mark.parametrize("passing", [False, True])
def test_one_failure_does_not_stop_the_others_and_is_stored_unless_this_machine_is_to_blame(
    folder: Path, build_0_3_36: Build, build_0_3_16: Build, monkeypatch: pytest.MonkeyPatch, passing: bool
) -> None:
    (folder / "builds.yaml").write_text(
        CONFIG.replace(
            "releases:\n",
            "releases:\n  - {release: llama-cpp-python==0.3.16, grammars: [ascii-repetition]}\n",
        )
    )
    import tracker.pipeline as pipeline

    make = pipeline.make_build

    def fails_for_0_3_16(source, cache, **more):  # type: ignore[no-untyped-def]
        if source.release.version == "0.3.16":
            reason = "llama-cpp-python-0.3.16: does not build: error: made by a test"
            raise BuildError(reason, passing=passing)
        return make(source, cache, **more)

    monkeypatch.setattr(pipeline, "make_build", fails_for_0_3_16)
    assert run(arguments(folder, "--quiet")) == ExitCode.INCOMPLETE
    store = Store(folder / "reports" / "data")
    assert store.read("llama-cpp-python-0.3.36", AuditName.GRAMMAR).trustworthy
    if passing:
        assert not (folder / "reports" / "data" / "llama-cpp-python-0.3.16").exists()
        return
    failed = store.read("llama-cpp-python-0.3.16", AuditName.GRAMMAR)
    assert (failed.status, failed.reason) == (
        "untestable",
        "llama-cpp-python-0.3.16: does not build: error: made by a test",
    )


@pytest.mark.parametrize("seconds", [0.5, 2.0, 5.0])
def test_a_run_that_was_killed_is_completed_by_the_next_one(
    folder: Path, build_0_3_36: Build, cache: Cache, seconds: float
) -> None:
    command = [sys.executable, "-c", "from tracker.cli import main; main()", *arguments(folder, "--quiet")]
    environment = {**os.environ, "LLAMA_TRACKER_CACHE": str(cache.root)}
    process = subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[2])
    time.sleep(seconds)
    children = _children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for path in (folder / "reports").rglob("*.json"):
        if not path.name.startswith("."):
            json.loads(path.read_text())
    deadline = time.monotonic() + 60
    while any(_alive(child) for child in children):
        assert time.monotonic() < deadline, "a child outlived the run"
        time.sleep(0.1)
    assert run(arguments(folder, "--quiet")) == ExitCode.OK
    assert Store(folder / "reports" / "data").read("llama-cpp-python-0.3.36", AuditName.GRAMMAR).trustworthy
    assert not list((folder / "reports").rglob("*.tmp"))


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
