"""Each control must fail when what it controls is wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.tracker.fake_build import FakeClient, faithful
from tests.tracker.small_vocabulary import END, small_vocabulary
from tracker.audits.grammar.compare import Ends
from tracker.audits.grammar.controls import (
    NARROW,
    KeptMask,
    asked_again,
    known_masks_control,
    null_control,
    positive_controls,
    vocabulary_control,
)
from tracker.audits.grammar.corpus import CorpusEntry
from tracker.libllama.client import VocabularyPieces

VOCABULARY = small_vocabulary()
EOG = np.arange(len(VOCABULARY)) == END
ENDS = Ends.of(VOCABULARY, EOG)


def pieces(*changed: tuple[int, bytes]) -> VocabularyPieces:
    spelled = list(VOCABULARY.pieces)
    for token, piece in changed:
        spelled[token] = piece
    return VocabularyPieces(tuple(spelled), EOG, len(spelled))


def test_vocabulary_parity_holds_for_equal_pieces() -> None:
    control = vocabulary_control(VOCABULARY, pieces())
    assert control.passed
    assert control.figures["tokens"] == len(VOCABULARY)


def test_vocabulary_parity_fails_for_one_piece_or_one_token_less() -> None:
    control = vocabulary_control(VOCABULARY, pieces((256, b"abc")))
    assert not control.passed
    assert "first 256: 6162 here, 616263 in the build" in control.detail
    fewer = VocabularyPieces(VOCABULARY.pieces[:-1], EOG[:-1], len(VOCABULARY) - 1)
    assert not vocabulary_control(VOCABULARY, fewer).passed


def test_positive_controls_flag_exactly_the_words_with_a_z() -> None:
    client = FakeClient(faithful(VOCABULARY, END))
    for control in positive_controls(VOCABULARY, client, ENDS):  # type: ignore[arg-type]
        # "z" and "zz" are the only lower-case words with a z among these tokens.
        assert control.passed
        assert control.figures == {"expected": 2, "flagged": 2, "recall": 1.0, "precision": 1.0}


def test_over_ill_formed_tokens_the_positive_controls_look_at_whole_characters_only() -> None:
    honest = faithful(VOCABULARY, END)

    def decodes_badly(grammar: str, path: tuple[int, ...]) -> NDArray[np.bool_]:
        allowed = honest(grammar, path)
        allowed[0xE4] = True
        return allowed

    client = FakeClient(decodes_badly)
    assert not any(c.passed for c in positive_controls(VOCABULARY, client, ENDS))  # type: ignore[arg-type]
    scoped = positive_controls(VOCABULARY, client, ENDS, well_formed_only=True)  # type: ignore[arg-type]
    assert all(c.passed for c in scoped)


def test_positive_controls_fail_for_a_build_that_ignores_its_grammar() -> None:
    def all_or_nothing(grammar: str, path: tuple[int, ...]) -> NDArray[np.bool_]:
        return np.ones(len(VOCABULARY), dtype=np.bool_)

    assert not any(c.passed for c in positive_controls(VOCABULARY, FakeClient(all_or_nothing), ENDS))  # type: ignore[arg-type]


def test_positive_controls_fail_when_one_planted_difference_is_lost() -> None:
    honest = faithful(VOCABULARY, END)

    def lenient(grammar: str, path: tuple[int, ...]) -> NDArray[np.bool_]:
        allowed = honest(grammar, path)
        if grammar == NARROW:
            allowed[ord("z")] = True
        return allowed

    first, second = positive_controls(VOCABULARY, FakeClient(lenient), ENDS)  # type: ignore[arg-type]
    assert (first.passed, second.passed) == (False, True)
    assert first.figures["recall"] == 0.5


def kept(count: int, flip: bool = False) -> list[KeptMask]:
    mask = faithful(VOCABULARY, END)("root ::= [a-z]+", ())
    if flip:
        mask = mask.copy()
        mask[0] ^= True
    return [KeptMask("root ::= [a-z]+", (), np.packbits(mask).tobytes())] * count


def test_masks_are_asked_again_in_the_opposite_order_and_counted_when_they_differ() -> None:
    client = FakeClient(faithful(VOCABULARY, END))
    grammar, later = "root ::= [a-z]*", (ord("a"),)
    first, second = (
        KeptMask(grammar, path, np.packbits(faithful(VOCABULARY, END)(grammar, path)).tobytes())
        for path in ((), later)
    )
    assert asked_again(client, [first, second]) == 0  # type: ignore[arg-type]
    assert client.asked == [later, ()]
    assert asked_again(client, [*kept(5), *kept(1, flip=True)]) == 1  # type: ignore[arg-type]


def test_the_null_control_passes_when_a_tenth_is_asked_again_and_agrees() -> None:
    assert null_control(0, 2, 20).passed


def test_the_null_control_fails_for_one_difference_or_too_few_states() -> None:
    assert not null_control(1, 6, 20).passed
    assert not null_control(0, 1, 20).passed
    assert not null_control(0, 0, 0).passed


def test_known_masks_fail_for_a_wrong_number_and_for_none_at_all() -> None:
    def entry(tokens: int) -> CorpusEntry:
        text = "root ::= [x-z]"
        return CorpusEntry.model_validate(
            {
                "name": "n",
                "why": "test",
                "inline": text,
                "text": text,
                "expected": [{"tokens": tokens, "source": "by hand"}],
            }
        )

    assert known_masks_control(VOCABULARY, [entry(3)]).passed
    assert not known_masks_control(VOCABULARY, [entry(4)]).passed
    assert not known_masks_control(VOCABULARY, []).passed
