"""Masks, token by token against the textbook recognizer, and against right masks known from elsewhere."""

from __future__ import annotations

import re

import numpy as np
import pytest
import token_cases
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import grammars, small_vocabulary, vocabulary_of
from token_cases import CASES, Case

from oracle.automaton import DEAD
from oracle.earley import InputToken, Recognizer
from oracle.gbnf import GrammarError, parse
from oracle.mask import Oracle
from oracle.vocabulary import Vocabulary, read_vocabulary
from tracker.audits.engines.expressions import Either, InOrder, OneOf, Rules, Text, Times, WholeToken

VOCABULARY = small_vocabulary()
END = len(VOCABULARY) - 1
TERMINALS = (ord("a"), 258, 265, END, 256, 0x80)


def by_definition(rules: Rules, path: list[int]) -> tuple[list[int], bool]:
    """Allowed tokens and end, each asked of the textbook recognizer from scratch."""
    recognizer = Recognizer(parse(rules.gbnf()), VOCABULARY.ids_by_text, end_tokens=[END])
    before = [InputToken(token, VOCABULARY.pieces[token]) for token in path]
    allowed = [
        token
        for token, piece in enumerate(VOCABULARY.pieces)
        if recognizer.viable([*before, InputToken(token, piece)])
    ]
    return allowed, recognizer.member(before)


ANY_TOKEN = Rules((Times(Either((WholeToken(ord("a"), negated=True), Text("ab"))), 0, None),))
STRING = Rules((InOrder((Text("a"), Times(OneOf(((0x61, 0x61),), negated=True), 0, None), Text("a"))),))


@given(grammars(tokens=TERMINALS), st.lists(st.integers(0, END), max_size=2))
@settings(max_examples=25, deadline=None)
@example(ANY_TOKEN, [0x62])
@example(STRING, [0x61, 0xE4])
@example(STRING, [0x61])
def test_a_mask_is_right_in_every_token_of_a_small_vocabulary(rules, path):
    oracle = Oracle(rules.gbnf(), VOCABULARY)
    state = oracle.walk(path)
    mask = oracle.mask(state)
    allowed, end = by_definition(rules, path)
    assert np.flatnonzero(mask.tokens).tolist() == allowed, rules.gbnf()
    assert mask.eos == end


@given(grammars(tokens=TERMINALS), st.lists(st.integers(0, END), max_size=2))
@settings(max_examples=40, deadline=None)
@example(ANY_TOKEN, [0x62])
def test_successors_are_the_states_of_single_steps(rules, path):
    oracle = Oracle(rules.gbnf(), VOCABULARY)
    state = oracle.walk(path)
    assert oracle.successors(state).tolist() == [
        oracle.step(state, token) for token in range(len(VOCABULARY))
    ]


