from __future__ import annotations

import numpy as np
import pytest

from oracle.mask import Oracle
from oracle.vocabulary import Vocabulary
from tests.tracker.small_vocabulary import END, IDS, small_vocabulary
from tracker.audits.grammar.compare import Ends, Place, Reading, compare_state
from tracker.results import Cause, Deviation, Kind

VOCABULARY = small_vocabulary()


def ends(*tokens: int) -> Ends:
    mask = np.zeros(len(VOCABULARY), dtype=np.bool_)
    mask[list(tokens)] = True
    return Ends.of(VOCABULARY, mask)


def place(oracle: Oracle, prefix: bytes) -> Place:
    here = Place(oracle.start)
    for byte in prefix:
        here = here.after(oracle, byte, oracle.step(here.state, byte))
    return here


def compared(grammar: str, prefix: bytes, change: dict[int, bool], end: bool = False) -> list[Deviation]:
    """Deviations when the build's mask is the right one but for ``change``, and ends where ``end`` says."""
    oracle = Oracle(grammar, VOCABULARY)
    here = place(oracle, prefix)
    allowed = oracle.mask(here.state).tokens.copy()
    allowed[END] = end
    for token, value in change.items():
        allowed[token] = value
    return list(compare_state(oracle, here, allowed, ends(END)).deviations)


def test_equal_masks_have_no_deviation() -> None:
    assert compared("root ::= [a-z]+", b"", {}) == []
    assert compared("root ::= [a-z]+", b"a", {}, end=True) == []


def test_an_extra_token_is_unsound_with_its_bytes_and_cause() -> None:
    (found,) = compared('root ::= ("\\u4e16" | "\\U0001F600")', b"\xf0", {0x84: True})
    assert (found.kind, found.cause, found.mid_code_point) == (Kind.UNSOUND, Cause.OVERLONG, True)
    assert (found.prefix, found.tokens, found.path) == ("f0", ("84",), (0xF0,))


def test_an_extra_token_of_well_formed_text_is_not_in_the_language() -> None:
    (found,) = compared("root ::= [a-y]+", b"", {ord("z"): True, IDS[b"zz"]: True})
    assert (found.kind, found.cause, found.mid_code_point) == (Kind.UNSOUND, Cause.NOT_IN_LANGUAGE, False)
    assert found.tokens == ("7a", "7a7a")


@pytest.mark.parametrize(
    ("grammar", "missing", "cause"),
    [
        ("root ::= .", 0x00, Cause.NUL),
        ("root ::= [^\\u4e16]", 0xE4, Cause.NEGATED_PARTIAL),
        ("root ::= [a-z]", ord("q"), Cause.UNEXPLAINED),
        ("root ::= [\\u4e00-\\u4fff]", 0xE4, Cause.UNEXPLAINED),
        ("root ::= !<end>", 0xE4, Cause.TOKEN_TERMINAL),
    ],
)
def test_a_missing_token_has_its_cause(grammar: str, missing: int, cause: Cause) -> None:
    (found,) = compared(grammar, b"", {missing: False})
    assert (found.kind, found.cause) == (Kind.OVER_RESTRICTIVE, cause)
    assert found.tokens == (f"{missing:02x}",)


def test_a_token_that_is_read_only_up_to_its_nul_has_that_cause() -> None:
    vocabulary = Vocabulary((b"a", b"a\0b", b"<end>"), np.array([1, 1, 3], dtype=np.uint8), frozenset({2}))
    oracle = Oracle("root ::= [a-z]+", vocabulary)
    allowed = np.array([True, True, False])
    (found,) = compare_state(
        oracle, Place(oracle.start), allowed, Ends.of(vocabulary, np.array([False, False, True]))
    ).deviations
    assert (found.kind, found.cause, found.tokens) == (Kind.UNSOUND, Cause.NUL, ("610062",))


