"""The textbook recognizer against definitions: derivatives, sets of strings, hand-made cases."""

from __future__ import annotations

import itertools

import pytest
from enumeration import short_strings
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import grammars, texts_over

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


TOKENS = {b"<t>": 7}


def token(id: int, data: bytes) -> InputToken:
    return InputToken(id, data)


@pytest.mark.parametrize(
    ("text", "tokens", "viable", "member"),
    [
        ("root ::= <[7]>", [token(7, b"<t>")], True, True),
        ("root ::= <t>", [token(7, b"<t>")], True, True),
        ("root ::= <[7]>", [token(1, b"<"), token(2, b"t>")], False, False),
        ("root ::= <[7]>", [InputToken(None, b"<t>")], False, False),
        ('root ::= "<t>"', [token(7, b"<t>")], True, True),
        ('root ::= <[7]> "a"', [token(7, b"<t>"), token(1, b"a")], True, True),
        ('root ::= "<" <[7]>', [token(9, b"<<t>")], False, False),
        ("root ::= !<[7]>", [token(8, b"xy")], True, True),
        ("root ::= !<[7]>", [token(7, b"<t>")], False, False),
        ("root ::= !<[7]>", [token(99, b"<end>")], False, False),
        ("root ::= <[99]>", [token(99, b"<end>")], True, True),
        ("root ::= <[5]>", [token(5, b"")], True, True),
        ('root ::= "a" <[5]>', [token(5, b"")], False, False),
        ("root ::= <[7]>*", [token(7, b"<t>")] * 3, True, True),
        ('root ::= <[7]> "b" | "<tt"', [token(7, b"<t")], True, False),
        ('root ::= <[7]> "b" | "<tt"', [token(7, b"<t"), token(1, b"t")], True, True),
        ('root ::= <[7]> "b" | "<tt"', [token(7, b"<t"), token(1, b"b")], True, True),
        ('root ::= <[7]> "b" | "<tt"', [token(7, b"<t"), token(1, b"x")], False, False),
        # A token that is both: its bytes reach the middle of a character, its id the end of the string.
        ("root ::= !<[7]> | .", [token(3, b"\xe4")], True, True),
    ],
)
def test_a_token_terminal_takes_one_whole_token_and_never_its_bytes(text, tokens, viable, member):
    recognizer = Recognizer(parse(text), TOKENS, end_tokens=[99])
    assert recognizer.viable(tokens) == viable
    assert recognizer.member(tokens) == member
