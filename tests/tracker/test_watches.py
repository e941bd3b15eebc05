"""Watches: what they select, and that a verdict is never better than what is known."""

from __future__ import annotations

import pytest
from builders import build, deviation, document, grammar, untestable
from hypothesis import given
from hypothesis import strategies as st

from tracker.config import Watch
from tracker.history import Transition, history_of, summarise
from tracker.results import Cause, Control, Document, Kind
from tracker.watches import (
    Absent,
    Present,
    Since,
    Untestable,
    WatchHistory,
    follow,
    judge,
    matches,
    verdict_word,
)

PARTIAL = Watch(
    name="match_partial_char",
    kinds=(Kind.UNSOUND, Kind.OVER_RESTRICTIVE, Kind.EOS_UNSOUND),
    mid_code_point=True,
)
HOLE = deviation("f0", ["84"])
CLEAN_STATE = deviation("22", ["f8"], cause=Cause.INVALID_LEAD, mid=False)


def _follow(*documents: Document, watch: Watch = PARTIAL) -> WatchHistory:
    return follow(watch, history_of(documents))


def _became(history: WatchHistory) -> list[tuple[str, str | None]]:
    return [(verdict_word(p.verdict), p.transition and str(p.transition)) for p in history.points]


def test_a_watch_selects_by_every_filter_it_has() -> None:
    doc = document(build(), grammar("json-a", HOLE, CLEAN_STATE), grammar("euro", HOLE))

    def selected(watch: Watch) -> list[tuple[str, str]]:
        return [(atom.subject, atom.detail) for _, atom in matches(watch, doc)]

    assert selected(Watch(name="w")) == [("json-a", "84"), ("json-a", "f8"), ("euro", "84")]
    assert selected(PARTIAL) == [("json-a", "84"), ("euro", "84")]
    assert selected(Watch(name="w", grammars=("json-*",), mid_code_point=False)) == [("json-a", "f8")]
    assert selected(Watch(name="w", causes=("invalid-lead",))) == [("json-a", "f8")]
    assert selected(Watch(name="w", kinds=(Kind.CRASH,))) == []


def test_present_says_where_and_how_much() -> None:
    doc = document(build(), grammar("a", deviation("f0", ["84", "85"])), grammar("b"), grammar("c", HOLE))
    verdict = judge(PARTIAL, summarise(doc))
    assert isinstance(verdict, Present)
    assert (verdict.subjects, verdict.atoms, verdict.untested) == (("a", "c"), 3, ())


def test_the_fingerprint_is_that_of_the_selected_findings_alone() -> None:
    def fingerprint(*deviations: object) -> str:
        verdict = judge(PARTIAL, summarise(document(build(), grammar("g", *deviations))))  # type: ignore[arg-type]
        assert isinstance(verdict, Present)
        return verdict.fingerprint

    assert fingerprint(HOLE) == fingerprint(HOLE, CLEAN_STATE)
    assert fingerprint(HOLE) != fingerprint(deviation("f0", ["85"]))
    assert fingerprint(HOLE) != fingerprint(deviation("f1", ["84"]))
    assert fingerprint(HOLE) != fingerprint(deviation("f0", ["84"], cause=Cause.SURROGATE))


def test_absent_needs_a_trustworthy_result() -> None:
    clean = grammar("g")
    failed = Control(name="null", passed=False, detail="3 states differ")
    assert judge(PARTIAL, summarise(document(build(), clean))) == Absent()
    assert judge(PARTIAL, summarise(untestable(build(), "it does not build"))) == Untestable(
        "it does not build"
    )
    assert judge(PARTIAL, summarise(document(build(), clean, controls=[failed]))) == Untestable(
        "control null failed: 3 states differ"
    )
    assert judge(PARTIAL, summarise(document(build(), clean, controls=[]))) == Untestable(
        "no control was run"
    )


def test_absent_needs_every_grammar_that_the_watch_asks_for() -> None:
    doc = document(build(), grammar("a"), grammar("b", untestable="no answer"))
    assert judge(PARTIAL, summarise(doc)) == Untestable("b could not be tested: no answer")
    only_a = PARTIAL.model_copy(update={"grammars": ("a",)})
    assert judge(only_a, summarise(doc)) == Absent()


def test_absent_needs_something_that_was_audited() -> None:
    nothing = PARTIAL.model_copy(update={"grammars": ("nothing-*",)})
    assert isinstance(judge(nothing, summarise(document(build()))), Untestable)


def test_another_audit_says_nothing() -> None:
    assert isinstance(judge(Watch(name="w", audit="gguf"), summarise(document(build()))), Untestable)


def test_present_is_present_although_another_grammar_could_not_be_tested() -> None:
    doc = document(build(), grammar("a", HOLE), grammar("b", untestable="no answer"))
    verdict = judge(PARTIAL, summarise(doc))
    assert isinstance(verdict, Present)
    assert verdict.untested == ("b",)


