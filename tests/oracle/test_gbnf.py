"""The GBNF parser: what texts mean, and where and why others are no grammars."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import grammars

from oracle.earley import Recognizer
from oracle.gbnf import (
    Characters,
    Choice,
    Grammar,
    GrammarError,
    Reference,
    Repeat,
    Sequence,
    Token,
    parse,
)
from tracker.audits.engines.expressions import (
    Either,
    Expression,
    InOrder,
    OneOf,
    Rules,
    Text,
    Times,
    Use,
    WholeToken,
)


def language(text: str | bytes, candidates: list[str]) -> set[str]:
    """Which of the candidates are in the grammar's language."""
    recognizer = Recognizer(parse(text))
    return {candidate for candidate in candidates if recognizer.member(candidate.encode())}


def root_node(text: str):
    grammar = parse(text)
    return grammar.nodes[grammar.rules["root"].body]


def ranges_of(text: str) -> list[tuple[int, int]]:
    node = root_node(text)
    assert isinstance(node, Characters)
    return list(node.ranges)


# -- what can be written -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("escape", "code_point"),
    [
        (r"\n", 0x0A),
        (r"\r", 0x0D),
        (r"\t", 0x09),
        (r"\\", 0x5C),
        (r"\"", 0x22),
        (r"\[", 0x5B),
        (r"\]", 0x5D),
        (r"\-", 0x2D),
        (r"\x00", 0x00),
        (r"\xe9", 0xE9),
        (r"\xFF", 0xFF),
        (r"\u4e16", 0x4E16),
        (r"\uFFFF", 0xFFFF),
        (r"\U0001F600", 0x1F600),
        (r"\U0010ffff", 0x10FFFF),
    ],
)
def test_an_escape_stands_for_its_character_in_a_literal_and_in_a_class(escape, code_point):
    assert ranges_of(f'root ::= "{escape}"') == [(code_point, code_point)]
    assert ranges_of(f"root ::= [{escape}]") == [(code_point, code_point)]


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("[abc]", [(0x61, 0x63)]),
        ("[a-cx-z]", [(0x61, 0x63), (0x78, 0x7A)]),
        ("[a-]", [(0x2D, 0x2D), (0x61, 0x61)]),
        ("[-a]", [(0x2D, 0x2D), (0x61, 0x61)]),
        (r"[\--a]", [(0x2D, 0x61)]),
        ("[a^]", [(0x5E, 0x5E), (0x61, 0x61)]),
        ('["]', [(0x22, 0x22)]),
        ("[(#]", [(0x23, 0x23), (0x28, 0x28)]),
        ("[一-鿿]", [(0x4E00, 0x9FFF)]),
        ("[^a]", [(0, 0x60), (0x62, 0xD7FF), (0xE000, 0x10FFFF)]),
        (r"[^\x00-\U0010FFFF]", []),
        ("[]", []),
        ("[^]", [(0, 0xD7FF), (0xE000, 0x10FFFF)]),
        (".", [(0, 0xD7FF), (0xE000, 0x10FFFF)]),
        (r"[\ud000-\ue000]", [(0xD000, 0xD7FF), (0xE000, 0xE000)]),
        (r"[\U0010FFFE-\U00110005]", [(0x10FFFE, 0x10FFFF)]),
    ],
)
def test_a_class_is_the_set_of_scalar_values_that_it_names(text, ranges):
    assert ranges_of(f"root ::= {text}") == ranges


@pytest.mark.parametrize(
    ("repetition", "counts"),
    [
        ("*", {0, 1, 2, 3, 4}),
        ("+", {1, 2, 3, 4}),
        ("?", {0, 1}),
        ("{2}", {2}),
        ("{0}", {0}),
        ("{2,}", {2, 3, 4}),
        ("{,2}", {0, 1, 2}),
        ("{1,3}", {1, 2, 3}),
        ("{ 1 , 3 }", {1, 2, 3}),
        ("{0,0}", {0}),
    ],
)
def test_a_repetition_has_its_bounds(repetition, counts):
    candidates = ["a" * count for count in range(5)]
    for item in ('"a"', "[a]", "x", '("a")'):
        text = f'root ::= {item}{repetition}\nx ::= "a"'
        assert {len(one) for one in language(text, candidates)} == counts


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ('root ::= "a" "b" | "c"', {"ab", "c"}),
        ('root ::= "a" ("b" | "c")', {"ab", "ac"}),
        ('root ::= "a" | ', {"a", ""}),
        ('root ::= | "a"', {"a", ""}),
        ("root ::= ", {""}),
        ("root ::= ()", {""}),
        ('root ::= ""', {""}),
        ('root ::= ( "a"\n  |\n # comment\n "b" )', {"a", "b"}),
        ('root ::= "a" |\n  "b"', {"a", "b"}),
        ('root ::=\n  "a"', {"a"}),
        ('root ::= "a" # to the end\n# and a line\n\nx ::= "b"', {"a"}),
        ('x-1 ::= "b"\nroot ::= "a" x-1', {"ab"}),
        ('root ::= "a"\r\nx ::= "b"\r\n', {"a"}),
        ('root ::= "ab"{2}', {"abab"}),
        ('root ::= "a"x"b"\nx ::= "c"', {"acb"}),
        ('root ::= [a]"b"', {"ab"}),
        ('root ::= "a"*{2}', {"", "a", "aa", "aaa"}),
        ('root ::= "#" "a"', {"#a"}),
    ],
)
def test_a_grammar_has_exactly_the_strings_it_says(text, members):
    candidates = ["", "a", "b", "c", "ab", "ac", "acb", "aa", "aaa", "abab", "#a", "abb", "ba"]
    assert language(text, candidates) == members


