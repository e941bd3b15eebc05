"""What a patch does: masks of two builds at the same states, and their audits held against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from builders import MINIMAL, build, deviation, document, grammar
from fake_build import Answer, FakeClient, faithful
from numpy.typing import NDArray
from small_vocabulary import END, IDS, small_vocabulary

from tracker.audits.grammar.compare import Ends
from tracker.audits.grammar.corpus import CorpusEntry
from tracker.libllama.client import DeathKind, GrammarRejected, LibllamaClient, WorkerDied
from tracker.results import Cause, Kind
from tracker.trial import SideBySide, ask_both, hold_against

VOCABULARY = small_vocabulary()
RIGHT = faithful(VOCABULARY, END)
LEAD = (0xF0,)
UNSOUND, MISSING = 0x84, 0x9F


def entries(*texts: str) -> list[CorpusEntry]:
    return [
        CorpusEntry(name=f"g{i}", why="of a test", group="file", states=20, text=text)
        for i, text in enumerate(texts)
    ]


def compared(old: Answer, new: Answer, *texts: str) -> SideBySide:
    eog = np.zeros(len(VOCABULARY), np.bool_)
    eog[END] = True
    clients = [cast(LibllamaClient, FakeClient(answer)) for answer in (old, new)]
    return ask_both(
        clients[0], clients[1], VOCABULARY, Ends.of(VOCABULARY, eog), entries(*texts or (MINIMAL,))
    )


def flipped(path: tuple[int, ...], tokens: Sequence[int]) -> Answer:
    """A build that is right but for some tokens at one place."""

    def answer(text: str, asked: tuple[int, ...]) -> NDArray[np.bool_]:
        allowed = RIGHT(text, asked)
        if asked == path:
            allowed[list(tokens)] ^= True
        return allowed

    return answer


def test_equal_builds_differ_nowhere_and_every_state_is_counted() -> None:
    found = compared(RIGHT, RIGHT)
    assert found.moves == []
    # The start, E4, E4 B8, F0, F0 9F, F0 9F 98, and the end: by hand.
    assert found.states == 7
    assert found.before_seconds == found.after_seconds > 0


def test_a_correction_is_told_as_better() -> None:
    found = compared(flipped(LEAD, [UNSOUND]), RIGHT)
    assert [(m.prefix, m.better, m.worse) for m in found.moves] == [(b"\xf0", 1, 0)]
    assert found.worse == ()


def test_a_new_fault_is_told_as_worse_with_its_tokens() -> None:
    found = compared(RIGHT, flipped(LEAD, [UNSOUND, MISSING]))
    assert [(m.prefix, m.better, m.worse, m.tokens) for m in found.worse] == [
        (b"\xf0", 0, 2, (UNSOUND, MISSING))
    ]


def test_one_fault_for_another_is_both() -> None:
    found = compared(flipped(LEAD, [UNSOUND]), flipped(LEAD, [0x85]))
    assert [(m.better, m.worse, m.tokens) for m in found.moves] == [(1, 1, (0x85,))]


def test_the_end_of_generation_moves_as_one() -> None:
    at_end = (IDS["世".encode()],)
    found = compared(flipped(at_end, [END]), RIGHT)
    assert [(m.prefix, m.better, m.worse) for m in found.moves] == [("世".encode(), 1, 0)]
    found = compared(RIGHT, flipped(at_end, [END]))
    assert [(m.better, m.worse, m.tokens) for m in found.moves] == [(0, 1, ())]


def test_a_death_of_the_patched_build_is_for_the_worse() -> None:
    def dies(text: str, asked: tuple[int, ...]) -> NDArray[np.bool_]:
        if asked == LEAD:
            raise WorkerDied(DeathKind.CRASH, 11, "", "a mask")
        return RIGHT(text, asked)

    found = compared(RIGHT, dies)
    assert [(m.prefix, "CRASH" in m.death) for m in found.worse] == [(b"\xf0", True)]
    assert found.states == 6


def test_what_is_no_grammar_or_refused_is_left_out_with_its_reason() -> None:
    def refuses(text: str, asked: tuple[int, ...]) -> NDArray[np.bool_]:
        raise GrammarRejected("refuses the grammar: because")

    found = compared(refuses, RIGHT, "root ::= [z-a]", MINIMAL)
    assert found.states == 0
    assert "reversed" in found.left_out["g0"]
    assert found.left_out["g1"] == "refuses the grammar: because"


def test_two_audits_are_told_apart_by_kind_and_cause() -> None:
    overlong = deviation("f0", tokens=("84", "85"), cause=Cause.OVERLONG)
    nul = deviation("", kind=Kind.OVER_RESTRICTIVE, tokens=("00",), cause=Cause.NUL)
    surrogate = deviation("ed", tokens=("a0",), cause=Cause.SURROGATE)
    before = document(build("1"), grammar("g", overlong, nul))
    after = document(build("2"), grammar("g", nul, surrogate))
    trial = hold_against(before, after, SideBySide())
    assert trial.removed == {("UNSOUND", "overlong"): 2}
    assert trial.added == {("UNSOUND", "surrogate"): 1}
    assert trial.incomparable == ()


def test_audits_of_other_versions_are_not_compared() -> None:
    before = document(build("1"), grammar("g", deviation("f0")))
    after = document(build("2"), grammar("g"), audit_version="f" * 64)
    trial = hold_against(before, after, SideBySide())
    assert trial.removed == trial.added == {}
    assert "different versions" in trial.incomparable[0]
