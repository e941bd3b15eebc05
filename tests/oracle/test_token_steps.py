"""Steps over all tokens at once, by slices and by levels, against single steps; what slices are shared by."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import grammars, texts_over

from oracle import slices, token_steps
from oracle.automaton import DEAD, Automaton
from oracle.gbnf import parse
from oracle.lowering import lower
from oracle.slices import Slices, neighbourhood, slices_of
from oracle.token_steps import TokenSteps
from oracle.vocabulary import Trie
from tracker.audits.engines.drawing import CHARACTERS
from tracker.audits.engines.expressions import Either, InOrder, OneOf, Rules, Text, Times
from tracker.synthetic_vocabulary import synthetic_vocabulary

VOCABULARY = synthetic_vocabulary()
STRING = Rules((InOrder((Text("a"), Times(OneOf(((0x61, 0x61),), negated=True), 0, None), Text("a"))),))
WORDS = Rules((Times(Either((OneOf(((0x61, 0x7A),)), Text(" "))), 1, None),))
SPACED = Rules((InOrder((Text("x "), Times(OneOf(((0x61, 0x7A),)), 1, None))),))
CAPPED = Rules((Times(OneOf(((0x20, 0x10FFFF),)), 2, 5),))


def automaton_of(text: str) -> Automaton:
    return Automaton(lower(parse(text)))


def one_by_one(automaton: Automaton, state: int, pieces: tuple[bytes, ...]) -> list[int]:
    return [automaton.step(state, piece) if piece else DEAD for piece in pieces]


NEVER = 1 << 40
THRESHOLDS = {
    "slices everywhere": (1, 1, 12, 48),
    "slices everywhere, numpy throughout": (1, 1, 0, 48),
    "slices where they pay": (40, 200, 12, 1),
    "no slices": (NEVER, NEVER, 12, 1),
    "no slices, numpy throughout": (NEVER, NEVER, 0, 48),
}


@pytest.fixture(params=THRESHOLDS)
def thresholds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in zip(("HEAVY", "WORTH_A_SLICE", "FEW", "WIDE"), THRESHOLDS[request.param], strict=True):
        monkeypatch.setattr(token_steps, name, value)
    return request.param


def test_all_tokens_at_once_are_where_single_steps_lead(thresholds):
    @given(grammars(), st.lists(texts_over(CHARACTERS, 3), min_size=1, max_size=3))
    @settings(max_examples=100, deadline=None)
    @example(STRING, [b"a", b"a\xe4", b"ab"])
    @example(WORDS, [b"", b"ab "])
    @example(CAPPED, [b"", b"x\xf0\x9f", b"xxxx"])
    @example(SPACED, [b"", b"x"])
    def check(rules, prefixes):
        automaton = automaton_of(rules.gbnf())
        steps = TokenSteps(automaton, VOCABULARY.trie)
        for data in prefixes:
            state = automaton.step(automaton.start, data)
            assert steps.after(state).tolist() == one_by_one(automaton, state, VOCABULARY.pieces), (
                rules.gbnf()
            )

    check()


def test_any_vocabulary_will_do(thresholds):
    pieces = st.lists(
        st.one_of(st.binary(max_size=4), st.text("ab é世", max_size=6).map(str.encode), st.just(b" " * 20)),
        min_size=1,
        max_size=80,
    )

    @given(grammars(), pieces)
    @settings(max_examples=100, deadline=None)
    @example(WORDS, [b" " * size for size in range(1, 40)])
    @example(SPACED, [b"a", b"x a", b"x ab", b"x abc", b"x aB", b"xa", b"x  a", b"y ab", b"x b"])
    @example(STRING, [b"aa", b"aa", b"", b"a\xe4\xb8\x96a", b"a\xe4\xb8\x96b"])
    def check(rules, pieces):
        automaton = automaton_of(rules.gbnf())
        steps = TokenSteps(automaton, Trie(pieces))
        state = automaton.start
        for _ in range(2):
            following = steps.after(state)
            assert following.tolist() == one_by_one(automaton, state, tuple(pieces)), rules.gbnf()
            state = int(following.max())

    check()


def test_a_string_is_read_off_slices_that_a_string_elsewhere_has_made(monkeypatch):
    made: list[bytes] = []
    make = Slices.make

    def counted(self: Slices, trie: Trie, signature: bytes, node: int):
        made.append(signature)
        return make(self, trie, signature, node)

    monkeypatch.setattr(Slices, "make", counted)
    monkeypatch.setattr(token_steps, "HEAVY", 100)
    monkeypatch.setattr(token_steps, "WORTH_A_SLICE", 300)
    trie = Trie(VOCABULARY.pieces)
    counts = []
    for text, before in (
        ('root ::= "\\"" [^"\\\\]* "\\"" [x-z]', b'"'),
        ('root ::= "[" s ("," s)* "]"\ns ::= "\\"" [^"\\\\]* "\\""', b'["a","'),
    ):
        automaton = automaton_of(text)
        TokenSteps(automaton, trie).after(automaton.step(automaton.start, before))
        counts.append(len(made))
    assert counts[0] > 0
    assert counts[1] == counts[0]


def test_strings_in_different_places_have_one_signature():
    automaton = automaton_of(
        'root ::= "{" s ":" v "}"\nv ::= s | "[" v ("," v)* "]" | root\ns ::= "\\"" [^"\\\\]* "\\""'
    )
    inside = {
        automaton.step(automaton.start, before) for before in (b'{"', b'{"a":"', b'{"":[["a","', b'{"":{"')
    }
    assert len(inside) > 2
    signatures = {neighbourhood(automaton, state).signature for state in inside}
    assert len(signatures) == 1


def test_a_state_to_which_nothing_comes_back_has_no_neighbourhood():
    automaton = automaton_of('root ::= "abc" | "d"+')
    assert neighbourhood(automaton, automaton.start) is None
    assert neighbourhood(automaton, automaton.step(automaton.start, b"a")) is None
    assert neighbourhood(automaton, automaton.step(automaton.start, b"d")) is not None


def test_a_neighbourhood_stays_small_and_its_table_is_the_automatons():
    automaton = automaton_of("root ::= ([a-c]+ [é-ÿ] [世-丗]* [d-f]+ [^a-f] [g-i]* .)* [😀-😂]+")
    for data in (
        b"",
        b"a",
        "aé".encode(),
        "aé世".encode(),
        "aé世d".encode(),
        "aé世dgx😀".encode(),
        b"\xf0\x9f",
    ):
        state = automaton.step(automaton.start, data)
        around = neighbourhood(automaton, state)
        if around is None:
            continue
        assert around.states[0] == DEAD and around.states[1] == state
        assert len(around.states) <= 17 and len(set(around.states.tolist())) == len(around.states)
        local = np.frombuffer(around.signature, dtype=np.uint8).reshape(-1, 256)
        for number, one in enumerate(around.states.tolist()):
            row = automaton.row(one) if one != DEAD else np.zeros(256, dtype=np.int32)
            for byte in range(256):
                if local[number][byte] == 255:
                    assert row[byte] != DEAD and row[byte] not in around.states
                else:
                    assert row[byte] == around.states[local[number][byte]]


def test_few_slices_are_kept_and_the_last_used_are():
    trie = VOCABULARY.trie
    known = Slices()
    signatures = []
    for number in range(slices._KEPT + 10):
        table = np.zeros((2, 256), dtype=np.uint8)
        table[1, number] = 1
        signatures.append(table.tobytes())
        known.make(trie, signatures[-1], 0)
        assert known.get(signatures[0], 0) is not None
    assert known.get(signatures[1], 0) is None
    assert sum(known.get(signature, 0) is not None for signature in signatures) == slices._KEPT


def test_slices_go_with_their_trie():
    trie = Trie([b"a", b"ab"])
    gone = weakref.ref(slices_of(trie))
    assert slices_of(trie) is gone()
    del trie
    gc.collect()
    assert gone() is None
