"""Hand-made answers about token terminals, put to the textbook recognizer, the automaton and the masks."""

from __future__ import annotations

from typing import NamedTuple

TOKENS = {b"<t>": 7}
"""Tokens that can be named by their text."""

END = 99
"""The end-of-generation token."""


class Case(NamedTuple):
    """A grammar, tokens as (id or None for bare bytes, bytes), and what is right after them."""

    text: str
    tokens: tuple[tuple[int | None, bytes], ...]
    viable: bool
    member: bool


CASES = (
    Case("root ::= <[7]>", ((7, b"<t>"),), True, True),
    Case("root ::= <t>", ((7, b"<t>"),), True, True),
    Case("root ::= <[7]>", ((1, b"<"), (2, b"t>")), False, False),
    Case('root ::= "<t>"', ((7, b"<t>"),), True, True),
    Case('root ::= <[7]> "a"', ((7, b"<t>"), (1, b"a")), True, True),
    Case('root ::= <[7]> "a"', ((7, b"<t>"), (1, b"b")), False, False),
    # A terminal never begins inside a token.
    Case('root ::= "<" <[7]>', ((9, b"<<t>"),), False, False),
    Case('root ::= "<" <[9]>', ((9, b"<<t>"),), False, False),
    Case('root ::= "" <[9]>', ((9, b"<<t>"),), True, True),
    Case("root ::= !<[7]>", ((8, b"xy"),), True, True),
    Case("root ::= !<[7]>", ((8, b"\xff"),), True, True),
    Case("root ::= !<[7]>", ((7, b"<t>"),), False, False),
    # A negated terminal matches no token that ends the generation; a positive one may.
    Case("root ::= !<[7]>", ((END, b"<end>"),), False, False),
    Case('root ::= !<[7]> | "<end>"', ((END, b"<end>"),), True, True),
    Case("root ::= <[99]>", ((END, b"<end>"),), True, True),
    # Tokens without bytes.
    Case("root ::= <[5]>", ((5, b""),), True, True),
    Case("root ::= !<[7]>", ((5, b""),), True, True),
    Case('root ::= "a" <[5]>', ((5, b""),), False, False),
    Case("root ::= .*", ((5, b""),), False, False),
    Case("root ::= <[7]>*", ((7, b"<t>"), (7, b"<t>"), (7, b"<t>")), True, True),
    Case("root ::= <[7]>{2}", ((7, b"<t>"), (7, b"<t>"), (7, b"<t>")), False, False),
    # A token that is both: after it, what its bytes lead to and what its terminal leads to are both right.
    Case('root ::= <[7]> "b" | "<tt"', ((7, b"<t"),), True, False),
    Case('root ::= <[7]> "b" | "<tt"', ((7, b"<t"), (1, b"t")), True, True),
    Case('root ::= <[7]> "b" | "<tt"', ((7, b"<t"), (1, b"b")), True, True),
    Case('root ::= <[7]> "b" | "<tt"', ((7, b"<t"), (1, b"x")), False, False),
    Case('root ::= <[7]> "b" | "<t"', ((7, b"<t"),), True, True),
    Case('root ::= <[7]> "b" | "<t"', ((7, b"<t"), (1, b"b")), True, True),
    Case("root ::= !<[7]> | .", ((3, b"\xe4"),), True, True),
    Case("root ::= !<[7]> | .", ((3, b"\xe4"), (4, b"\xb8")), True, False),
    # Two terminals that take one token.
    Case('root ::= <[7]> "a" | !<[8]> "b"', ((7, b"<t>"), (1, b"a")), True, True),
    Case('root ::= <[7]> "a" | !<[8]> "b"', ((7, b"<t>"), (1, b"b")), True, True),
    Case('root ::= <[7]> "a" | !<[8]> "b"', ((6, b"z"), (1, b"a")), False, False),
)
