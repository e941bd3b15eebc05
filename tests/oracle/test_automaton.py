"""The automaton with interned states against the textbook recognizer, and how few its states are."""

from __future__ import annotations

from pathlib import Path

import pytest
import token_cases
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import grammars, small_vocabulary, texts_over
from token_cases import CASES, TOKENS, Case

from oracle.automaton import DEAD, Automaton
from oracle.earley import InputToken, Recognizer
from oracle.gbnf import parse
from oracle.lowering import lower
from tracker.audits.engines.drawing import CHARACTERS
from tracker.audits.engines.expressions import Either, InOrder, Rules, Text, Times, Use

GRAMMARS = Path(__file__).parents[2] / "grammars"


def automaton_of(text: str) -> Automaton:
    return Automaton(lower(parse(text)))


# -- the same answers ----------------------------------------------------------------------------------------

HIDDEN_LEFT = Rules(
    (
        Either((InOrder((Use(1), Use(0), Text("a"))), Text("b"))),
        InOrder((Use(2), Use(2))),
        Either((Text("c"), Text(""))),
    )
)
CYCLE = Rules(
    (Either((Use(1), Text("a"))), Either((Use(2), Text("bb"))), InOrder((Use(0), Times(Use(0), 0, 1))))
)


@given(grammars(), st.lists(texts_over(CHARACTERS, 4), min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
@example(HIDDEN_LEFT, [b"b", b"ba", b"cba", b"ccba", b"cccba", b"cccbaa", b"baa"])
@example(CYCLE, [b"a", b"aa", b"bb", b"abb", b"aabba", b"b"])
def test_it_agrees_with_the_textbook_recognizer_on_every_prefix(rules, inputs):
    grammar = parse(rules.gbnf())
    recognizer = Recognizer(grammar)
    automaton = Automaton(lower(grammar))
    for data in inputs:
        state = automaton.step(automaton.start, data)
        assert (state != DEAD) == recognizer.viable(data), (rules.gbnf(), data)
        assert automaton.accepting[state] == recognizer.member(data), (rules.gbnf(), data)


@given(grammars(), texts_over(CHARACTERS, 2))
@settings(max_examples=30, deadline=None)
def test_a_row_is_right_in_each_of_its_256_bytes(rules, data):
    grammar = parse(rules.gbnf())
    recognizer = Recognizer(grammar)
    automaton = Automaton(lower(grammar))
    row = automaton.row(automaton.step(automaton.start, data))
    for byte in range(256):
        assert (row[byte] != DEAD) == recognizer.viable(data + bytes([byte])), (rules.gbnf(), data, byte)


VOCABULARY = small_vocabulary()
END = len(VOCABULARY) - 1
TERMINALS = (ord("a"), 258, 265, END, 256, 0x80)
LIKELY = st.one_of(st.sampled_from([*b"ab\xc3\xa9", 257, *TERMINALS]), st.integers(0, END))
"""Tokens that drawn grammars name or spell, so that paths go on."""


@given(
    grammars(tokens=TERMINALS, characters="ab\u00e9"),
    st.lists(st.lists(LIKELY, min_size=1, max_size=4), min_size=1, max_size=6),
)
@settings(max_examples=150, deadline=None)
def test_it_agrees_with_the_textbook_recognizer_on_paths_of_tokens(rules, paths):
    grammar = parse(rules.gbnf())
    recognizer = Recognizer(grammar, VOCABULARY.ids_by_text, end_tokens=[END])
    automaton = Automaton(lower(grammar, VOCABULARY.ids_by_text, len(VOCABULARY)))
    for path in paths:
        state = automaton.start
        for token in path:
            state = automaton.step_token(state, token, VOCABULARY.pieces[token], is_end=token == END)
        tokens = [InputToken(token, VOCABULARY.pieces[token]) for token in path]
        assert (state != DEAD) == recognizer.viable(tokens), (rules.gbnf(), path)
        assert automaton.accepting[state] == recognizer.member(tokens), (rules.gbnf(), path)


@pytest.mark.parametrize("case", CASES)
def test_token_terminals_have_their_hand_made_answers(case: Case):
    automaton = Automaton(lower(parse(case.text), TOKENS))
    state = automaton.start
    for token, data in case.tokens:
        state = automaton.step_token(state, token, data, is_end=token == token_cases.END)
    assert (state != DEAD) == case.viable
    assert automaton.accepting[state] == case.member


@given(grammars(), texts_over(CHARACTERS, 3), texts_over(CHARACTERS, 3))
@settings(max_examples=100, deadline=None)
def test_the_state_is_a_matter_of_the_bytes_and_not_of_what_was_asked_before(rules, first, second):
    fresh, used = automaton_of(rules.gbnf()), automaton_of(rules.gbnf())
    used.step(used.start, second)
    ours, theirs = used.step(used.start, first), fresh.step(fresh.start, first)
    assert (ours == DEAD) == (theirs == DEAD)
    assert used.accepting[ours] == fresh.accepting[theirs]
    assert used.positions(ours) == fresh.positions(theirs)
    assert (used.row(ours) != DEAD).tolist() == (fresh.row(theirs) != DEAD).tolist()


# -- few states ----------------------------------------------------------------------------------------------


def reachable(automaton: Automaton, start: int, without: bytes = b"", at_most: int = 10_000) -> set[int]:
    """States reached from one over any bytes but some."""
    seen = {start}
    todo = [start]
    while todo and len(seen) < at_most:
        row = automaton.row(todo.pop())
        for byte in range(256):
            state = int(row[byte])
            if state != DEAD and byte not in without and state not in seen:
                seen.add(state)
                todo.append(state)
    return seen


INSIDE_A_CHARACTER = 7
"""One, two or three continuation bytes missing; the second bytes behind E0, ED, F0 and F4."""


def test_a_string_of_any_characters_is_one_state_and_those_inside_a_character():
    automaton = automaton_of('root ::= "\\"" [^"]* "\\""')
    inside = automaton.step(automaton.start, b'"')
    assert automaton.step(inside, "wörter und 世界 😀".encode()) == inside
    assert len(reachable(automaton, inside, without=b'"')) == 1 + INSIDE_A_CHARACTER


def test_inside_a_json_string_there_are_thirteen_states_in_each_surrounding():
    automaton = automaton_of((GRAMMARS / "json-full.gbnf").read_text())
    for before in (b'{"', b'{"a":"', b'{"a":[[{"b":["'):
        inside = automaton.step(automaton.start, before)
        # The text, the characters under way, behind a backslash, and four hex digits to come to one.
        states = reachable(automaton, inside, without=b'"')
        assert len(states) == 1 + INSIDE_A_CHARACTER + 1 + 4
    assert len(automaton) < 150


def test_what_follows_decides_the_state_and_not_the_way_there():
    automaton = automaton_of('root ::= "a" root | "b" root | "c"')
    assert len({automaton.step(automaton.start, data) for data in (b"", b"a", b"ab", b"bbba" * 50)}) == 1
    left = automaton_of('root ::= root "x" | root "yy" | "z"')
    assert len({left.step(left.start, b"z" + data) for data in (b"", b"x", b"yyx", b"xyyxyyx" * 50)}) == 1
    mutual = automaton_of('root ::= one "x" | "z"\none ::= two "y" | "z"\ntwo ::= root | one')
    once = {mutual.step(mutual.start, b"z" + b"yx" * count) for count in range(2, 40)}
    assert len(once) <= 2
    hidden = automaton_of('root ::= a root "x" | "y"\na ::= b b\nb ::= "z" |')
    assert len({hidden.step(hidden.start, b"y" + b"x" * count) for count in range(1, 60)}) == 1


def test_states_of_a_finite_automaton_do_not_grow_with_the_input():
    automaton = automaton_of('root ::= (("a"? "b"*)* [c-e]+ ("f" | "ff")*)*')
    states = len(reachable(automaton, automaton.start))
    automaton.step(automaton.start, b"abbcdefffabcf" * 500)
    assert len(reachable(automaton, automaton.start)) == states < 12


def test_nesting_costs_one_continuation_a_level():
    automaton = automaton_of('root ::= "(" root ")" |')
    deep = automaton.step(automaton.start, b"(" * 3_000)
    assert automaton.continuations <= 3_002
    shallow = automaton.step(deep, b")" * 2_999)
    assert shallow != DEAD and not automaton.accepting[shallow]
    assert automaton.accepting[automaton.step(shallow, b")")]
    assert automaton.step(shallow, b"))") == DEAD


def test_a_counted_repetition_has_one_state_a_count():
    automaton = automaton_of('root ::= "a"{0,2000}')
    assert len(reachable(automaton, automaton.start)) == 2001


@pytest.mark.parametrize(
    "text",
    [
        "root ::= " + '"a"? ' * 200,
        "root ::= r0\n"
        + "\n".join(f'r{i} ::= r{i + 1} | "x" | r{i + 1}' for i in range(300))
        + '\nr300 ::= "a"',
        'root ::= ("a"{0,2000} "b"){0,2000}',
        "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60)) + '\nr60 ::= "a" |',
    ],
)
def test_grammars_that_explode_elsewhere_stay_small(text):
    automaton = automaton_of(text)
    state = automaton.step(automaton.start, b"aaaa" if "r0" not in text or " | " not in text else b"a")
    assert state != DEAD
    assert len(automaton) < 50
    assert automaton.continuations < 2_000


def test_a_chain_of_five_thousand_rules_leaves_one_continuation():
    rules = "\n".join(f"r{i} ::= r{i + 1}" for i in range(5_000))
    automaton = automaton_of(f'root ::= r0 "b"\n{rules}\nr5000 ::= "a"')
    assert automaton.accepting[automaton.step(automaton.start, b"ab")]
    assert automaton.continuations < 5


def test_positions_of_a_state_are_the_places_before_its_terminals():
    automaton = automaton_of('root ::= "a" "b" | "a" "c"')
    assert len(automaton.positions(automaton.start)) == 1
    assert len(automaton.positions(automaton.step(automaton.start, b"a"))) == 2
    assert automaton.positions(automaton.step(automaton.start, b"ab")) == frozenset()