def test_a_start_rule_of_another_name_can_be_chosen():
    recognizer = Recognizer(parse('root ::= "a"\nother ::= "b"', root="other"))
    assert recognizer.member(b"b") and not recognizer.member(b"a")


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("<[7]>", (7, None, False)),
        ("<[0]>", (0, None, False)),
        ("!<[7]>", (7, None, True)),
        ("<|im_start|>", (None, "<|im_start|>", False)),
        ("!<think>", (None, "<think>", True)),
    ],
)
def test_a_token_terminal_names_a_token_by_id_or_text(text, token):
    node = root_node(f"root ::= {text}")
    assert isinstance(node, Token)
    assert (node.id, node.text, node.negated) == token


def test_whether_a_class_was_written_as_a_negation_is_kept():
    assert root_node("root ::= [^a]").negated
    assert not root_node("root ::= .").negated
    assert not root_node("root ::= [a]").negated


def test_children_stand_before_their_parents():
    grammar = parse('root ::= (("a" | [b-c]* x{2,3})+ | !<[1]>)\nx ::= "y" root |')
    for index, node in enumerate(grammar.nodes):
        match node:
            case Sequence(items):
                below = items
            case Choice(options):
                below = options
            case Repeat(item):
                below = (item,)
            case _:
                below = ()
        assert all(child < index for child in below)


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "no rule"),
        ("# only a comment", 1, 17, "no rule"),
        ('x ::= "a"', 1, 10, "start rule 'root' is missing"),
        ("root", 1, 5, "expected '::='"),
        ("root :: =", 1, 6, "expected '::='"),
        ('root "a"', 1, 6, "expected '::='"),
        ('= "a"', 1, 1, "expected a rule name"),
        ("root ::= x", 1, 10, "rule 'x' is not defined"),
        ('root ::= "a"\ny ::= "b" ( [c] z )', 2, 17, "rule 'z' is not defined"),
        ("root ::= a_b", 1, 11, "expected a newline or the end of the text after rule 'root', found '_'"),
        ('root ::= "a"\n  | "b"', 2, 3, "expected a rule name"),
        ('root ::= "a"\nroot ::= "b"', 2, 1, "defined twice (first on line 1)"),
        ('root ::= "abc', 1, 10, "unterminated literal"),
        ('root ::= "abc\\"', 1, 10, "unterminated literal"),
        ("root ::= [abc", 1, 10, "unterminated character class"),
        ("root ::= [a-", 1, 10, "unterminated character class"),
        ("root ::= [^", 1, 10, "unterminated character class"),
        ('root ::= "a" ("b"', 1, 18, "expected ')' for the group opened at line 1, column 14"),
        ('root ::= (\n("a" | "b")\n', 3, 1, "expected ')' for the group opened at line 1, column 10"),
        ('root ::= "a")', 1, 13, "expected a newline"),
        ('root ::= "\\d"', 1, 11, "unknown escape '\\d'"),
        ("root ::= [a\\q]", 1, 12, "unknown escape '\\q'"),
        ('root ::= "\\\n"', 1, 11, "unknown escape '\\\\n'"),
        ('root ::= "\\u12\n4"', 1, 11, "found '12\\n4'"),
        ("root ::= <[1\r]>", 1, 10, "found '<[1\\r]>'"),
        ('root ::= "\\x4"', 1, 11, "expected 2 hex digits"),
        ('root ::= "\\u12g4"', 1, 11, "expected 4 hex digits"),
        ('root ::= "\\U0001F60"', 1, 11, "expected 8 hex digits"),
        ('root ::= "\\', 1, 11, "unterminated escape"),
        ("root ::= [z-a]", 1, 11, "reversed range U+007A-U+0061"),
        ("root ::= [bz-a]", 1, 12, "reversed range"),
        ('root ::= "a"{2,1}', 1, 13, "the maximum is below the minimum"),
        ('root ::= "a"{}', 1, 14, "expected a number or ','"),
        ('root ::= "a"{,}', 1, 15, "expected a number"),
        ('root ::= "a"{2', 1, 15, "expected '}'"),
        ('root ::= "a"{2,3', 1, 17, "expected '}'"),
        ('root ::= "a"{-1}', 1, 14, "expected a number"),
        ('root ::= "a"{2;3}', 1, 15, "expected '}'"),
        ('root ::= "a"{1234567890}', 1, 14, "more than nine digits"),
        ("root ::= *", 1, 10, "expected an item before the repetition"),
        ('root ::= "a" | +', 1, 16, "expected an item before the repetition"),
        ("root ::= ({2})", 1, 11, "expected an item before the repetition"),
        ("root ::= <abc", 1, 10, "unterminated token terminal"),
        ("root ::= <abc\n>", 1, 10, "unterminated token terminal"),
        ("root ::= <[x]>", 1, 10, "expected a token id"),
        ("root ::= <[]>", 1, 10, "expected a token id"),
        ("root ::= <[12>", 1, 10, "expected a token id"),
        ("root ::= !a", 1, 11, "expected '<'"),
        ('root ::= "a"\x00', 1, 13, "NUL"),
        ('root ::= "é" "世" %', 1, 18, "found '%'"),
    ],
)
def test_an_error_says_where_and_what_was_expected(text, line, column, message):
    with pytest.raises(GrammarError) as raised:
        parse(text)
    assert (raised.value.line, raised.value.column) == (line, column)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"line {line}, column {column}: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [(b'root ::= "\xff"', 1, 11), (b'root ::= "a"\n# \xc3\xa9\xe4\xb8', 2, 4), (b"\xed\xa0\x80", 1, 1)],
)
def test_bytes_that_are_not_utf8_are_refused_with_their_place(data, line, column):
    with pytest.raises(GrammarError, match="not UTF-8") as raised:
        parse(data)
    assert (raised.value.line, raised.value.column) == (line, column)


