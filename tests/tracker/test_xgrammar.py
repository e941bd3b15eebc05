"""xgrammar as a party: its text, its faults at their smallest, and that a comparison with it can fail."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import numpy as np
import pytest

from oracle import gbnf
from oracle.gbnf import parse
from oracle.mask import Mask, Oracle
from oracle.vocabulary import read_vocabulary
from tracker.audits.engines import xgrammar_engine
from tracker.audits.engines.comparisons import compare_masks
from tracker.audits.engines.drawing import Seeded, Shape, draw_rules
from tracker.audits.engines.lark_text import NoLanguage
from tracker.audits.engines.run import Budget, run_cross_oracles, xgrammar_drawn, xgrammar_named
from tracker.audits.engines.tally import EngineGaveUp, Tally
from tracker.audits.engines.xgrammar_faults import (
    MASK_AGAINST_PARSER,
    SURROGATES_ALLOWED,
    SurrogateReading,
    XgrammarFaults,
)
from tracker.audits.engines.xgrammar_text import for_xgrammar, reads_alike, respelled
from tracker.audits.grammar.corpus import load_corpus
from tracker.synthetic_vocabulary import synthetic_vocabulary

VOCABULARY = synthetic_vocabulary()
IDS = VOCABULARY.ids_by_text
needed = pytest.mark.skipif(xgrammar_engine.missing() is not None, reason=str(xgrammar_engine.missing()))
BUDGET = Budget(1, 1, 1, 1, xgrammar=60, walks=4, whole=12, required_pairs=1, required_whole=1)


@pytest.fixture(scope="module")
def engine():
    return xgrammar_engine.Xgrammar(VOCABULARY)


def allowed(matcher):
    tokens, end = matcher.mask()
    return {VOCABULARY.pieces[token] for token in np.flatnonzero(tokens)}, end


# -- having it or not ----------------------------------------------------------------------------------------


def test_without_it_the_control_goes_on_and_says_in_one_line_how_to_have_it(monkeypatch):
    asked = importlib.metadata.version

    def version(name):
        if name == "xgrammar":
            raise importlib.metadata.PackageNotFoundError(name)
        return asked(name)

    monkeypatch.setattr("importlib.metadata.version", version)
    said: list[str] = []
    controls = run_cross_oracles(Budget(1, 1, 1, 1, 1, 1, 0, 1, 0), VOCABULARY, tell=said.append)
    assert not any("xgrammar" in control.name for control in controls)
    (line,) = [line for line in said if "xgrammar" in line]
    assert "pip install --no-deps xgrammar==" in line and "\n" not in line


def test_another_version_is_not_used_since_its_faults_are_not_known(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.1.0")
    assert "0.1.0 is installed" in str(xgrammar_engine.missing())


@needed
def test_no_module_stands_in_for_torch_or_for_xgrammars_own_package(engine):
    assert engine.start('root ::= "a"', parse('root ::= "a"'))
    assert not {"xgrammar", "transformers"} & sys.modules.keys()
    assert "torch" not in sys.modules or sys.modules["torch"].__spec__ is not None


# -- the comparison ------------------------------------------------------------------------------------------


@needed
def test_drawn_grammars_have_its_masks_and_it_reads_many_from_their_own_text():
    tally = xgrammar_drawn(BUDGET, VOCABULARY)
    assert tally.control(500).passed, tally.control(500).detail
    assert tally.own_text >= 15
    assert not tally.gave_up


@needed
def test_a_character_that_is_missing_is_noticed(engine):
    right, wrong = 'root ::= "a" [a-z\\u4e00-\\u4e20]{0,2}', 'root ::= "a" [a-z\\u4e00-\\u4e1f]{0,2}'
    oracle = Oracle(right, VOCABULARY)
    for text, agree in ((right, True), (wrong, False)):
        tally = Tally("planted")
        matcher = engine.start(text, parse(text))
        compare_masks(tally, text, oracle, matcher, Seeded(1), 20, 4, XgrammarFaults(oracle, matcher))
        assert (not tally.mismatches) is agree and tally.pairs > 4
    assert "only here" in tally.mismatches[0]


@needed
def test_a_fault_of_our_parser_is_noticed_since_it_reads_the_text_itself(monkeypatch):
    named = [(entry.name, entry.text) for entry in load_corpus()]
    right = xgrammar_named(BUDGET, VOCABULARY, named)
    assert not right.mismatches and right.own_text >= 20
    monkeypatch.setitem(gbnf._REPETITIONS, "*", (1, None))
    assert any("json-ascii" in line for line in xgrammar_named(BUDGET, VOCABULARY, named).mismatches)


@needed
def test_a_fault_of_the_oracle_is_not_taken_for_one_of_xgrammar(engine):
    # What differs by the grammar stands beside what differs by the faults of xgrammar.
    for here, there in (
        ("root ::= [^ab]", "root ::= [^a]"),
        ("root ::= [^a]", "root ::= [^ab]"),
        ('root ::= "" | "b" root "c"', 'root ::= "" | "b" root "a"'),
        ('root ::= [^a] "b"', 'root ::= [^a] "b"?'),
    ):
        oracle = Oracle(here, VOCABULARY)
        matcher = engine.start(there, parse(there))
        tally = Tally("planted")
        compare_masks(tally, here, oracle, matcher, Seeded(1), 20, 4, XgrammarFaults(oracle, matcher))
        assert tally.mismatches, there


@needed
def test_a_token_that_the_oracle_loses_is_not_booked_as_surrogates(engine, monkeypatch):
    # The reading with surrogates is computed over another vocabulary, which does not have the planted fault.
    text = "root ::= [^a] [^x]*"
    oracle = Oracle(text, VOCABULARY)
    matcher = engine.start(text, oracle.grammar)
    lost, right = IDS[b"bc"], Oracle.mask

    def mask(self, state):
        found = right(self, state)
        if self.vocabulary is not VOCABULARY:
            return found
        tokens = found.tokens.copy()
        tokens[lost] = False
        return Mask(tokens, found.eos)

    monkeypatch.setattr(Oracle, "mask", mask)
    tally = Tally("planted")
    compare_masks(tally, text, oracle, matcher, Seeded(1), 4, 1, XgrammarFaults(oracle, matcher))
    assert tally.mismatches and not tally.explained


# -- its faults, each at its smallest ------------------------------------------------------------------------


@needed
def test_surrogates_count_as_characters_and_exactly_this_is_predicted(engine):
    text = "root ::= [^a]"
    oracle = Oracle(text, VOCABULARY)
    lead = [IDS[b"\xed"]]
    matcher = engine.start(text, oracle.grammar)
    assert matcher.as_written
    tokens, end = matcher.after(lead).mask()
    assert tokens[IDS[b"\xa0"]] and not oracle.mask(oracle.walk(lead)).tokens[IDS[b"\xa0"]]
    assert np.array_equal(SurrogateReading(oracle).mask(lead).tokens, tokens)
    assert XgrammarFaults(oracle, matcher)(lead, tokens, end) == SURROGATES_ALLOWED
    assert XgrammarFaults(oracle, matcher)(lead, tokens, not end) is None


@needed
@pytest.mark.parametrize(
    ("text", "path", "token", "in_mask"),
    [
        ('root ::= "" | "b" root "a"', [b"b", b"b"], b"aa", False),
        ("root ::= [\\u0800]? [a-z]", [], b"\xe0\xa0\x80\xe0", True),
    ],
)
def test_a_mask_contradicts_the_parser_which_is_right(engine, text, path, token, in_mask):
    oracle = Oracle(text, VOCABULARY)
    tokens = [IDS[piece] for piece in path]
    matcher = engine.start(text, oracle.grammar)
    mask, end = matcher.after(tokens).mask()
    assert mask[IDS[token]] == in_mask
    assert matcher.accepts(tokens, [IDS[token]]) == [not in_mask]
    assert oracle.mask(oracle.walk(tokens)).tokens[IDS[token]] == (not in_mask)
    assert XgrammarFaults(oracle, matcher)(tokens, mask, end) == MASK_AGAINST_PARSER


@needed
@pytest.mark.parametrize(
    ("text", "path", "right", "wrong"),
    [
        # Left recursion through what may be empty loses strings.
        ('root ::= root "b" | ""', [], {b"b", b"bb"}, {b"b"}),
        # What cannot be finished is begun.
        ('root ::= "a" | "b" []', [], {b"a"}, {b"a", b"b"}),
        # \x takes all hex digits that follow.
        ('root ::= "\\x00b"', [], {b"\x00"}, {b"\x0b"}),
    ],
)
def test_what_it_reads_otherwise_is_printed_for_it(engine, text, path, right, wrong):
    grammar = parse(text)
    assert not reads_alike(text, grammar)
    written = xgrammar_engine.Matcher(engine, engine.compile(text), True)
    printed = engine.start(text, grammar).after(path)
    assert allowed(written.after(path))[0] == wrong
    assert allowed(printed)[0] - {b"\x00b"} == right


@needed
def test_its_negated_token_terminal_begins_inside_a_token_and_a_list_does_not(engine):
    text = 'root ::= "a" !<[97]>'
    written = xgrammar_engine.Matcher(engine, engine.compile('root ::= "a" ExcludeToken(97)'), True)
    assert b"ab" in allowed(written)[0]
    assert allowed(engine.start(text, parse(text)))[0] == {b"a"}


@needed
def test_it_loses_the_way_of_a_token_terminal_beside_that_of_the_tokens_bytes(engine):
    """Why drawn grammars are without token terminals here."""
    token = IDS[b"ac"]
    text = f'root ::= Token({token}) a a | "ac" a\na ::= "a"'
    there = xgrammar_engine.Matcher(engine, engine.compile(text), True).after([token])
    oracle = Oracle(f'root ::= <[{token}]> "aa" | "aca"', VOCABULARY)
    assert oracle.mask(oracle.walk([token])).tokens[IDS[b"aa"]]
    assert allowed(there)[0] == {b"a"}


@needed
def test_what_it_refuses_is_told_in_one_line(engine):
    with pytest.raises(EngineGaveUp) as raised:
        engine.compile("root ::= x")
    assert 'Rule "x" is not defined' in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(EngineGaveUp, match="not accepted"):
        engine.start('root ::= "a"', parse('root ::= "a"')).after([98])


@needed
def test_a_grammar_without_any_string_is_told_apart(engine):
    with pytest.raises(NoLanguage):
        engine.start("root ::= root", parse("root ::= root"))


# -- its notation, checked without it ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ('root ::= . "." [.] # .', 'root ::= [^] "." [.] # .'),
        ('root ::= | "a"', 'root ::= "" | "a"'),
        ('root ::= "::= |" | "a"', 'root ::= "::= |" | "a"'),
        ('root ::= "\\"." .', 'root ::= "\\"." [^]'),
        ("root ::= [\\].] .", "root ::= [\\].] [^]"),
    ],
)
def test_dots_and_first_alternatives_of_nothing_are_respelled(text, spelled):
    assert respelled(text) == spelled


@pytest.mark.parametrize(
    "text",
    [
        'root ::= "a" (x | "b"){2,3} [^c-d]* # <\nx ::= "y"+ | "z"?',
        'root ::= | "<" "!" "a"',
        "root ::= .",
        "root ::= [^a-\\ue000]",
        'root ::= "\\x0a b"',
    ],
)
def test_texts_that_xgrammar_reads_itself(text):
    assert reads_alike(text, parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "root ::= <[5]>",
        "root ::= !<[5]>",
        'root ::= "a"{,3}',
        'root ::= "a" |',
        'root ::= ("a" | )',
        'root ::= "a" | | "b"',
        "root ::= x\nx ::=",
        'root ::= "\\x0ab"',
        "root ::= [\\ud7ff\\ue000]",
        "root ::= [^\\U0000d7ff\\U0000e000]",
        "root ::= [a-\\ud900]",
        'root ::= root "a" | "b"',
        'root ::= x root | "a"\nx ::= "b"?',
        'root ::= "a" | "b" []',
        'root ::= "a"\nx ::= x',
    ],
)
def test_texts_that_are_printed_for_it(text):
    assert not reads_alike(text, parse(text))


@pytest.mark.parametrize("seed", range(60))
def test_what_is_printed_has_the_strings_of_the_grammar(seed):
    """Read back by our own parser, which reads what is printed where no token terminal is in it."""
    rules = draw_rules(Seeded(seed), Shape())
    oracle = Oracle(rules.gbnf(), VOCABULARY)
    if not oracle.mask(oracle.start).tokens.any():
        return
    printed = Oracle(for_xgrammar(oracle.grammar, IDS, ()), VOCABULARY)
    chance = Seeded(seed)
    state, other = oracle.start, printed.start
    for _ in range(6):
        here, there = oracle.mask(state), printed.mask(other)
        assert np.array_equal(here.tokens, there.tokens) and here.eos == there.eos
        tokens = np.flatnonzero(here.tokens)
        if not len(tokens):
            break
        token = int(tokens[chance.integer(0, len(tokens) - 1)])
        state, other = oracle.step(state, token), printed.step(other, token)


def test_the_reading_with_surrogates_is_right_where_there_are_none():
    for seed in range(20):
        text = draw_rules(Seeded(seed), Shape(characters="ab\u00e9\u4e16")).gbnf()
        if "[^" in text:
            continue
        oracle = Oracle(text, VOCABULARY)
        predicted = SurrogateReading(oracle).mask([])
        right = oracle.mask(oracle.start)
        assert np.array_equal(predicted.tokens, right.tokens) and predicted.eos == right.eos


@needed
@pytest.mark.extended
def test_the_corpus_has_its_masks_over_the_whole_vocabulary(vocabulary_file: Path):
    named = [(entry.name, entry.text) for entry in load_corpus()]
    control = xgrammar_named(BUDGET, read_vocabulary(vocabulary_file), named).control(300)
    assert control.passed, control.detail
    assert control.figures["own_text"] >= 20
