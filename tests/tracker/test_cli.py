from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracker import __version__
from tracker.cli import run
from tracker.errors import ExitCode

COMMANDS = (
    ("audit",), ("run",), ("check",), ("control",), ("sampler",), ("gguf",), ("bisect",), ("try",),
    ("compare",), ("report",), ("notify",), ("plan",), ("merge",),
    ("builds", "list"), ("builds", "fetch"), ("builds", "build"), ("builds", "prune"),
)  # fmt: skip
ROOT = Path(__file__).parents[2]
RELEASE = "llama-cpp-python==0.3.36"
MINIMAL = 'root ::= ("\\u4e16" | "\\U0001F600")\n'


@pytest.fixture
def grammar(tmp_path: Path) -> Path:
    path = tmp_path / "my.gbnf"
    path.write_text(MINIMAL)
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--help"]) == ExitCode.OK
    assert "Example" in capsys.readouterr().out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == ExitCode.OK
    assert capsys.readouterr().out.strip() == f"llama-tracker {__version__}"


def test_a_request_to_terminate_is_said_and_has_its_exit_code() -> None:
    stopped = (
        "import os, signal, tracker.cli as cli; "
        "cli.run = lambda _: os.kill(os.getpid(), signal.SIGTERM); cli.main([])"
    )
    done = subprocess.run([sys.executable, "-c", stopped], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr.strip().endswith("run it again to go on")


def test_a_closed_standard_stream_is_opened_on_nothing() -> None:
    # Otherwise a pipe to a child gets its number, and the child's start looks like a crash.
    asked = "import os, tracker.cli as cli; cli.run = lambda _: os.pipe()[0]; cli.main([])"  # its exit code
    done = subprocess.run(f"'{sys.executable}' -c \"{asked}\" <&- >&-", shell=True, cwd=ROOT)
    assert done.returncode > 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--json", "/dev/full"], "--json /dev/full: cannot be written"),
        (["--log", "/"], "--log /: cannot be written"),
        (["--report", "/nowhere/x"], "--report /nowhere/x: cannot be written"),
        (["--report", "same", "--json", "same"], "--report same: is the file of --json as well"),
    ],
)
def test_targets_of_a_bisect_are_looked_at_before_anything_else(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = ["bisect", "--good", "llama-cpp-python==0.3.16", "--bad", RELEASE, "--probe", "true"]
    assert run([*ends, *arguments]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_a_device_without_an_end_is_no_grammar(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "/dev/zero", "--release", RELEASE]) == ExitCode.USAGE
    assert "/dev/zero: is larger than 16 MiB" in capsys.readouterr().err


def test_a_file_where_the_cache_should_be_is_no_bug(
    grammar: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LLAMA_TRACKER_CACHE", str(grammar))
    assert run(["builds", "list"]) == ExitCode.INCOMPLETE
    assert "Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit", RELEASE, "--grammar", "no-such-grammar"], "no-such-grammar"),
        (["audit", RELEASE, "--vocabulary", "gpt5"], "gpt5"),
        (["frobnicate"], "frobnicate"),
        (["audit"], "release"),
        (["audit", "llama.cpp"], "llama-cpp-python==VERSION"),
        (["audit", "path:/does/not/exist"], "/does/not/exist"),
        (
            ["bisect", "--good", "installed", "--bad", RELEASE, "--probe", "true"],
            "only what asks one build takes it",
        ),
        (["check", "/does/not/exist.gbnf"], "/does/not/exist.gbnf"),
        (["run", "--config", "/does/not/exist.yaml"], "/does/not/exist.yaml"),
        (["builds", "list", "debian"], "llama-cpp-python"),
        (["audit", RELEASE, "--jobs", "0"], "--jobs"),
        (["audit", RELEASE, "--corpus", "/does/not/exist", "--grammar", "x"], "corpus.yaml"),
    ],
)
def test_a_mistake_is_one_line_and_a_code(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*arguments, "--quiet"] if len(arguments) > 1 else arguments)
    printed = capsys.readouterr()
    assert code in (ExitCode.USAGE, ExitCode.INCOMPLETE)
    assert printed.out == ""
    assert said in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert "Traceback" not in printed.err