# -- warnings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "places", "word"),
    [
        (r'root ::= "\ud83d\ude00"', [(1, 11), (1, 17)], "surrogate"),
        ("root ::= [\\ud800-\\udfff]", [(1, 11), (1, 10)], "surrogate"),
        (r'root ::= "\u1f600"', [(1, 11)], "four digits"),
        (r'root ::= "\U00110000"', [(1, 11)], "beyond U+10FFFF"),
        ('root ::= "a"\nx ::= [b]', [], ""),
        ('root ::= "a" []', [(1, 14)], "matches nothing"),
        (r"root ::= [^\x00-\U0010ffff]", [(1, 10)], "matches nothing"),
        ('root ::= "\\u1f60" "0"', [], ""),
        ("root ::= [a]", [], ""),
    ],
)
def test_what_can_be_read_but_hardly_meant_is_a_warning_with_its_place(text, places, word):
    warnings = parse(text).warnings
    assert [(w.position.line, w.position.column) for w in warnings] == places
    if places:
        assert word in str(warnings[0])


# -- cases of the field --------------------------------------------------------------------------------------


def test_hidden_left_recursion_is_read_with_its_meaning():
    text = 'root ::= a root "x" | "y"\na ::= b b\nb ::= "z" |'
    recognizer = Recognizer(parse(text))
    for good in ("y", "yx", "zyx", "zzyx", "zyxx", "zzzzyxx", "yxxx"):
        assert recognizer.member(good.encode()), good
    # Each x pays for up to two z, so a third z needs a second x.
    for bad in ("", "x", "zy", "zzzyx", "yz", "xy"):
        assert not recognizer.member(bad.encode()), bad


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ('root ::= root "x" | "y"', ["y", "yx", "yxxx"], ["", "x", "yxy"]),
        ('root ::= ("a" | )*', ["", "a", "aaa"], ["b"]),
        ('root ::= (("a"*)*)*', ["", "a", "aaa"], ["b"]),
        ('root ::= "a"{0,41}', ["", "a" * 40, "a" * 41], ["a" * 42, "b"]),
        ('root ::= "a" [^] "b"', ["axb", "a世b", "abb"], ["ab", "axxb"]),
        (r'root ::= "\u1f600"', ["\u1f600"], ["\U0001f600", "\u1f60"]),
        (r'root ::= "\ud83d\ude00"', [], ["", "\U0001f600"]),
        (" ".join(["root ::="] + ['"a"?'] * 20), ["", "a" * 20], ["a" * 21]),
        (
            "root ::= r0\n"
            + "\n".join(f'r{i} ::= r{i + 1} | "x" | r{i + 1}' for i in range(30))
            + '\nr30 ::= "a"',
            ["a", "x"],
            ["", "aa", "ax"],
        ),
    ],
)
def test_texts_that_upstream_stumbles_over_have_their_meaning(text, good, bad):
    recognizer = Recognizer(parse(text))
    assert [one for one in good if not recognizer.member(one.encode())] == []
    assert [one for one in bad if recognizer.member(one.encode())] == []


