"""History: order, transitions, and that nothing but a finding that came or went ever makes one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from builders import build, deviation, document, grammar, untestable
from hypothesis import given
from hypothesis import strategies as st

from tracker.history import (
    Change,
    Evidence,
    History,
    Transition,
    compare,
    evidence_of,
    history_of,
    in_order,
    summarise,
)
from tracker.results import BuildIdentity, Cause, Control, Document, GrammarDocument, Kind


def _told(history: History) -> list[tuple[str, str, str]]:
    return [(change.build, change.subject, change.transition) for change in history.changes()]


def _pair(old: GrammarDocument, new: GrammarDocument) -> tuple[Change, ...]:
    documents = {old.build.id: old, new.build.id: new}

    def evidence(build_id: str, subject: str) -> Evidence:
        return next(evidence_of(g) for g in documents[build_id].grammars if g.name == subject)

    return compare(summarise(old), summarise(new), evidence)


OLD, NEW = build("1", day=1), build("2", day=2)
HOLE = deviation("f0", ["84"])


# Order


def test_builds_are_ordered_by_date_and_not_by_version() -> None:
    late, early = build("0.3.1", day=9), build("0.3.2", day=1)
    assert in_order([late, early], lambda b: b)[0] == [early, late]


def test_equal_dates_are_ordered_by_version_as_numbers() -> None:
    nine, ten = build("0.3.9", day=1), build("0.3.10", day=1)
    assert in_order([ten, nine], lambda b: b)[0] == [nine, ten]


def test_build_numbers_decide_against_dates() -> None:
    first, second = build("a", day=5, number=100), build("b", day=4, number=101)
    dated = build("c", day=4)
    # Number 100 comes first although it is dated later; the build with only a date keeps its own place.
    assert in_order([second, dated, first], lambda b: b)[0] == [first, dated, second]


def test_zones_are_told_apart() -> None:
    east = build("a").model_copy(update={"date": "2025-01-02T01:00:00+05:00"})
    utc = build("b").model_copy(update={"date": "2025-01-01T21:00:00+00:00"})
    assert in_order([utc, east], lambda b: b)[0] == [east, utc]


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_a_build_without_a_date_has_no_place(date: str | None) -> None:
    undated = build("x").model_copy(update={"date": date})
    assert in_order([undated, OLD], lambda b: b) == ([OLD], [undated])


def test_a_patched_build_has_no_place() -> None:
    patched = build("1p", day=3, patch="fix.patch")
    history = history_of([document(OLD), document(patched, grammar())])
    assert [entry.build for entry in history.entries] == [OLD]
    assert [summary.build for summary in history.aside] == [patched]


_numbered = st.builds(
    lambda version, day, number: build(str(version), day=day, number=number),
    st.integers(0, 40),
    st.none() | st.integers(0, 6),
    st.none() | st.integers(0, 20),
)


@given(st.lists(_numbered, unique_by=lambda b: b.id, max_size=9), st.randoms(use_true_random=False))
def test_the_order_is_one_whatever_came_first_and_keeps_to_numbers(
    builds: list[BuildIdentity], random: object
) -> None:
    shuffled = list(builds)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    placed, aside = in_order(builds, lambda b: b)
    assert (placed, aside) == in_order(shuffled, lambda b: b)
    numbers = [b.build_number for b in placed if b.build_number is not None]
    assert numbers == sorted(numbers)
    if not numbers:
        dates = [b.date or "" for b in placed]
        assert dates == sorted(dates)


# Transitions between two results


def test_equal_results_have_no_changes_and_no_findings_are_read() -> None:
    def refuse(build_id: str, subject: str) -> Evidence:
        raise AssertionError("digests are equal")

    old, new = document(OLD), document(NEW)
    assert compare(summarise(old), summarise(new), refuse) == ()


def test_a_hole_that_came_has_appeared_with_its_tokens() -> None:
    (change,) = _pair(document(OLD, grammar("g")), document(NEW, grammar("g", HOLE)))
    assert change.transition is Transition.APPEARED
    assert (change.earlier, change.build) == (OLD.id, NEW.id)
    assert [(atom.where, atom.detail) for atom in change.added] == [("f0", "84")]
    assert change.removed == ()


def test_a_hole_that_went_is_fixed() -> None:
    (change,) = _pair(document(OLD, grammar("g", HOLE)), document(NEW, grammar("g")))
    assert change.transition is Transition.FIXED
    assert [atom.detail for atom in change.removed] == ["84"]


def test_other_tokens_are_a_change_with_what_came_and_what_went() -> None:
    (change,) = _pair(
        document(OLD, grammar("g", deviation("f0", ["84", "85"]))),
        document(NEW, grammar("g", deviation("f0", ["85", "86"]))),
    )
    assert change.transition is Transition.CHANGED
    assert [atom.detail for atom in change.added] == ["86"]
    assert [atom.detail for atom in change.removed] == ["84"]


def test_kinds_and_causes_are_told_apart() -> None:
    news = deviation("61", ["62"], cause=Cause.NOT_IN_LANGUAGE, mid=False)
    masked = deviation("61", ["00"], kind=Kind.OVER_RESTRICTIVE, cause=Cause.NUL, mid=False)
    changes = _pair(document(OLD, grammar("g", HOLE, masked)), document(NEW, grammar("g", HOLE, news)))
    assert [(c.strand.kind, c.strand.cause, c.transition) for c in changes if c.strand] == [
        ("OVER_RESTRICTIVE", "nul", Transition.FIXED),
        ("UNSOUND", "not-in-language", Transition.APPEARED),
    ]


def test_details_escapes_and_states_are_no_change() -> None:
    crash = deviation("", [], kind=Kind.CRASH, cause=Cause.DIED, detail="signal 6")
    other = deviation("", [], kind=Kind.CRASH, cause=Cause.DIED, detail="signal 11")
    old = document(OLD, grammar("g", crash, states=3))
    assert _pair(old, document(NEW, grammar("g", other, states=9))) == ()


def test_another_audit_version_is_never_compared() -> None:
    (change,) = _pair(document(OLD, grammar("g", HOLE)), document(NEW, grammar("g"), audit_version="b" * 64))
    assert change.transition is Transition.NOT_COMPARABLE
    assert (change.added, change.removed) == ((), ())


def test_another_text_under_the_same_name_is_not_compared() -> None:
    (change,) = _pair(
        document(OLD, grammar("g", HOLE)), document(NEW, grammar("g", text='root ::= "\\u4e16"\n'))
    )
    assert (change.transition, change.subject) == (Transition.NOT_COMPARABLE, "g")


def test_a_result_without_trust_is_untestable_on_either_side() -> None:
    failed = document(NEW, grammar("g"), controls=[Control(name="null", passed=False, detail="differs")])
    for old, new in ((document(OLD), failed), (failed, document(OLD)), (document(OLD), untestable(NEW))):
        (change,) = _pair(old, new)
        assert change.transition is Transition.UNTESTABLE


def test_gone_from_where_nobody_looked_again_is_not_fixed() -> None:
    old = grammar("g", deviation("f0", ["84"]), exhaustive=False, visited=["", "f0"])
    new = grammar("g", exhaustive=False, visited=["", "61"])
    (change,) = _pair(document(OLD, old), document(NEW, new))
    assert change.transition is Transition.NOT_COMPARABLE
    assert (change.added, change.removed) == ((), ())


def test_new_where_nobody_had_looked_has_not_appeared() -> None:
    old = grammar("g", exhaustive=False, visited=["", "61"])
    new = grammar("g", deviation("f0", ["84"]), exhaustive=False, visited=["", "f0"])
    (change,) = _pair(document(OLD, old), document(NEW, new))
    assert change.transition is Transition.NOT_COMPARABLE


REFUSED = deviation("", [], kind=Kind.GRAMMAR_REJECTED, cause=Cause.PARSER, mid=False)


def test_holes_of_a_grammar_that_was_refused_before_have_not_appeared() -> None:
    old, new = grammar("g", REFUSED, states=0), grammar("g", HOLE, deviation("", ["f5"]), visited=["", "f0"])
    changes = _pair(document(OLD, old), document(NEW, new))
    assert [(c.strand.kind, c.transition) for c in changes if c.strand] == [
        ("GRAMMAR_REJECTED", Transition.FIXED),
        ("UNSOUND", Transition.NOT_COMPARABLE),
    ]


def test_holes_of_a_grammar_that_is_refused_now_are_not_fixed() -> None:
    old, new = grammar("g", HOLE, visited=["", "f0"]), grammar("g", REFUSED, states=0)
    changes = _pair(document(OLD, old), document(NEW, new))
    assert [(c.strand.kind, c.transition) for c in changes if c.strand] == [
        ("GRAMMAR_REJECTED", Transition.APPEARED),
        ("UNSOUND", Transition.NOT_COMPARABLE),
    ]


def test_what_becomes_of_a_text_is_known_without_any_state() -> None:
    dead = deviation("", [], kind=Kind.OOM, cause=Cause.DIED, mid=False)
    accepted = deviation("", [], kind=Kind.GRAMMAR_ACCEPTED, cause=Cause.PARSER, mid=False)
    changes = _pair(
        document(OLD, grammar("g", accepted, states=0)), document(NEW, grammar("g", dead, states=0))
    )
    assert [(c.strand.kind, c.transition) for c in changes if c.strand] == [
        ("GRAMMAR_ACCEPTED", Transition.FIXED),
        ("OOM", Transition.APPEARED),
    ]


def test_an_exhaustive_walk_has_looked_everywhere() -> None:
    old = grammar("g", deviation("f0", ["84"]), exhaustive=False, visited=["", "f0"])
    new = grammar("g", exhaustive=True, visited=["", "61"])
    (change,) = _pair(document(OLD, old), document(NEW, new))
    assert change.transition is Transition.FIXED


def test_the_end_of_an_escape_hangs_on_the_place_where_it_left() -> None:
    end = deviation("f084b896", [], kind=Kind.EOS_UNSOUND)
    old = grammar("g", HOLE, end, exhaustive=False, visited=["", "f0"])
    looked = grammar("g", exhaustive=False, visited=["", "61", "f0"])
    changes = _pair(document(OLD, old), document(NEW, looked))
    assert [change.transition for change in changes] == [Transition.FIXED, Transition.FIXED]
    not_looked = grammar("g", exhaustive=False, visited=["61"])
    changes = _pair(document(OLD, old), document(NEW, not_looked))
    assert {change.transition for change in changes} == {Transition.NOT_COMPARABLE}


# Over many builds


def test_a_hole_that_comes_back_has_regressed() -> None:
    history = history_of(
        [
            document(build(str(day), day=day), grammar("g", *([HOLE] if day in (1, 3) else [])))
            for day in range(4)
        ]
    )
    assert [transition for _, _, transition in _told(history)] == ["appeared", "fixed", "regressed"]


def test_a_new_audit_version_starts_anew_and_says_so_once() -> None:
    history = history_of(
        [
            document(build("1", day=1), grammar("g", HOLE), audit_version="a" * 64),
            document(build("2", day=2), grammar("g"), audit_version="b" * 64),
            document(build("3", day=3), grammar("g"), audit_version="a" * 64),
            document(build("4", day=4), grammar("g"), audit_version="b" * 64),
        ]
    )
    assert _told(history) == [
        ("llama-cpp-python-2", "", "not comparable"),
        ("llama-cpp-python-3", "g", "fixed"),
    ]
    assert [entry.earlier for entry in history.entries] == [
        "",
        "",
        "llama-cpp-python-1",
        "llama-cpp-python-2",
    ]


def test_a_rerun_with_a_result_replaces_one_without() -> None:
    without, with_result = untestable(OLD), document(OLD)
    for order in ([without, with_result], [with_result, without]):
        history = history_of(order)
        assert [entry.summary.trustworthy for entry in history.entries] == [True]
        assert _told(history) == []


def test_two_different_results_of_one_build_are_refused() -> None:
    with pytest.raises(ValueError, match="two different results of llama-cpp-python-1"):
        history_of([document(OLD, grammar("g")), document(OLD, grammar("g", HOLE))])


@dataclass(frozen=True)
class _Night:
    """What a build does: the tokens of its hole, or None for a result that could not be had."""

    tokens: frozenset[str] | None
    grammar_untestable: bool = False


_nights = st.lists(
    st.builds(
        _Night,
        st.none() | st.frozensets(st.sampled_from(["84", "85", "86"]), max_size=2),
        st.booleans(),
    ),
    max_size=8,
)


def _document(day: int, night: _Night) -> Document:
    identity = build(str(day), day=day)
    if night.tokens is None:
        return untestable(identity)
    if night.grammar_untestable:
        return document(identity, grammar("g", untestable="no answer"), grammar("h"))
    holes = [deviation("f0", sorted(night.tokens))] if night.tokens else []
    return document(identity, grammar("g", *holes), grammar("h"))


def _expected(nights: Sequence[_Night]) -> list[tuple[str, str, str]]:
    """The transitions, by walking over the nights as a person would."""
    told: list[tuple[str, str, str]] = []
    known: frozenset[str] | None = None
    ever = False
    for day, night in enumerate(nights):
        name = f"llama-cpp-python-{day}"
        if night.tokens is None:
            told.append((name, "", "untestable"))
        elif night.grammar_untestable:
            told.append((name, "g", "untestable"))
        else:
            now = night.tokens
            if known is not None and known != now:
                if not known:
                    told.append((name, "g", "regressed" if ever else "appeared"))
                else:
                    told.append((name, "g", "changed" if now else "fixed"))
            known, ever = now, ever or bool(now)
    return told


@given(_nights, st.randoms(use_true_random=False))
def test_transitions_are_those_of_the_tested_builds_in_any_order_of_results(
    nights: list[_Night], random: object
) -> None:
    documents = [_document(day, night) for day, night in enumerate(nights)]
    documents += documents[::2]
    random.shuffle(documents)  # type: ignore[attr-defined]
    assert _told(history_of(documents)) == _expected(nights)


@given(_nights)
def test_leaving_out_untestable_builds_changes_nothing_else(nights: list[_Night]) -> None:
    documents = [_document(day, night) for day, night in enumerate(nights)]
    tested = [d for d, night in zip(documents, nights, strict=True) if night.tokens is not None]
    without = [told for told in _told(history_of(documents)) if told[2] != "untestable" or told[1]]
    assert _told(history_of(tested)) == without


@given(_nights)
def test_builds_that_repeat_their_predecessor_add_no_transition(nights: list[_Night]) -> None:
    doubled = [night for night in nights for _ in range(2)]
    documents = [_document(day, night) for day, night in enumerate(doubled)]
    told = [t for t in _told(history_of(documents)) if t[2] != "untestable"]
    assert all(int(name.rsplit("-", 1)[1]) % 2 == 0 for name, _, _ in told)


@given(_nights)
def test_added_and_removed_lead_from_each_result_to_the_next(nights: list[_Night]) -> None:
    history = history_of([_document(day, night) for day, night in enumerate(nights)])
    first = next((n for n in nights if n.tokens is not None and not n.grammar_untestable), None)
    now = set(first.tokens or ()) if first else set()
    for change in history.changes():
        now -= {atom.detail for atom in change.removed}
        now |= {atom.detail for atom in change.added}
    last = next((n for n in reversed(nights) if n.tokens is not None and not n.grammar_untestable), None)
    assert now == (set(last.tokens or ()) if last else set())