@pytest.mark.parametrize(
    ("grammar", "token", "cause"),
    [
        # The terminal behind "a" would take the whole token, of which "a" has been read.
        ('root ::= "a" !<end>', b"ab", Cause.TOKEN_TERMINAL),
        ('root ::= "a" <ab>', b"ab", Cause.TOKEN_TERMINAL),
        # It excludes this very token; or none stands behind any of the token's bytes.
        ('root ::= "a" !<ab>', b"ab", Cause.NOT_IN_LANGUAGE),
        ('root ::= "a" !<end>', b"zz", Cause.NOT_IN_LANGUAGE),
        ('root ::= "a" "b"? "c" !<end>', b"ab", None),
        ('root ::= "a" <[98]>', b"ab", Cause.NOT_IN_LANGUAGE),
    ],
)
def test_a_token_that_a_terminal_takes_half_way_has_that_cause(
    grammar: str, token: bytes, cause: Cause | None
) -> None:
    found = compared(grammar.replace("<ab>", f"<[{IDS[b'ab']}]>"), b"", {IDS[token]: True})
    assert [(d.kind, d.cause) for d in found] == ([] if cause is None else [(Kind.UNSOUND, cause)])


def test_text_that_only_looks_like_an_end_token_is_missed() -> None:
    oracle = Oracle('root ::= "</s>"', VOCABULARY)
    token = IDS[b"</s>"]
    allowed = oracle.mask(oracle.start).tokens.copy()
    allowed[token] = False
    (found,) = compare_state(oracle, Place(oracle.start), allowed, ends(END, token)).deviations
    assert (found.kind, found.cause, found.token_ids) == (Kind.OVER_RESTRICTIVE, Cause.EOG_TEXT, (token,))


def test_an_end_token_that_a_terminal_names_is_missed() -> None:
    (found,) = compared('root ::= <end> "a"', b"", {END: False})
    assert (found.kind, found.cause, found.token_ids) == (Kind.OVER_RESTRICTIVE, Cause.EOG_TEXT, (END,))


def test_numbers_beyond_unicode_that_the_grammar_names_have_that_cause() -> None:
    oracle = Oracle("root ::= [\\U00110000-\\U00120000a]", VOCABULARY)
    allowed = oracle.mask(oracle.start).tokens.copy()
    allowed[0xF4] = True
    (found,) = compare_state(oracle, Place(oracle.start), allowed, ends(END), Reading(beyond=True)).deviations
    assert (found.kind, found.cause) == (Kind.UNSOUND, Cause.BEYOND_UNICODE)


def test_a_proper_end_token_is_never_compared_as_text() -> None:
    # The dot allows its text; the build masks it because the output may not end here.
    assert compared("root ::= .+", b"", {0: True, END: False}) == []


def test_an_end_that_is_allowed_too_early_is_unsound() -> None:
    (found,) = compared('root ::= "ab"', b"a", {}, end=True)
    assert (found.kind, found.cause, found.prefix) == (Kind.EOS_UNSOUND, Cause.NOT_IN_LANGUAGE, "61")
    (found,) = compared('root ::= "世"', b"\xe4", {}, end=True)
    assert (found.cause, found.mid_code_point) == (Cause.BROKEN_SEQUENCE, True)


def test_an_end_that_is_withheld_is_missing() -> None:
    (found,) = compared('root ::= "ab"?', b"", {}, end=False)
    assert (found.kind, found.cause) == (Kind.EOS_MISSING, Cause.UNEXPLAINED)


def test_another_reading_explains_only_what_it_allows() -> None:
    oracle = Oracle('root ::= "a" [^] "b"', VOCABULARY)
    here = place(oracle, b"a")
    allowed = np.zeros(len(VOCABULARY), dtype=np.bool_)
    allowed[ord("b")] = True
    reading = Reading(other=Oracle('root ::= "a" "b"', VOCABULARY))
    causes = {d.cause for d in compare_state(oracle, here, allowed, ends(END), reading).deviations}
    assert causes == {Cause.PARSER}
    allowed[ord("b")] = False
    unexplained = [
        d
        for d in compare_state(oracle, here, allowed, ends(END), reading).deviations
        if d.cause == Cause.UNEXPLAINED
    ]
    assert [d.tokens for d in unexplained] == [("62",)]


def test_what_both_allow_leaves_out_end_tokens() -> None:
    oracle = Oracle("root ::= .+", VOCABULARY)
    allowed = np.ones(len(VOCABULARY), dtype=np.bool_)
    both = compare_state(oracle, Place(oracle.start), allowed, ends(END)).both
    assert not both[END]
    assert both[ord("a")]
    assert not both[0x80]