def test_sixty_thousand_nested_groups_are_read():
    recognizer = Recognizer(parse("root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000))
    assert recognizer.member(b"a") and not recognizer.member(b"aa") and not recognizer.member(b"")


def test_a_group_left_open_sixty_thousand_deep_is_an_error_with_its_place():
    with pytest.raises(GrammarError) as raised:
        parse("root ::= " + "(" * 60_000 + '"a"' + ")" * 59_999)
    assert raised.value.column == 10 + 60_000 + 3 + 59_999
    assert "opened at line 1, column 10" in str(raised.value)


# -- any grammar ---------------------------------------------------------------------------------------------


def arena(rules: Rules) -> object:
    """A drawn grammar in the shape that the parser must give it, as nested tuples."""

    def shape(expression: Expression) -> object:
        match expression:
            case OneOf(ranges, negated):
                listed = {c for low, high in ranges for c in (low, high)}
                return ("class", frozenset(listed), negated)
            case Text(characters):
                units = [("class", frozenset({ord(c)}), False) for c in characters]
                return units[0] if len(units) == 1 else ("sequence", tuple(units))
            case Use(rule):
                return ("use", "root" if rule == 0 else f"r{rule}")
            case WholeToken(token, negated):
                return ("token", token, negated)
            case InOrder(items):
                return ("sequence", tuple(map(shape, items)))
            case Either(options):
                return ("choice", tuple(map(shape, options)))
            case Times(item, least, most):
                return ("repeat", shape(item), least, most)

    return {("root" if n == 0 else f"r{n}"): shape(body) for n, body in enumerate(rules.bodies)}


def read_back(grammar: Grammar) -> object:
    """A parsed grammar as the same nested tuples; a class as the bounds that the grammar's text gave it."""

    def shape(index: int) -> object:
        node = grammar.nodes[index]
        match node:
            case Characters():
                return node
            case Token():
                return ("token", node.id, node.negated)
            case Reference():
                return ("use", node.name)
            case Sequence(items):
                return ("sequence", tuple(map(shape, items)))
            case Choice(options):
                return ("choice", tuple(map(shape, options)))
            case Repeat(item, least, most):
                return ("repeat", shape(item), least, most)

    return {name: shape(rule.body) for name, rule in grammar.rules.items()}


def same(drawn: object, parsed: object) -> bool:
    if isinstance(parsed, Characters):
        _, bounds, negated = drawn  # type: ignore[misc]
        inside = {c for c in bounds for low, high in parsed.ranges if low <= c <= high}
        return parsed.negated == negated and inside == (set() if negated else bounds)
    if isinstance(drawn, tuple) and isinstance(parsed, tuple):
        return len(drawn) == len(parsed) and all(map(same, drawn, parsed))
    if isinstance(drawn, dict) and isinstance(parsed, dict):
        return drawn.keys() == parsed.keys() and all(same(drawn[key], parsed[key]) for key in drawn)
    return drawn == parsed


@given(grammars(tokens=(3, 260)))
@settings(max_examples=150, deadline=None)
def test_the_tree_of_a_written_grammar_is_the_grammar_that_was_written(rules):
    assert same(arena(rules), read_back(parse(rules.gbnf())))


@given(st.text(st.sampled_from('root ::=xab|()*+?{}0123,[]^-\\nuU"<>!.#\n\r\u2028 é世'), max_size=40))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_grammar_or_a_grammar_error_with_a_place_inside_it(text):
    text = "root ::= " + text
    try:
        parse(text)
    except GrammarError as error:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        assert len(str(error).splitlines()) == 1


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_grammar_or_a_grammar_error(data):
    try:
        parse(b"root ::= " + data)
    except GrammarError as error:
        assert error.line >= 1 and error.column >= 1
