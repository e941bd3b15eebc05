"""What is made of a build's answers: causes of death, first words, and the difference to our verdict."""

from __future__ import annotations

import signal

import pytest

from oracle.gguf import Rule
from tracker.audits.gguf.build_reader import Outcome, OutcomeKind, Reader, cause_of_death, last_words
from tracker.audits.gguf.mutants import Family, Mutant
from tracker.audits.gguf.own_reader import OwnVerdict
from tracker.audits.gguf.verdicts import difference
from tracker.results import Kind

CRASH, MEMORY = OutcomeKind.CRASH, OutcomeKind.MEMORY


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        (
            Outcome(CRASH, signal.SIGABRT, "/a/b/ggml.c:17: GGML_ASSERT(a / b[i] > c) failed\n"),
            "SIGABRT: GGML_ASSERT(a / b[i] > c) failed",
        ),
        (
            Outcome(CRASH, signal.SIGABRT, "/elsewhere/ggml.c:99: GGML_ASSERT(a / b[i] > c) failed\n"),
            "SIGABRT: GGML_ASSERT(a / b[i] > c) failed",
        ),
        (
            Outcome(CRASH, signal.SIGABRT, "/a/x.cpp:3: fatal error: no model\n"),
            "SIGABRT: fatal error: no model",
        ),
        (
            Outcome(
                CRASH,
                signal.SIGABRT,
                "terminate called after throwing an instance of 'std::length_error'\n  what():  x\n",
            ),
            "SIGABRT: uncaught std::length_error",
        ),
        (Outcome(CRASH, signal.SIGFPE), "SIGFPE"),
        (Outcome(CRASH, None), "no signal"),
        (
            Outcome(MEMORY, None, "f: encountered bad_alloc error while reading key 3\n"),
            "caught: std::bad_alloc",
        ),
        (
            Outcome(
                MEMORY,
                signal.SIGABRT,
                "f: insufficient memory (attempted to allocate 65536.00 MB)\n"
                "/a/ggml.c:5: GGML_ASSERT(ctx->mem_buffer != NULL) failed\n",
            ),
            "SIGABRT: GGML_ASSERT(ctx->mem_buffer != NULL) failed",
        ),
    ],
)
def test_a_cause_of_death_has_no_path_line_or_number(outcome: Outcome, cause: str) -> None:
    assert cause_of_death(outcome) == cause


def test_first_words_are_the_same_whatever_the_file_was_called() -> None:
    said = "load: tensor 'a\x01b' at /proc/self/fd/{} has offset {}\nsecond line\n"
    one = last_words(Outcome(OutcomeKind.REFUSED, said=said.format(5, 17)))
    other = last_words(Outcome(OutcomeKind.REFUSED, said=said.format(44, -3)))
    assert one == other == "load: tensor '...' at N has offset N"


RANDOM = Mutant("m", "directory", Family.RANDOM, b"")
SEED = Mutant("s", "directory", Family.SEED, b"")
ACCEPTED = Outcome(OutcomeKind.ACCEPTED)
REFUSED = Outcome(OutcomeKind.REFUSED, said="why 5\n")


@pytest.mark.parametrize(
    ("mutant", "own", "outcome", "reader", "expected"),
    [
        (RANDOM, OwnVerdict(None), ACCEPTED, Reader.DATA, None),
        (RANDOM, OwnVerdict(Rule.COUNT, 8), REFUSED, Reader.DATA, None),
        (RANDOM, OwnVerdict(Rule.COUNT, 8), ACCEPTED, Reader.DATA, (Kind.ACCEPTS_IMPOSSIBLE, "count")),
        (RANDOM, OwnVerdict(Rule.KEY_NUL, 8), ACCEPTED, Reader.DATA, (Kind.ACCEPTS_IMPOSSIBLE, "key-nul")),
        (RANDOM, OwnVerdict(Rule.RANK_ZERO, 8), ACCEPTED, Reader.DATA, (Kind.POLICY, "rank-zero")),
        (RANDOM, OwnVerdict(Rule.EXTENT, 8), ACCEPTED, Reader.DATA, (Kind.ACCEPTS_IMPOSSIBLE, "extent")),
        (
            RANDOM,
            OwnVerdict(Rule.EXTENT, 8),
            ACCEPTED,
            Reader.VOCABULARY,
            (Kind.ACCEPTS_IMPOSSIBLE, "extent"),
        ),
        (
            RANDOM,
            OwnVerdict(Rule.EXTENT, 8),
            ACCEPTED,
            Reader.DIRECTORY,
            (Kind.POLICY, "extent (data not asked for)"),
        ),
        (
            RANDOM,
            OwnVerdict(None),
            Outcome(OutcomeKind.ACCEPTED, notes=("equal-names",)),
            Reader.DATA,
            (Kind.ACCEPTS_IMPOSSIBLE, "equal-names"),
        ),
        (RANDOM, OwnVerdict(None), REFUSED, Reader.DATA, (Kind.REFUSES_VALID, "why N")),
        (RANDOM, OwnVerdict(None), REFUSED, Reader.VOCABULARY, None),
        (SEED, OwnVerdict(None), REFUSED, Reader.VOCABULARY, (Kind.REFUSES_VALID, "seed refused: why N")),
        (
            RANDOM,
            OwnVerdict(None, contiguous=False),
            REFUSED,
            Reader.DATA,
            (Kind.POLICY, "gaps or another order"),
        ),
        (RANDOM, OwnVerdict(None), Outcome(CRASH, signal.SIGFPE), Reader.DATA, (Kind.CRASH, "SIGFPE")),
        (
            RANDOM,
            OwnVerdict(Rule.COUNT, 8),
            Outcome(MEMORY, None),
            Reader.DATA,
            (Kind.OOM, "caught: no memory"),
        ),
        (RANDOM, OwnVerdict(None), Outcome(OutcomeKind.HANG, 24), Reader.DATA, (Kind.HANG, "SIGXCPU")),
    ],
)
def test_differences_are_classified(
    mutant: Mutant, own: OwnVerdict, outcome: Outcome, reader: Reader, expected: tuple[Kind, str] | None
) -> None:
    assert difference(mutant, own, outcome, reader) == expected