@given(
    grammars(),
    st.lists(st.binary(max_size=5), min_size=1, max_size=60),
    st.lists(st.integers(0, 2**16), max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_a_mask_is_the_same_whatever_was_asked_before(rules, pieces, choices):
    """Sparse and dense walks, states met in another order, masks remembered or computed afresh."""
    vocabulary = vocabulary_of([*pieces, b"a", b"b", "é".encode(), "世".encode()])
    used, fresh = Oracle(rules.gbnf(), vocabulary), Oracle(rules.gbnf(), vocabulary)
    state = used.start
    for choice in choices:
        allowed = np.flatnonzero(used.mask(state).tokens)
        if len(allowed):
            state = used.step(state, int(allowed[choice % len(allowed)]))
    for oracle, here in ((used, state), (used, used.start), (fresh, fresh.start), (used, state)):
        following = [oracle.automaton.step(here, piece) if piece else DEAD for piece in vocabulary.pieces]
        assert oracle.compute_mask(here).tokens.tolist() == [one != DEAD for one in following]
        assert oracle.mask(here).tokens.tolist() == [one != DEAD for one in following]
        assert oracle.successors(here).tolist() == following


@pytest.mark.parametrize("case", CASES)
def test_masks_and_successors_have_the_hand_made_answers_about_token_terminals(case: Case):
    pieces = [b"?"] * 100
    pieces[7], pieces[token_cases.END] = b"<t>", b"<end>"
    for token, data in case.tokens:
        pieces[token] = data
    oracle = Oracle(case.text, vocabulary_of(pieces, frozenset({token_cases.END})))
    *before, (last, _) = case.tokens
    state = oracle.walk([token for token, _ in before])
    assert oracle.mask(state).tokens[last] == case.viable
    following = int(oracle.successors(state)[last])
    assert (following != DEAD) == case.viable
    assert oracle.mask(following).eos == case.member


def test_the_dead_state_allows_nothing():
    oracle = Oracle('root ::= !<[3]> "a"', VOCABULARY)
    mask = oracle.mask(DEAD)
    assert not mask.tokens.any() and not mask.eos
    assert oracle.walk([ord("a"), ord("b"), ord("c")]) == DEAD


def test_equal_pieces_and_pieces_within_others_get_their_own_answers():
    oracle = Oracle('root ::= "abc"', vocabulary_of([b"a", b"ab", b"a", b"abc", b"abcd", b"", b"b", b"ab"]))
    assert oracle.mask(oracle.start).tokens.tolist() == [True, True, True, True, False, False, False, True]


def test_a_negated_token_terminal_matches_no_end_token_and_every_other_also_without_text():
    mask = Oracle("root ::= !<[3]>", VOCABULARY).mask(1)
    missing = set(np.flatnonzero(~mask.tokens).tolist())
    assert missing == {3, END}
    without_ends = Oracle("root ::= !<[3]>", VOCABULARY, end_tokens=frozenset()).mask(1)
    assert set(np.flatnonzero(~without_ends.tokens).tolist()) == {3}


def test_masks_are_remembered_up_to_a_number():
    oracle = Oracle('root ::= "abcabcabc"', VOCABULARY, remember=2)
    first = oracle.mask(oracle.start)
    assert oracle.mask(oracle.start) is first
    for size in range(1, 4):
        oracle.mask(oracle.automaton.step(oracle.start, b"abc"[:size]))
    again = oracle.mask(oracle.start)
    assert again is not first and np.array_equal(again.tokens, first.tokens)


def test_a_mask_that_was_given_out_stays_as_it_was():
    oracle = Oracle("root ::= [a-c]* . [x-z]+", VOCABULARY)
    first = oracle.compute_mask(oracle.start)
    kept = first.tokens.copy()
    following = oracle.successors(oracle.start)
    kept_following = following.copy()
    for data in (b"a", b"xx", "é".encode()):
        oracle.compute_mask(oracle.automaton.step(oracle.start, data))
        oracle.successors(oracle.automaton.step(oracle.start, data))
    assert np.array_equal(first.tokens, kept)
    assert np.array_equal(following, kept_following)


def test_a_grammar_with_an_error_is_refused_with_its_place():
    with pytest.raises(GrammarError, match="line 1, column 10"):
        Oracle("root ::= <nobody>", VOCABULARY)


# -- the Qwen2.5 vocabulary ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def qwen(vocabulary_file) -> Vocabulary:
    return read_vocabulary(vocabulary_file)


def matching(vocabulary: Vocabulary, pattern: bytes) -> set[int]:
    """Tokens whose bytes match a pattern wholly."""
    compiled = re.compile(pattern, re.DOTALL)
    return {token for token, piece in enumerate(vocabulary.pieces) if compiled.fullmatch(piece)}


def allowed_after(vocabulary: Vocabulary, text: str, output: str) -> tuple[set[int], bool, Oracle]:
    oracle = Oracle(text, vocabulary)
    mask = oracle.mask(oracle.automaton.step(oracle.start, bytes.fromhex(output)))
    return set(np.flatnonzero(mask.tokens).tolist()), mask.eos, oracle


def single_bytes(vocabulary: Vocabulary, allowed: set[int]) -> set[int]:
    return {vocabulary.pieces[token][0] for token in allowed if len(vocabulary.pieces[token]) == 1}


def span(low: int, high: int) -> set[int]:
    return set(range(low, high + 1))


def test_lower_case_words_are_16833_tokens(qwen):
    allowed, eos, _ = allowed_after(qwen, "root ::= [a-z]+", "")
    assert len(allowed) == 16_833 and not eos
    assert allowed == matching(qwen, rb"[a-z]+")


def test_leaving_out_one_letter_differs_in_432_tokens(qwen):
    wide, _, _ = allowed_after(qwen, "root ::= [a-z]+", "")
    narrow, _, _ = allowed_after(qwen, "root ::= [a-y]+", "")
    assert narrow < wide and len(wide - narrow) == 432


CHOICE = r'root ::= ("\u4e16" | "\U0001F600")'


@pytest.mark.parametrize(
    ("text", "output", "next_bytes"),
    [
        (CHOICE, "", {0xE4, 0xF0}),
        (CHOICE, "f0", {0x9F}),
        (CHOICE, "e4", {0xB8}),
        (r'root ::= "\U0001F600"', "f0", {0x9F}),
        ("root ::= [^a]", "e0", span(0xA0, 0xBF)),
        ("root ::= .", "ed", span(0x80, 0x9F)),
        ("root ::= .", "f0", span(0x90, 0xBF)),
        ("root ::= .", "f4", span(0x80, 0x8F)),
        (r"root ::= [\u4e00-\u9fff\U0001F300-\U0001F5FF]+", "f0", {0x9F}),
    ],
)
def test_inside_a_character_only_bytes_that_finish_a_member_are_right(qwen, text, output, next_bytes):
    allowed, eos, _ = allowed_after(qwen, text, output)
    assert single_bytes(qwen, allowed) == next_bytes and not eos


@pytest.mark.parametrize(
    ("output", "tokens"), [("f0", 98), ("ed", 78), ("e0", 65)]
)  # fmt: skip
def test_inside_a_json_string_the_numbers_measured_elsewhere_hold(qwen, output, tokens):
    text = r'root ::= "\"" [^"\\\x7F\x00-\x1F]* "\""'
    assert len(allowed_after(qwen, text, "22" + output)[0]) == tokens


def test_after_f4_any_text_allows_34_tokens_and_in_the_ideographs_after_f0_one(qwen):
    assert len(allowed_after(qwen, "root ::= .+", "f4")[0]) == 34
    assert len(allowed_after(qwen, r"root ::= [\u4e00-\u9fff\U0001F300-\U0001F5FF]+", "f0")[0]) == 1
    assert len(allowed_after(qwen, CHOICE, "f0")[0]) == 1


def test_an_overlong_form_of_a_member_is_not_viable(qwen):
    _, _, oracle = allowed_after(qwen, CHOICE, "")
    assert oracle.automaton.step(oracle.start, bytes.fromhex("f084")) == DEAD


def test_any_character_begins_with_every_byte_that_may_lead(qwen):
    leads = span(0x00, 0x7F) | span(0xC2, 0xF4)
    allowed, _, _ = allowed_after(qwen, "root ::= .", "")
    assert single_bytes(qwen, allowed) == {b for b in leads if b in qwen.single_bytes}
    assert 0 in single_bytes(qwen, allowed)


def test_leaving_out_one_character_leaves_its_beginnings_in(qwen):
    allowed, _, _ = allowed_after(qwen, r"root ::= [^\u4e16]", "")
    spelled = {qwen.pieces[token] for token in allowed}
    assert b"\xe4" in spelled and b"\xe4\xb8" in spelled
    assert "世".encode() not in spelled and "丗".encode()[:2] in spelled


def test_the_end_is_not_right_inside_a_character(qwen):
    text = r'root ::= "a" [\u4e00-\u9fff]*'
    assert not allowed_after(qwen, text, "61e4")[1]
    assert allowed_after(qwen, text, "61")[1] and allowed_after(qwen, text, "61e4b896")[1]


def test_text_that_spells_an_end_token_is_text(qwen):
    allowed, _, _ = allowed_after(qwen, 'root ::= "<s>x</s>"', "3c733e78")
    assert {qwen.pieces[token] for token in allowed} == {b"<", b"</", b"</s", b"</s>"} & set(qwen.pieces)
    assert b"</s>" in qwen.pieces


def test_any_token_but_one_is_every_token_that_does_not_end_the_generation(qwen):
    allowed, _, oracle = allowed_after(qwen, "root ::= !<|im_start|>", "")
    assert set(range(len(qwen))) - allowed == {151644} | oracle.end_tokens
    assert qwen.pieces[151644] == b"<|im_start|>"


def test_any_text_is_every_token_whose_bytes_begin_a_text(qwen):
    allowed, eos, _ = allowed_after(qwen, "root ::= .*", "")
    assert eos

    def begins_a_text(piece: bytes) -> bool:
        try:
            piece.decode("utf-8")
        except UnicodeDecodeError as error:
            return error.reason == "unexpected end of data"
        return bool(piece)

    assert allowed == {token for token, piece in enumerate(qwen.pieces) if begins_a_text(piece)}
