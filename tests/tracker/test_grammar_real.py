"""The grammar audit on real builds: published figures, known states, deaths, and the same bytes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tracker.audits.grammar.audit import LIMITS, VocabularyFile, audit_build
from tracker.audits.grammar.corpus import CorpusEntry, load_corpus, source_tree_grammars
from tracker.audits.grammar.question import StateAnswer, ask_state
from tracker.build import Build
from tracker.cache import Cache
from tracker.pipeline import load_vocabulary
from tracker.results import Cause, GrammarDocument, Kind
from tracker.store import encode

pytestmark = pytest.mark.build

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "grammar_masks.yaml").read_text())
ENDS_0_3_36 = 6
"""End-of-generation tokens that 0.3.36 takes on this vocabulary."""


@pytest.fixture(scope="module")
def vocabulary(cache: Cache) -> VocabularyFile:
    return load_vocabulary(cache)


def named(*names: str) -> list[CorpusEntry]:
    return [entry for entry in load_corpus() if entry.name in names]


def audited(build: Build, vocabulary: VocabularyFile, *names: str, jobs: int = 2) -> GrammarDocument:
    document, _ = audit_build(build, vocabulary, named(*names), jobs=jobs, known=load_corpus())
    return document


def hex_range(bounds: list[str]) -> list[str]:
    low, high = (int(bound, 16) for bound in bounds)
    return [f"{byte:02x}" for byte in range(low, high + 1)]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['grammar']} after {case['after'] or 'nothing'}"
)
def test_single_states_are_as_known(
    build_0_3_36: Build, vocabulary: VocabularyFile, case: dict[str, Any]
) -> None:
    answer = ask_state(
        case["grammar"],
        build_0_3_36,
        vocabulary,
        output=bytes.fromhex(case["after"]),
        path=None,
        limits=LIMITS,
    )
    check_right(answer, case["right"], len(vocabulary.vocabulary))
    check_build(answer, case.get("build_0_3_36"))


def check_right(answer: StateAnswer, right: dict[str, Any], size: int) -> None:
    assert answer.viable == right.get("viable", True)
    if "tokens" in right:
        assert answer.oracle_tokens == right["tokens"]
    if "tokens_but_ends" in right:
        assert answer.oracle_tokens == size - ENDS_0_3_36 - right["tokens_but_ends"]
    if "eos" in right:
        assert answer.oracle_eos == right["eos"]
    if "next" in right:
        assert list(answer.oracle_next) == right["next"]
    if "next_range" in right:
        assert list(answer.oracle_next) == hex_range(right["next_range"])
    if "no_lead_above" in right:
        assert max(answer.oracle_next) == right["no_lead_above"]


def check_build(answer: StateAnswer, build: dict[str, Any] | None) -> None:
    if build is None:
        assert (answer.unsound, answer.over_restrictive) == ((), ())
        assert answer.build_eos == answer.oracle_eos
        return
    if "tokens" in build:
        assert answer.build_tokens == build["tokens"]
    if "eos" in build:
        assert answer.build_eos == build["eos"]
    if "unsound" in build:
        assert list(answer.unsound) == build["unsound"]
    if "unsound_range" in build:
        assert [token for token in answer.unsound if len(token) == 2] == hex_range(build["unsound_range"])
    if "over_restrictive" in build:
        assert set(build["over_restrictive"]) <= set(answer.over_restrictive)
    if "missing" in build:
        assert len(answer.over_restrictive) == build["missing"]


def test_the_published_result_is_reproduced(build_0_3_36: Build, vocabulary: VocabularyFile) -> None:
    names = [entry.name for entry in load_corpus() if entry.group == "published"]
    document = audited(build_0_3_36, vocabulary, *names)
    assert document.trustworthy
    assert 350 <= sum(grammar.states for grammar in document.grammars) <= 370
    affected = {g.name: g for g in document.grammars if g.deviations}
    assert set(affected) == {"alternation-three-four", "alternation-two-three-four", "astral-in-structure"}
    for grammar in affected.values():
        assert all(d.mid_code_point for d in grammar.deviations)
        assert {d.cause for d in grammar.deviations} == {Cause.OVERLONG}
    escapes = [d.escape for d in affected["alternation-three-four"].deviations if d.escape]
    assert [(e.outcome, e.bytes, e.well_formed) for e in escapes] == [
        ("end-of-generation", "f084b896", False)
    ]
    by_name = {grammar.name: grammar for grammar in document.grammars}
    assert by_name["ascii-repetition"].start_tokens == 16833
    assert by_name["ascii-repetition"].exhaustive


def test_the_predictive_table_is_exact(build_0_3_36: Build, vocabulary: VocabularyFile) -> None:
    document = audited(build_0_3_36, vocabulary, "ascii-repetition")
    observed = {row.code_point: row.observed for row in document.predictions}
    # The bytes of the published result; U+3055 has a two-byte token besides.
    assert {code: tokens[0] for code, tokens in observed.items()}.items() >= {
        "U+4E16": "84", "U+5E16": "85", "U+6E16": "86", "U+4123": "84",
        "U+7ABC": "87", "U+3055": "83", "U+20AC": "82",
    }.items()  # fmt: skip
    assert observed["U+3055"] == ("83", "8381")
    assert all(row.exact for row in document.predictions)


def test_the_controls_find_what_was_planted(build_0_3_16: Build, vocabulary: VocabularyFile) -> None:
    document = audited(build_0_3_16, vocabulary, "ascii-repetition", "euro-repetition")
    by_name = {control.name.split(":")[0]: control for control in document.controls}
    assert all(control.passed for control in document.controls)
    assert by_name["positive"].figures["expected"] == 432
    assert by_name["positive"].figures["recall"] == by_name["positive"].figures["precision"] == 1.0
    assert by_name["vocabulary parity"].figures["tokens"] == 151_936


def test_grammars_that_kill_the_library_are_findings_and_the_others_go_on(
    build_0_3_36: Build, vocabulary: VocabularyFile
) -> None:
    document = audited(
        build_0_3_36, vocabulary, "ascii-repetition", "maximum-below-minimum", "sixty-thousand-groups"
    )
    kinds = {grammar.name: [d.kind for d in grammar.deviations] for grammar in document.grammars}
    assert kinds == {
        "ascii-repetition": [],
        "maximum-below-minimum": [Kind.OOM],
        "sixty-thousand-groups": [Kind.CRASH],
    }
    assert document.trustworthy


def test_a_token_terminal_behind_text_takes_every_token_that_begins_with_it(
    build_0_3_36: Build, vocabulary: VocabularyFile
) -> None:
    (grammar,) = audited(build_0_3_36, vocabulary, "text-then-any-token").grammars
    pieces = vocabulary.vocabulary.pieces
    half_read = {token for token, piece in enumerate(pieces) if piece.startswith(b"a") and piece != b"a"}
    (start,) = [d for d in grammar.deviations if d.kind is Kind.UNSOUND and not d.path]
    assert set(start.token_ids) == half_read
    assert start.cause == Cause.TOKEN_TERMINAL
    assert Kind.CRASH in {d.kind for d in grammar.deviations}


def test_the_two_releases_differ_where_they_are_known_to(
    build_0_3_16: Build, build_0_3_36: Build, vocabulary: VocabularyFile
) -> None:
    names = ("end-token-as-text", "end-inside-a-character")
    old = {g.name: g for g in audited(build_0_3_16, vocabulary, *names).grammars}
    new = {g.name: g for g in audited(build_0_3_36, vocabulary, *names).grammars}
    assert old["end-token-as-text"].deviations == ()
    assert {d.cause for d in new["end-token-as-text"].deviations} == {Cause.EOG_TEXT}
    assert {d.kind for d in old["end-inside-a-character"].deviations} == {Kind.EOS_UNSOUND}
    assert new["end-inside-a-character"].deviations == ()


def test_the_same_build_audited_twice_gives_the_same_bytes(
    build_0_3_36: Build, vocabulary: VocabularyFile
) -> None:
    names = ("any-text", "alternation-three-four", "reversed-range", "tool-call")
    assert encode(audited(build_0_3_36, vocabulary, *names, jobs=1)) == encode(
        audited(build_0_3_36, vocabulary, *names, jobs=2)
    )


def test_the_grammars_of_the_source_tree_are_there(build_0_3_36: Build, build_0_3_16: Build) -> None:
    for build in (build_0_3_36, build_0_3_16):
        names = {entry.name for entry in source_tree_grammars(build.tree, 40)}
        assert {"upstream-json", "upstream-c", "upstream-chess", "upstream-japanese"} <= names
