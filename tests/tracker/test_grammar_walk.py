from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from oracle.mask import Oracle
from tests.tracker.fake_build import FakeClient, faithful
from tests.tracker.small_vocabulary import END, IDS, small_vocabulary
from tracker.audits.grammar.compare import Ends, Place
from tracker.audits.grammar.corpus import CorpusEntry
from tracker.audits.grammar.escape import follow
from tracker.audits.grammar.unit import audit_grammar
from tracker.audits.grammar.walk import Walk, longest_tokens, walk
from tracker.libllama.client import DeathKind, GrammarRejected, WorkerDied
from tracker.results import Kind

VOCABULARY = small_vocabulary()
MINIMAL = 'root ::= ("\\u4e16" | "\\U0001F600")'


def ends() -> Ends:
    mask = np.zeros(len(VOCABULARY), dtype=np.bool_)
    mask[END] = True
    return Ends.of(VOCABULARY, mask)


def outputs(path: tuple[int, ...]) -> bytes:
    return b"".join(VOCABULARY.pieces[token] for token in path)


def entry(text: str, **more: object) -> CorpusEntry:
    return CorpusEntry.model_validate({"name": "x", "why": "test", "inline": text, "text": text, **more})


def walked(
    text: str, states: int = 100, client: FakeClient | None = None, visit: Sequence[bytes] = ()
) -> tuple[Walk, FakeClient]:
    client = client or FakeClient(faithful(VOCABULARY, END))
    result = Walk()
    oracle = Oracle(text, VOCABULARY)
    for _ in walk(oracle, client, text, ends(), states=states, keep_every=2, result=result, visit=visit):  # type: ignore[arg-type]
        pass
    return result, client


def overlong(grammar: str, path: tuple[int, ...]) -> NDArray[np.bool_]:
    """A build with the hole of the minimal case: F0, 84, B8, 96 and then the end."""
    allowed = faithful(VOCABULARY, END)(grammar, path)
    hole = (0xF0, 0x84, 0xB8, 0x96)
    if path and path == hole[: len(path)]:
        if len(path) < 4:
            allowed[hole[len(path)]] = True
        else:
            allowed[END] = True
    return allowed


def test_a_finite_automaton_is_walked_in_full() -> None:
    # By hand: start; E4; E4B8; F0; F0 9F; F0 9F 98; and behind the whole character.
    result, client = walked(MINIMAL)
    assert result.exhaustive
    assert (result.visited, result.left, result.bound) == (7, 0, None)
    assert len(set(client.asked)) == 7
    assert result.deviations == []


def test_a_walk_that_was_cut_says_so() -> None:
    result, _ = walked('root ::= "(" root ")" | "x"', states=4)
    assert not result.exhaustive
    assert result.visited == 4
    assert result.left > 0
    assert result.bound == "4 states"


def test_outputs_asked_for_come_first_and_once() -> None:
    # By hand: start, "a", "ab", "abc", "abcd".
    result, client = walked('root ::= "abcd"', visit=[b"abc", b"a", b"abc", b"zz", b""])
    assert [outputs(path) for path in client.asked[:3]] == [b"abc", b"a", b""]
    assert (result.visited, result.exhaustive) == (5, True)
    assert result.coverage is not None and (result.coverage.reached, result.coverage.positions) == (4, 4)


@pytest.mark.parametrize("visit", [[b"abc"], [b"abc", b"ab", b"abcd"], [b"abcd", b"a", b"abc"]])
def test_a_state_behind_a_refused_path_is_met_by_the_walk_all_the_same(visit: list[bytes]) -> None:
    honest = faithful(VOCABULARY, END)
    long = IDS[b"ab"]

    def refuses_the_long_token(grammar: str, path: tuple[int, ...]) -> NDArray[np.bool_]:
        allowed = honest(grammar, path).copy()
        allowed[long] = False
        return allowed

    result, client = walked('root ::= "abcd"', client=FakeClient(refuses_the_long_token), visit=visit)
    assert {outputs(path) for path in client.asked} == {b"", b"a", b"ab", b"abc", b"abcd"}
    assert (result.visited, result.exhaustive) == (5, True)
    assert sorted(result.outputs) == [b"", b"a", b"ab", b"abc", b"abcd"]


def test_each_state_is_reached_by_its_shortest_token() -> None:
    result, client = walked('root ::= "é" "a"')
    assert result.exhaustive
    assert (IDS["é".encode()],) in client.asked
    assert (0xC3, 0xA9) not in client.asked


def test_the_walk_never_goes_through_a_token_that_only_one_side_accepts() -> None:
    result, client = walked(MINIMAL, client=FakeClient(overlong))
    assert [d.tokens for d in result.deviations] == [("84",)]
    assert all(0x84 not in path for path in client.asked)


def test_more_paths_come_to_the_same_states_in_other_ways() -> None:
    grammar = 'root ::= "a"? [\\u4e00-\\u4fff]'
    once, _ = walked(grammar)
    client = FakeClient(faithful(VOCABULARY, END))
    twice = Walk()
    oracle = Oracle(grammar, VOCABULARY)
    for _ in walk(oracle, client, grammar, ends(), states=100, paths=2, keep_every=9, result=twice):  # type: ignore[arg-type]
        pass
    assert twice.visited > once.visited
    assert twice.exhaustive
    reached = [oracle.walk(path) for path in client.asked]
    assert max(reached.count(state) for state in reached) == 2
    # The token that ends a character and begins the next is one of the other ways.
    assert (IDS[b"a\xe4"],) in client.asked


