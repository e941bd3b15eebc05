"""``llama-tracker gguf``: what it refuses, and what it prints and writes of real builds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from tracker.audits.gguf.saved import load_files
from tracker.build import Build
from tracker.cli.gguf import register
from tracker.errors import ExitCode, UsageError
from tracker.results.gguf import GgufDocument


def run(*arguments: str) -> int:
    app = typer.Typer()
    register(app)
    app.callback()(lambda: None)
    code: int = app(["gguf", *arguments], standalone_mode=False)
    return code


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--whole", "llama-cpp-python==0.3.36"],
        ["--fuzz", "quick", "llama-cpp-python==0.3.36"],
        ["--fuzz", "full", "--sanitize"],
        ["no release"],
    ],
)
def test_contradictions_are_refused_in_one_line(arguments: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        run(*arguments)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.extended
def test_a_release_is_audited_printed_and_written(
    build_0_3_36: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, saved = tmp_path / "document.json", tmp_path / "files.yaml"
    release = "llama-cpp-python==0.3.36"
    assert run(release, "--json", str(target), "--save", str(saved), "--exit-code") == ExitCode.CHANGED
    document = GgufDocument.model_validate(json.loads(target.read_text()))
    assert document.build.id == build_0_3_36.id
    assert document.trustworthy
    assert len(load_files(saved)) == sum(len(result.deviations) for result in document.readers)
    printed = capsys.readouterr().out
    assert "GGML_ASSERT(id_to_token.size() == token_to_id.size()) failed" in printed
    assert "vocabulary/directory" in printed
