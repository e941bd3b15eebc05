"""What upstream is known to read differently, against texts that say the same by themselves."""

from __future__ import annotations

import pytest

from oracle.earley import Recognizer
from oracle.gbnf import parse
from tracker.audits.grammar.reading import upstream_reading


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ('root ::= "a" [^] "b"', 'root ::= "a" "b"'),
        ('root ::= "a" [] "b"', 'root ::= "a" "b"'),
        ('root ::= [] | "b"', 'root ::= "" | "b"'),
        ('root ::= "a"{1,2001}', 'root ::= "a"{1,}'),
        ('root ::= ("a" [^]){0,3000} "b"', 'root ::= "a"* "b"'),
    ],
)
def test_an_empty_class_is_nothing_and_a_large_bound_is_none(text: str, read_as: str) -> None:
    reading = upstream_reading(parse(text))
    assert reading is not None
    here, there = Recognizer(reading), Recognizer(parse(read_as))
    strings = [b"", b"a", b"b", b"ab", b"aab", b"aa", b"ba", b"a" * 30 + b"b", b"\xc3\xa9"]
    assert [here.member(s) for s in strings] == [there.member(s) for s in strings]
    assert [here.viable(s) for s in strings] == [there.viable(s) for s in strings]


@pytest.mark.parametrize(
    "text",
    ["root ::= [^a]", 'root ::= "a"{0,2000}', "root ::= .", "root ::= [\\ud800]", 'root ::= "" | "a"*'],
)
def test_other_texts_are_read_as_they_stand(text: str) -> None:
    assert upstream_reading(parse(text)) is None
