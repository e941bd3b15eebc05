"""The network of a grammar: its size, what is cut off, and what it refuses."""

from __future__ import annotations

import pytest

from oracle.automaton import DEAD, Automaton
from oracle.gbnf import GrammarError, GrammarTooLarge, parse
from oracle.lowering import Network, lower


def network(text: str, **options) -> Network:
    return lower(parse(text), **options)


def accepts(text: str, data: bytes) -> bool:
    automaton = Automaton(network(text))
    return automaton.accepting[automaton.step(automaton.start, data)]


def test_a_class_costs_nodes_by_its_bounds_and_never_by_its_characters():
    # Behind a class of all characters stand at most seven ways to be inside a character: one, two or three
    # continuation bytes missing, and the second bytes behind E0, ED, F0 and F4.
    assert network("root ::= .").size == 2 + 7
    assert network(r"root ::= [\u4e00-\u9fff]").size == 2 + 3
    assert network("root ::= [a-z]").size == 2


def test_alternatives_with_one_continuation_share_their_inner_nodes():
    single = network("root ::= [^a]").size
    assert network("root ::= [^a] | [^a] | [^a]").size == single


def test_a_repeated_group_is_called_and_not_copied():
    small = network('root ::= ("a" "b" "c" "d"){10}').size
    large = network('root ::= ("a" "b" "c" "d"){2000}').size
    assert large - small == 1990
    nested = network('root ::= ((("a" "b"){2000} "c"){2000} "d"){2000}').size
    assert nested < 3 * 2000 + 50


def test_repetitions_of_two_thousand_have_exact_bounds():
    automaton = Automaton(network('root ::= "a"{1,2000} "b"'))
    reached = automaton.step(automaton.start, b"a" * 2000)
    assert automaton.step(reached, b"a") == DEAD
    assert automaton.accepting[automaton.step(reached, b"b")]
    unbounded = Automaton(network('root ::= "a"{0,2001}'))
    assert unbounded.accepting[unbounded.step(unbounded.start, b"a" * 2001)]
    assert unbounded.step(unbounded.start, b"a" * 2002) == DEAD


def test_a_repetition_beyond_any_memory_is_refused_with_its_place():
    with pytest.raises(GrammarTooLarge, match="larger than the oracle can hold") as raised:
        network('root ::= "x" "a"{900000000}')
    assert (raised.value.line, raised.value.column) == (1, 17)


@pytest.mark.parametrize(
    ("text", "nullable"),
    [
        ('root ::= "a"', False),
        ("root ::= ", True),
        ('root ::= "a" |', True),
        ('root ::= "a"*', True),
        ('root ::= "a"+', False),
        ('root ::= ("a"?)+', True),
        ('root ::= x x\nx ::= y | "a"\ny ::= ""', True),
        ("root ::= root", False),
        ("root ::= root |", True),
        ('root ::= "a"{0}', True),
        ('root ::= ("a" | ""){3}', True),
        ("root ::= <[1]>", False),
        ("root ::= [] |", True),
        ("root ::= []", False),
    ],
)
def test_the_empty_string_is_found(text, nullable):
    lowered = network(text)
    assert lowered.nullable[lowered.root] == nullable
    automaton = Automaton(lowered)
    assert automaton.accepting[automaton.start] == nullable


@pytest.mark.parametrize(
    ("text", "viable", "dead"),
    [
        ('root ::= "a" [] | "b"', b"b", b"a"),
        ('root ::= "a" x | "b"\nx ::= "c" x', b"b", b"a"),
        ('root ::= "a" x | "b"\nx ::= x "c"', b"b", b"a"),
        ('root ::= "a" "\\ud800" | "b"', b"b", b"a"),
        ('root ::= "a" []* "c"', b"a", b"b"),
        ('root ::= ("a" []){1} | "b"', b"b", b"a"),
        ('root ::= ("a" []){0,3} "b"', b"b", b"a"),
    ],
)
def test_only_what_can_be_finished_is_kept(text, viable, dead):
    automaton = Automaton(network(text))
    assert automaton.step(automaton.start, viable) != DEAD
    assert automaton.step(automaton.start, dead) == DEAD


def test_a_grammar_without_any_string_is_dead_from_the_start():
    for text in ("root ::= []", "root ::= root", 'root ::= "a" root'):
        assert Automaton(network(text)).start == DEAD


def test_nodes_inside_a_character_are_marked_with_the_kind_of_class():
    for text, kind in (("root ::= [世]", 1), ("root ::= [^世]", 2), ("root ::= .", 1), ('root ::= "世"', 1)):
        automaton = Automaton(network(text))
        assert automaton.inside(automaton.start) == 0
        assert automaton.inside(automaton.step(automaton.start, b"\xe4")) == kind
        assert automaton.inside(automaton.step(automaton.start, b"\xe4\xb8")) == kind
    assert Automaton(network("root ::= [世]")).inside(DEAD) == 0


def test_dotted_positions_before_terminals_are_counted_once_each():
    # "a" . "b", one before each letter; the class; the token; both options of a choice stand at one place.
    assert sum(network('root ::= "ab" [c-d] <[1]>').terminal) == 4
    assert sum(network('root ::= "a" | "b"').terminal) == 1
    assert sum(network('root ::= "a" []').terminal) == 0


@pytest.mark.parametrize(
    ("text", "options", "message", "column"),
    [
        ("root ::= <[7]>", {"tokens": 7}, r"token id 7 is outside the vocabulary \(0\.\.6\)", 10),
        ("root ::= <abc>", {"token_ids": {b"x": 1}}, "'<abc>' is no token of the vocabulary", 10),
        ("root ::= <abc>", {}, "needs a vocabulary", 10),
        ('root ::= "a" !<[9]>', {"tokens": 3}, "outside the vocabulary", 14),
    ],
)
def test_a_token_terminal_that_names_no_token_is_refused_with_its_place(text, options, message, column):
    with pytest.raises(GrammarError, match=message) as raised:
        network(text, **options)
    assert (raised.value.line, raised.value.column) == (1, column)


def test_sixty_thousand_nested_groups_are_lowered_and_run():
    text = "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000
    assert accepts(text, b"a")
    assert not accepts(text, b"")
    assert not accepts(text, b"aa")


@pytest.mark.parametrize("repetition", ["?", "*", "+", "{1,2}"])
def test_three_thousand_nested_repetitions_are_lowered_and_run(repetition):
    text = "root ::= " + "(" * 3_000 + '"a"' + (")" + repetition) * 3_000
    assert accepts(text, b"a")
    assert not accepts(text, b"b")
    assert accepts(text, b"") == (repetition in ("?", "*"))
    assert accepts(text, b"aa") == (repetition in ("*", "+", "{1,2}"))