def test_hex_that_is_none_is_a_usage_error(grammar: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(grammar), "--at", "f"]) == ExitCode.USAGE
    assert "two digits a byte" in capsys.readouterr().err


def test_a_bug_is_told_apart_from_bad_input(
    grammar: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("tracker.cli.check.prepare_build", broken)
    assert run(["check", str(grammar)]) == ExitCode.INTERNAL
    assert "a bug in the program: ZeroDivisionError: boom" in capsys.readouterr().err


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run([*arguments, "--json", "-", "--quiet"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.build
def test_one_state_as_json_has_the_documented_keys(
    grammar: Path, build_0_3_36: object, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = document(capsys, "check", str(grammar), "--release", RELEASE, "--at", "f0")
    assert code == ExitCode.OK
    assert answer["prefix"] == "f0"
    assert answer["oracle"] == {"tokens": 1, "eos": False, "next_bytes": ["9f"]}
    assert answer["build"] == {"tokens": 2, "eos": False, "next_bytes": ["84", "9f"]}
    assert (answer["unsound"], answer["over_restrictive"], answer["viable"]) == (["84"], [], True)


@pytest.mark.build
def test_an_output_that_no_string_begins_with_is_not_viable(
    grammar: Path, build_0_3_36: object, capsys: pytest.CaptureFixture[str]
) -> None:
    _, answer = document(capsys, "check", str(grammar), "--release", RELEASE, "--at", "F084B896")
    assert answer["viable"] is False
    assert (answer["oracle"]["eos"], answer["build"]["eos"]) == (False, True)


@pytest.mark.build
def test_a_grammar_as_json_is_the_result_document(
    grammar: Path, build_0_3_36: object, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = document(capsys, "check", str(grammar), "--release", RELEASE, "--exit-code")
    assert code == ExitCode.CHANGED
    (only,) = result["grammars"]
    assert only["exhaustive"] is True
    assert only["states"] == 7
    assert only["totals"] == {"EOS_UNSOUND": {"overlong": 1}, "UNSOUND": {"overlong": 1}}
    unsound = next(d for d in only["deviations"] if d["kind"] == "UNSOUND")
    assert (unsound["cause"], unsound["prefix"], unsound["tokens"]) == ("overlong", "f0", ["84"])
    assert unsound["escape"]["outcome"] == "end-of-generation"


@pytest.mark.build
def test_a_grammar_in_words_says_yes_or_no(
    tmp_path: Path, grammar: Path, build_0_3_36: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", str(grammar), "--release", RELEASE, "--quiet"]) == ExitCode.OK
    assert capsys.readouterr().out.startswith("Yes. On llama-cpp-python-0.3.36")
    good = tmp_path / "good.gbnf"
    good.write_text("root ::= [a-z]+\n")
    assert run(["check", str(good), "--release", RELEASE, "--exit-code", "--quiet"]) == ExitCode.OK
    assert capsys.readouterr().out.startswith("No. On llama-cpp-python-0.3.36")


@pytest.mark.build
@pytest.mark.parametrize("at", [[], ["--at", "61"]], ids=["whole", "one state"])
def test_a_text_that_is_no_grammar_is_said_with_its_file_and_place(
    tmp_path: Path, build_0_3_36: object, capsys: pytest.CaptureFixture[str], at: list[str]
) -> None:
    bad = tmp_path / "bad.gbnf"
    bad.write_text('root ::= "a" nothing\n')
    assert run(["check", str(bad), "--release", RELEASE, "--quiet", *at]) == ExitCode.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{bad}: " in printed.err
    assert "line 1, column 14: rule 'nothing' is not defined" in printed.err
    assert len(printed.err.strip().splitlines()) == 1


@pytest.mark.build
def test_an_audit_can_be_narrowed_and_says_which_names_there_are(
    build_0_3_36: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", RELEASE, "--grammar", "nosuch", "--quiet"]) == ExitCode.USAGE
    assert "ascii-repetition" in capsys.readouterr().err