def test_every_second_mask_is_kept_for_the_null_control() -> None:
    result, client = walked(MINIMAL)
    assert [path for path, _ in result.masks] == client.asked[::2]


def test_a_death_is_a_finding_and_the_walk_goes_on() -> None:
    honest = faithful(VOCABULARY, END)

    def dies_after_f0(grammar: str, path: tuple[int, ...]) -> NDArray[np.bool_]:
        if path == (0xF0,):
            raise WorkerDied(DeathKind.CRASH, 11, "boom", "mask")
        return honest(grammar, path)

    result, _ = walked(MINIMAL, client=FakeClient(dies_after_f0))
    (found,) = result.deviations
    assert (found.kind, found.prefix, found.detail) == (Kind.CRASH, "f0", "signal 11: boom")
    assert not result.exhaustive
    # F0 9F is a token of its own, so the states behind it are reached all the same.
    assert result.visited == 7


def test_an_escape_follows_what_the_build_allows_to_the_end() -> None:
    oracle = Oracle(MINIMAL, VOCABULARY)
    here = Place(oracle.walk((0xF0,)), (0xF0,), b"\xf0")
    escape = follow(oracle, FakeClient(overlong), MINIMAL, ends(), here, 0x84)  # type: ignore[arg-type]
    assert (escape.outcome, escape.bytes) == ("end-of-generation", "f084b896")
    assert escape.path == (0xF0, 0x84, 0xB8, 0x96)
    assert not escape.well_formed


def test_an_escape_that_leads_nowhere_is_a_dead_end() -> None:
    def nowhere(grammar: str, path: tuple[int, ...]) -> NDArray[np.bool_]:
        return np.zeros(len(VOCABULARY), dtype=np.bool_)

    oracle = Oracle(MINIMAL, VOCABULARY)
    here = Place(oracle.walk((0xF0,)), (0xF0,), b"\xf0")
    escape = follow(oracle, FakeClient(nowhere), MINIMAL, ends(), here, 0x84)  # type: ignore[arg-type]
    assert (escape.outcome, escape.explored) == ("dead-end", 1)


def test_an_escape_that_never_ends_stops_at_its_bound() -> None:
    def anything_but_the_end(grammar: str, path: tuple[int, ...]) -> NDArray[np.bool_]:
        allowed = np.ones(len(VOCABULARY), dtype=np.bool_)
        allowed[END] = False
        return allowed

    oracle = Oracle(MINIMAL, VOCABULARY)
    here = Place(oracle.walk((0xF0,)), (0xF0,), b"\xf0")
    escape = follow(oracle, FakeClient(anything_but_the_end), MINIMAL, ends(), here, 0x84)  # type: ignore[arg-type]
    assert escape.outcome == "bound"


def test_an_escape_that_ends_is_a_finding_as_well() -> None:
    unit = audit_grammar(entry(MINIMAL), FakeClient(overlong), VOCABULARY, ends(), keep_every=1)  # type: ignore[arg-type]
    found = {(d.kind, d.prefix) for d in unit.result.deviations}
    assert found == {(Kind.UNSOUND, "f0"), (Kind.EOS_UNSOUND, "f084b896")}
    assert unit.result.totals == {"UNSOUND": {"overlong": 1}, "EOS_UNSOUND": {"overlong": 1}}


def test_a_refused_grammar_is_a_finding() -> None:
    def refuses(grammar: str, path: tuple[int, ...]) -> NDArray[np.bool_]:
        raise GrammarRejected("refused", "left recursion\n  detected")

    unit = audit_grammar(
        entry('root ::= ("a" | )*'),
        FakeClient(refuses),
        VOCABULARY,
        ends(),
        keep_every=1,  # type: ignore[arg-type]
    )
    (found,) = unit.result.deviations
    assert (found.kind, found.detail) == (Kind.GRAMMAR_REJECTED, "left recursion detected")


def test_a_text_that_is_no_grammar_and_is_accepted_is_a_finding() -> None:
    unit = audit_grammar(
        entry("root ::= [z-a]"),
        FakeClient(overlong),
        VOCABULARY,
        ends(),
        keep_every=1,  # type: ignore[arg-type]
    )
    (found,) = unit.result.deviations
    assert found.kind is Kind.GRAMMAR_ACCEPTED
    assert "reversed range" in found.detail


def test_a_grammar_larger_than_the_oracle_has_no_verdict_and_is_not_put_to_the_build() -> None:
    client = FakeClient(overlong)
    huge = entry('root ::= "a"{900000000}')
    unit = audit_grammar(huge, client, VOCABULARY, ends(), keep_every=1)  # type: ignore[arg-type]
    assert (unit.result.status, unit.result.deviations) == ("untestable", ())
    assert "line 1, column 13" in str(unit.result.reason)
    assert client.asked == []


def test_an_oracle_only_grammar_is_never_put_to_the_build() -> None:
    client = FakeClient(overlong)
    unit = audit_grammar(
        entry('root ::= root "x" | "y"', oracle_only=True),
        client,
        VOCABULARY,
        ends(),
        keep_every=1,  # type: ignore[arg-type]
    )
    assert unit.result.deviations == ()
    assert client.asked == []


def test_bytes_are_spelled_by_the_longest_tokens() -> None:
    assert longest_tokens(VOCABULARY, b"abzz") == (IDS[b"ab"], IDS[b"zz"])
    assert longest_tokens(VOCABULARY, "😀".encode()) == (IDS["😀".encode()],)
