"""Cross-oracles: they agree at a small size, and each of them notices a planted fault."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.automaton import Automaton
from oracle.gbnf import parse
from oracle.lowering import lower
from oracle.mask import Oracle
from oracle.vocabulary import read_vocabulary
from tracker.audits.engines import comparisons, xgrammar_engine
from tracker.audits.engines.brute import BruteForce, encodings_beginning
from tracker.audits.engines.comparisons import (
    HIDDEN_BYTES,
    compare_masks,
    compare_prefixes,
    compare_with_textbook,
    llguidance_fault,
)
from tracker.audits.engines.drawing import Seeded, Shape, draw_rules
from tracker.audits.engines.expressions import InOrder, OneOf, Rules, Text, Times
from tracker.audits.engines.lark_engine import LarkEarley
from tracker.audits.engines.lark_text import NoLanguage, for_lark
from tracker.audits.engines.llguidance_engine import Llguidance
from tracker.audits.engines.run import Budget, run_cross_oracles
from tracker.audits.engines.tally import EngineGaveUp, Opinion, Tally
from tracker.audits.grammar.corpus import load_corpus
from tracker.synthetic_vocabulary import synthetic_vocabulary

VOCABULARY = synthetic_vocabulary()
LLGUIDANCE = Llguidance(VOCABULARY)
SMALL = Budget(
    brute=50,
    textbook=40,
    llguidance=60,
    lark=3,
    xgrammar=10,
    walks=4,
    whole=0,
    required_pairs=1_000,
    required_whole=0,
)


def test_all_parties_agree_at_a_small_size():
    controls = run_cross_oracles(SMALL, VOCABULARY)
    assert [control.name for control in controls if not control.passed] == []
    assert len(controls) == (5 if xgrammar_engine.missing() else 6)
    total = controls[-1].figures
    assert total["pairs"] == sum(control.figures["pairs"] for control in controls[:-1]) > 1_000
    assert total["mismatches"] == 0


def test_too_few_comparisons_are_no_agreement():
    few = Budget(1, 1, 1, 1, 1, 1, 0, required_pairs=1_000, required_whole=0)
    assert not run_cross_oracles(few, VOCABULARY)[-1].passed


def test_a_missing_engine_is_no_agreement(monkeypatch):
    found = comparisons.__spec__
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name in ("llguidance", "lark") else found
    )
    controls = run_cross_oracles(Budget(1, 1, 1, 1, 1, 1, 0, 1, 0), VOCABULARY)
    missing = [control for control in controls if not control.passed]
    assert {control.name for control in missing} == {"cross-oracle: llguidance", "cross-oracle: lark"}
    assert all("pip install" in control.detail for control in missing)


def test_a_seed_draws_grammars_that_no_other_seed_draws():
    def drawn(seed):
        return [draw_rules(replace(SMALL, seed=seed).source(number), Shape()).gbnf() for number in range(20)]

    assert drawn(0) == drawn(0)
    assert len({*drawn(0), *drawn(1), *drawn(2)}) > 50


@given(st.integers(1, 2**40))
@settings(max_examples=15, deadline=None)
def test_all_parties_agree_whatever_the_seed(seed):
    few = replace(SMALL, brute=4, textbook=3, llguidance=6, lark=0, xgrammar=4, required_pairs=1, seed=seed)
    total = run_cross_oracles(few, VOCABULARY)[-1]
    assert total.figures["mismatches"] == 0, total.detail


# -- each comparison notices a fault -------------------------------------------------------------------------

RIGHT = Rules((InOrder((Text("a"), Times(OneOf(((0x61, 0x7A), (0x4E00, 0x4E20))), 0, 2))),))
WRONG = 'root ::= "a" [a-z\\u4e00-\\u4e1f]{0,2}'
"""As RIGHT, without U+4E20."""


def test_brute_force_notices_a_character_that_is_missing():
    tally = Tally("planted")
    automaton = Automaton(lower(parse(RIGHT.gbnf())))
    compare_prefixes(tally, "right", automaton, BruteForce(RIGHT), Seeded(1), 200)
    assert not tally.mismatches and tally.control(10).passed
    narrower = Rules((InOrder((Text("a"), Times(OneOf(((0x61, 0x7A), (0x4E00, 0x4E1F))), 0, 2))),))
    for seed in range(20):
        compare_prefixes(tally, "wrong", automaton, BruteForce(narrower), Seeded(seed), 200)
    assert tally.mismatches and not tally.control(10).passed


def test_lark_notices_a_character_that_is_missing():
    tally = Tally("planted")
    automaton = Automaton(lower(parse(RIGHT.gbnf())))
    compare_prefixes(tally, "right", automaton, LarkEarley(parse(RIGHT.gbnf())), Seeded(1), 30)
    assert not tally.mismatches
    for seed in range(20):
        compare_prefixes(tally, "wrong", automaton, LarkEarley(parse(WRONG)), Seeded(seed), 20)
    assert tally.mismatches


def test_llguidance_notices_a_character_that_is_missing_in_one_mask():
    tally = Tally("planted")
    oracle = Oracle(RIGHT.gbnf(), VOCABULARY)
    compare_masks(tally, "right", oracle, LLGUIDANCE.start(oracle.grammar), Seeded(1), 4, 4)
    assert not tally.mismatches and tally.pairs > 4
    compare_masks(tally, "wrong", oracle, LLGUIDANCE.start(parse(WRONG)), Seeded(1), 20, 4)
    assert tally.mismatches and "only here" in tally.mismatches[0]


def test_the_textbook_recognizer_notices_a_grammar_that_differs():
    tally = Tally("planted")
    oracle = Oracle(RIGHT.gbnf(), VOCABULARY)
    compare_with_textbook(tally, "right", oracle.grammar, oracle, Seeded(1), 40)
    assert not tally.mismatches
    compare_with_textbook(tally, "wrong", parse('root ::= "a" [a-y]{0,2}'), oracle, Seeded(1), 400)
    assert tally.mismatches


def test_an_end_that_differs_is_noticed_without_any_token_that_does():
    tally = Tally("planted")
    oracle = Oracle('root ::= "a" "b"?', VOCABULARY)
    compare_masks(tally, "end", oracle, LLGUIDANCE.start(parse('root ::= "ab"')), Seeded(1), 1, 3)
    assert "end True here, False there" in tally.mismatches[0]


# -- the documented faults of the other engine ---------------------------------------------------------------


def test_llguidance_forgets_the_bytes_of_a_token_that_a_terminal_takes_and_this_is_told_apart():
    text = 'root ::= "ab" | <[97]>'
    oracle = Oracle(text, VOCABULARY)
    matcher = LLGUIDANCE.start(oracle.grammar).after([97])
    state = oracle.walk([97])
    assert oracle.mask(state).tokens[98] and not matcher.mask()[0][98]
    tally = Tally("planted")
    start, explain = LLGUIDANCE.start(oracle.grammar), partial(llguidance_fault, oracle)
    compare_masks(tally, text, oracle, start, Seeded(3), 40, 2, explain)
    assert tally.explained[HIDDEN_BYTES] and not tally.mismatches


class _WrongBytes(Oracle):
    """An oracle with a fault of its own: token 97, also taken by a terminal, is followed as byte ``b``."""

    def step(self, state: int, token: int) -> int:
        if token == 97:
            return self.automaton.step_token(state, 97, b"b", is_end=False)
        return super().step(state, token)

    def walk(self, path):
        state = self.start
        for token in path:
            state = self.step(state, token)
        return state


def test_a_fault_of_the_oracle_behind_a_token_terminal_is_not_taken_for_one_of_llguidance():
    text = 'root ::= <[97]> "x" | "b" "c"'
    oracle = _WrongBytes(text, VOCABULARY)
    tally = Tally("planted")
    start, explain = LLGUIDANCE.start(oracle.grammar), partial(llguidance_fault, oracle)
    compare_masks(tally, text, oracle, start, Seeded(3), 40, 2, explain)
    assert tally.mismatches and not tally.explained


def test_two_token_terminals_that_take_one_token_are_both_followed():
    oracle = Oracle('root ::= <[97]> "a" | !<[98]> "b"', VOCABULARY)
    allowed, _ = LLGUIDANCE.start(oracle.grammar).after([97]).mask()
    assert np.array_equal(allowed, oracle.mask(oracle.walk([97])).tokens)
    assert allowed[97] and allowed[98]


def test_what_llguidance_says_when_it_gives_up_is_one_line():
    with pytest.raises(EngineGaveUp) as raised:
        LLGUIDANCE.start(parse('root ::= "a"')).after([98])
    assert str(raised.value) and "\n" not in str(raised.value)


# -- the parts -----------------------------------------------------------------------------------------------


def test_a_grammar_without_any_string_cannot_be_said_in_larks_notation():
    for text in ("root ::= []", "root ::= root", 'root ::= "a" x\nx ::= "b" x'):
        with pytest.raises(NoLanguage):
            for_lark(parse(text))
        with pytest.raises(NoLanguage):
            LLGUIDANCE.start(parse(text))


def test_the_codec_begins_every_lead_with_its_first_and_last_character():
    found = encodings_beginning()
    assert found[b"\xf0"] == (0x10000, 0x3FFFF)
    assert found[b"\xe4\xb8"] == (0x4E00, 0x4E3F)
    assert found[b"\xed"] == (0xD000, 0xD7FF)
    assert b"\xc0" not in found and b"\xf5" not in found and b"\xed\xa0" not in found


@pytest.mark.parametrize(
    ("data", "opinion"),
    [
        (b"", Opinion(True, False)),
        (b"a", Opinion(True, True)),
        (b"a\xe4", Opinion(True, False)),
        (b"a\xe4\xb8\xa0", Opinion(True, True)),
        (b"a\xe4\xb8\xa1", Opinion(False, False)),
        (b"a\xe4\xb9", Opinion(False, False)),
        (b"aaaa", Opinion(False, False)),
        (b"\xff", Opinion(False, False)),
        (b"a\xf0", Opinion(False, False)),
    ],
)
def test_brute_force_and_lark_on_hand_made_answers(data, opinion):
    assert BruteForce(RIGHT).ask(data) == opinion
    assert LarkEarley(parse(RIGHT.gbnf())).ask(data) == opinion


@given(st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_a_seed_draws_one_grammar_and_it_is_a_grammar(seed):
    shape = Shape(tokens=(1, 2))
    rules = draw_rules(Seeded(seed), shape)
    assert rules == draw_rules(Seeded(seed), shape)
    parse(rules.gbnf())


def test_drawn_grammars_are_of_all_kinds():
    texts = [draw_rules(Seeded(seed), Shape(tokens=(5,))).gbnf() for seed in range(300)]
    for mark in (
        "<[5]>",
        "!<[5]>",
        "[^",
        '""',
        "{",
        "*",
        "\u07ff",
        "\\U0010ffff",
        "\\x00",
        "root",
        "r1",
        "|",
    ):
        assert sum(mark in text.split("::=", 1)[1] for text in texts) >= 5, mark


@pytest.mark.extended
def test_the_corpus_has_the_masks_of_llguidance_over_the_whole_vocabulary(vocabulary_file: Path):
    named = [(entry.name, entry.text) for entry in load_corpus()]
    budget = Budget(1, 1, 1, 1, 1, 1, whole=12, required_pairs=1, required_whole=150)
    controls = run_cross_oracles(budget, VOCABULARY, read_vocabulary(vocabulary_file), named)
    assert [control.detail for control in controls if not control.passed] == []
