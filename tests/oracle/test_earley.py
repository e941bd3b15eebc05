"""The textbook recognizer against definitions: derivatives, sets of strings, hand-made cases."""

from __future__ import annotations

import itertools

import pytest
from enumeration import short_strings
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import grammars, texts_over
from token_cases import CASES, END, TOKENS, Case

from oracle.earley import InputToken, Recognizer
from oracle.gbnf import parse
from tracker.audits.engines.brute import BruteForce
from tracker.audits.engines.drawing import CHARACTERS


@given(grammars(recursive=False), st.lists(texts_over(CHARACTERS, 3), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_it_agrees_with_derivatives_by_brute_force_on_regular_grammars(rules, inputs):
    recognizer = Recognizer(parse(rules.gbnf()))
    brute = BruteForce(rules)
    for data in inputs:
        ours = (recognizer.viable(data), recognizer.member(data))
        assert ours == brute.ask(data), (rules.gbnf(), data)


@given(grammars(characters="ab", rules=4))
@settings(max_examples=100, deadline=None)
def test_its_members_and_prefixes_are_those_that_the_rules_generate(rules):
    recognizer = Recognizer(parse(rules.gbnf()))
    short = short_strings(rules, "ab", 4)
    for size in range(5):
        for letters in itertools.product("ab", repeat=size):
            word = "".join(letters)
            assert recognizer.member(word.encode()) == (word in short.members), (rules.gbnf(), word)
            assert recognizer.viable(word.encode()) == (word in short.prefixes), (rules.gbnf(), word)


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ('root ::= root root | "a"', ["a", "aa", "aaaaa"], ["", "b"]),
        ('root ::= root root | "a" |', ["", "a", "aaa"], ["b"]),
        ("root ::= root", [], ["", "a"]),
        ('root ::= root | "a"', ["a"], ["", "aa"]),
        ('root ::= x\nx ::= y | "a"\ny ::= root', ["a"], ["", "aa"]),
        ('root ::= "a" root "b" |', ["", "ab", "aaabbb"], ["aab", "ba"]),
        ('root ::= "a" root "a" | "b" root "b" |', ["", "abba", "aabbaa"], ["ab", "aba"]),
        ('root ::= x x x "a"\nx ::= | y\ny ::= x', ["a"], ["", "aa"]),
        ('root ::= ("a" | "b"*)* "c"', ["c", "abbac"], ["ab"]),
        ('root ::= x{2} "b"\nx ::= | "a"', ["b", "ab", "aab"], ["aaab"]),
        ("root ::= [\\u4e16\\U0001f600]", ["世", "😀"], ["丗", "a"]),
    ],
)
def test_hand_made_languages(text, good, bad):
    recognizer = Recognizer(parse(text))
    assert [one for one in good if not recognizer.member(one.encode())] == []
    assert [one for one in bad if recognizer.member(one.encode())] == []


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ('root ::= "a" []', b"a"),
        ('root ::= "a" x\nx ::= "b" x', b"ab"),
        ('root ::= "a" "\\ud800"', b"a"),
        ('root ::= "a" x | "b"\nx ::= x "c"', b"a"),
    ],
)
def test_what_can_never_be_finished_is_not_viable(text, dead):
    assert not Recognizer(parse(text)).viable(dead)


@pytest.mark.parametrize("case", CASES)
def test_a_token_terminal_takes_one_whole_token_and_never_its_bytes(case: Case):
    recognizer = Recognizer(parse(case.text), TOKENS, end_tokens=[END])
    tokens = [InputToken(id, data) for id, data in case.tokens]
    assert recognizer.viable(tokens) == case.viable
    assert recognizer.member(tokens) == case.member


def test_bytes_that_came_from_no_token_match_no_token_terminal():
    for text in ("root ::= <[7]>", "root ::= !<[1]>"):
        assert not Recognizer(parse(text), TOKENS).viable([InputToken(None, b"<t>")])
