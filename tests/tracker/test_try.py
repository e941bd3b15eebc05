"""``llama-tracker try`` from end to end: what is refused before anything is built, and what a patch does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tracker.build import Build
from tracker.cli import run, try_patch
from tracker.errors import ExitCode
from tracker.results import GrammarDocument
from tracker.trial import Trial, hold_against

RELEASE = "llama-cpp-python==0.3.36"
FIX = Path(__file__).parents[2] / "patches" / "grammar-well-formed-utf8.patch"
COMMENT = """--- a/src/llama-grammar.cpp
+++ b/src/llama-grammar.cpp
@@ -1,1 +1,2 @@
+// a comment
 {first}
"""
MENDED = {"overlong", "surrogate", "beyond-unicode", "invalid-lead", "negated-partial"}


@pytest.fixture
def nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object, **__: object) -> None:
        raise AssertionError("something was built")

    monkeypatch.setattr(try_patch, "make_build", build)


def patch(folder: Path, first: str) -> str:
    path = folder / "comment.patch"
    path.write_text(COMMENT.replace("{first}", first))
    return str(path)


@pytest.mark.build
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["{stale}", RELEASE],
            ExitCode.INCOMPLETE,
            "does not apply to llama-cpp-python-0.3.36: patch failed",
        ),
        (["{none}", RELEASE], ExitCode.USAGE, "no patch in the format of git diff"),
        (["/does/not/exist.patch", RELEASE], ExitCode.USAGE, "/does/not/exist.patch: No such file"),
        ([str(FIX), RELEASE, "--grammar", "nosuch"], ExitCode.USAGE, "grammar 'nosuch': there is none"),
        ([str(FIX), RELEASE, "--vocabulary", "gpt5"], ExitCode.USAGE, "give qwen2.5 or synthetic"),
        ([str(FIX), "llama.cpp"], ExitCode.USAGE, "not understood"),
        ([str(FIX), "path:/does/not/exist"], ExitCode.INCOMPLETE, "no llama.cpp there"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_anything_is_built(
    nothing_is_built: None,
    build_0_3_36: Build,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: ExitCode,
    said: str,
) -> None:
    (tmp_path / "none.patch").write_text("not a patch\n")
    given = {"{stale}": patch(tmp_path, "not the first line"), "{none}": str(tmp_path / "none.patch")}
    assert run(["try", *(given.get(word, word) for word in arguments), "--quiet"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert len(printed.err.strip().splitlines()) == 1


@pytest.mark.build
@pytest.mark.parametrize("vocabulary", ["qwen2.5", "synthetic"])
def test_a_patch_that_changes_nothing_moves_nothing(
    build_0_3_36: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    vocabulary: str,
) -> None:
    # The patched source is real; the build of a comment is taken to be the one without it.
    first = (build_0_3_36.tree / "src" / "llama-grammar.cpp").read_text().splitlines()[0]
    made = []

    def build(source: object, *_: object, **__: object) -> Build:
        made.append(source)
        return build_0_3_36

    monkeypatch.setattr(try_patch, "make_build", build)
    asked = ["try", patch(tmp_path, first), RELEASE, "--states", "5", "--vocabulary", vocabulary]
    asked += ["--grammar", "alternation-three-four", "--grammar", "hidden-left-recursion"]
    assert run(asked) == ExitCode.OK
    out = capsys.readouterr().out
    assert "removes: nothing\nadds: nothing\n" in out
    assert "masks at 5 states: 0 tokens at 0 states were wrong and are right now; 0 were right" in out
    assert "not compared, 1 grammar: hidden-left-recursion (may kill a build; its audit tells)\n" in out
    _, patched = (source.tree for source in made)  # type: ignore[attr-defined]
    assert (patched / "src" / "llama-grammar.cpp").read_text().startswith("// a comment\n" + first)


@pytest.mark.extended
@pytest.mark.timeout(3600)
def test_the_fix_leaves_none_of_its_causes_anywhere_in_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials: list[Trial] = []

    def seen(*arguments: Any) -> Trial:
        trials.append(hold_against(*arguments))
        return trials[-1]

    monkeypatch.setattr(try_patch, "hold_against", seen)
    report = tmp_path / "trial.json"
    assert run(["try", str(FIX), RELEASE, "--json", str(report)]) == ExitCode.OK
    trial = json.loads(report.read_text())
    assert trial["trustworthy"] and trial["incomparable"] == []
    assert {item["cause"] for item in trial["removed"]} == MENDED and trial["added"] == []
    before, after = causes(trials[0].before), causes(trials[0].after)
    assert before >= MENDED and not after & MENDED
    assert trial["masks"]["worse"] == [] and trial["masks"]["better"] > 0


def causes(document: GrammarDocument) -> set[str]:
    assert len(document.grammars) > 40 and all(g.status == "complete" for g in document.grammars)
    return {str(found.cause) for grammar in document.grammars for found in grammar.deviations}