def test_a_life_of_a_bug() -> None:
    states = {1: [], 2: [HOLE], 3: [HOLE], 5: [deviation("f0", ["84", "85"])], 6: [], 8: [HOLE]}
    documents = [
        document(build(str(day), day=day), grammar("g", *states[day]))
        if day in states
        else untestable(build(str(day), day=day))
        for day in range(1, 9)
    ]
    history = _follow(*documents)
    assert _became(history) == [
        ("absent", None),
        ("present", "appeared"),
        ("present", None),
        ("untestable", "untestable"),
        ("present", "changed"),
        ("absent", "fixed"),
        ("untestable", "untestable"),
        ("present", "regressed"),
    ]
    changed = history.points[4]
    assert [atom.detail for change in changed.changes for atom in change.added] == ["85"]
    assert history.since == Since("llama-cpp-python-8", "llama-cpp-python-6", ("llama-cpp-python-7",), 1)
    assert history.last_present is history.points[7]


def test_since_reaches_over_untestable_builds() -> None:
    history = _follow(
        document(build("1", day=1), grammar("g")),
        untestable(build("2", day=2)),
        document(build("3", day=3), grammar("g", HOLE)),
        untestable(build("4", day=4)),
        document(build("5", day=5), grammar("g", HOLE)),
        untestable(build("6", day=6)),
    )
    assert history.since == Since("llama-cpp-python-3", "llama-cpp-python-1", ("llama-cpp-python-2",), 2)
    assert history.newest is history.points[4]


def test_as_old_as_the_record_has_nothing_before_it() -> None:
    history = _follow(untestable(build("0", day=0)), document(build("1", day=1), grammar("g", HOLE)))
    assert history.since == Since("llama-cpp-python-1", "", (), 1)
    assert _follow().since is None


def test_another_audit_version_is_neither_fixed_nor_changed() -> None:
    history = _follow(
        document(build("1", day=1), grammar("g", HOLE), audit_version="a" * 64),
        document(build("2", day=2), grammar("g"), audit_version="b" * 64),
    )
    assert _became(history) == [("present", None), ("absent", "not comparable")]
    assert history.since == Since("llama-cpp-python-2", "", (), 1)


def test_a_grammar_that_could_not_be_tested_meanwhile_makes_no_change() -> None:
    history = _follow(
        document(build("1", day=1), grammar("a", HOLE), grammar("b", HOLE)),
        document(build("2", day=2), grammar("a", HOLE), grammar("b", untestable="no answer")),
        document(build("3", day=3), grammar("a", HOLE), grammar("b", HOLE)),
    )
    assert _became(history) == [("present", None)] * 3


def test_a_grammar_whose_text_is_another_is_no_fix() -> None:
    history = _follow(
        document(build("1", day=1), grammar("upstream-json", HOLE)),
        document(build("2", day=2), grammar("upstream-json", text='root ::= "a"\n')),
    )
    assert _became(history) == [("present", None), ("absent", "not comparable")]


def test_a_fix_over_a_build_where_only_half_could_be_seen_is_a_fix() -> None:
    history = _follow(
        document(build("1", day=1), grammar("a", HOLE), grammar("b")),
        document(build("2", day=2), grammar("a"), grammar("b", untestable="no answer")),
        document(build("3", day=3), grammar("a"), grammar("b")),
    )
    assert _became(history) == [("present", None), ("untestable", "untestable"), ("absent", "fixed")]


def test_a_walk_that_no_longer_comes_there_leaves_it_open() -> None:
    there = {"exhaustive": False, "visited": ["", "f0"]}
    away = {"exhaustive": False, "visited": ["", "61"]}
    history = _follow(
        document(build("1", day=1), grammar("g", HOLE, **there)),  # type: ignore[arg-type]
        document(build("2", day=2), grammar("g", **away)),  # type: ignore[arg-type]
        document(build("3", day=3), grammar("g", **away)),  # type: ignore[arg-type]
    )
    assert _became(history) == [("present", None), ("untestable", "untestable"), ("untestable", "untestable")]
    reason = history.points[2].verdict
    assert isinstance(reason, Untestable) and "has not come to" in reason.reason


_kinds_of_night = st.sampled_from(["hole", "clean", "failed", "half"])


@given(st.lists(_kinds_of_night, max_size=9), st.randoms(use_true_random=False))
def test_only_two_tested_builds_that_differ_make_a_transition(nights: list[str], random: object) -> None:
    made = {
        "hole": lambda b: document(b, grammar("g", HOLE)),
        "clean": lambda b: document(b, grammar("g")),
        "failed": lambda b: untestable(b),
        "half": lambda b: document(b, grammar("g", untestable="no answer")),
    }
    documents = [made[night](build(str(day), day=day)) for day, night in enumerate(nights)]
    random.shuffle(documents)  # type: ignore[attr-defined]
    expected: list[str | None] = []
    before, ever = "", False
    for night in nights:
        if night in ("failed", "half"):
            expected.append("untestable")
            continue
        came = "regressed" if ever else "appeared"
        expected.append(None if before in ("", night) else came if night == "hole" else "fixed")
        before, ever = night, ever or night == "hole"
    history = _follow(*documents)
    assert [p.transition and str(p.transition) for p in history.points] == expected
    assert Transition.NOT_COMPARABLE not in {p.transition for p in history.points}


@pytest.mark.parametrize("count", [1, 3])
def test_a_rerun_of_the_same_build_is_no_transition(count: int) -> None:
    history = _follow(*[document(build("1", day=1), grammar("g", HOLE))] * count)
    assert _became(history) == [("present", None)]
