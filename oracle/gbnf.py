"""GBNF text to an abstract syntax tree.

The tree is an arena: nodes refer to their children by index, children stand before their parents, and the
parser keeps its own stack, so that no input, however deeply nested, meets Python's recursion limit.

Language: the GBNF notation of llama.cpp's ``grammars/README.md``. A grammar denotes strings of Unicode scalar
values. Where upstream's parser is stricter or laxer than a grammar's meaning, this one keeps the meaning:
left recursion is read; a reversed range, a rule defined twice and text that is not UTF-8 are errors. What can
be read but never matched (a surrogate, an empty class) is a warning with its position.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from typing import NoReturn

from oracle import OracleError
from oracle.utf8 import LAST_CODE_POINT, SURROGATES, CodePointRange, complement, normalise

NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")
_DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")
_SIMPLE_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
_REPETITIONS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


class GrammarError(OracleError):
    """A text is not a grammar. Says where (line and column, both from 1) and what was expected."""

    def __init__(self, message: str, line: int, column: int):
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column


class GrammarTooLarge(GrammarError):
    """A text is a grammar, and a larger one than can be held. Says where it became too large."""


@dataclass(frozen=True)
class Position:
    """A place in the grammar's text; line and column count from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True)
class Warning:
    """Something that can be read but is most likely not what was meant."""

    message: str
    position: Position

    def __str__(self) -> str:
        return f"line {self.position.line}, column {self.position.column}: {self.message}"


@dataclass(frozen=True)
class Characters:
    """One character out of a set: a class, a dot, or one character of a literal.

    ``ranges`` is the set that matches, in canonical form, negation already resolved. ``negated`` says that it
    was written as ``[^...]``; a dot is not negated. ``bare`` says that nothing stood between the brackets.
    """

    ranges: tuple[CodePointRange, ...]
    negated: bool = False
    bare: bool = False


@dataclass(frozen=True)
class Token:
    """A token terminal: one whole token, given by its id or by its text (``<[7]>``, ``<name>``)."""

    id: int | None
    text: str | None
    negated: bool
    position: Position


@dataclass(frozen=True)
class Reference:
    """A use of a rule."""

    name: str
    position: Position


@dataclass(frozen=True)
class Sequence:
    """Nodes one after another; empty for the empty string."""

    items: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """One of several nodes."""

    options: tuple[int, ...]


@dataclass(frozen=True)
class Repeat:
    """A node repeated ``minimum`` to ``maximum`` times (None: without limit)."""

    item: int
    minimum: int
    maximum: int | None
    position: Position


Node = Characters | Token | Reference | Sequence | Choice | Repeat


@dataclass(frozen=True)
class Rule:
    """A named rule; ``body`` is the index of its node."""

    name: str
    body: int
    position: Position


@dataclass(frozen=True)
class Grammar:
    """A whole grammar. ``nodes`` is the arena: children stand before their parents."""

    nodes: tuple[Node, ...]
    rules: dict[str, Rule]
    root: str
    warnings: tuple[Warning, ...]


def parse(text: str | bytes, root: str = "root") -> Grammar:
    """Parse GBNF.

    Args:
        text: the grammar; bytes are decoded as strict UTF-8.
        root: name of the start rule.

    Raises:
        GrammarError: with line and column of the first thing that is wrong.
    """
    if isinstance(text, bytes):
        text = _decode(text)
    return _Parser(text).grammar(root)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        raise GrammarError(f"not UTF-8 (byte {data[error.start]:#04x})", line, column) from None


@dataclass
class _Open:
    """A group, or a rule's body, whose end has not been seen yet."""

    start: int
    options: list[int]
    items: list[int]


class _Parser:
    """A cursor over the text and the arena under construction."""

    def __init__(self, text: str):
        self.text = text
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.at = 0
        self.nodes: list[Node] = []
        self.rules: dict[str, Rule] = {}
        self.references: list[Reference] = []
        self.warnings: list[Warning] = []

    # -- positions and errors ------------------------------------------------------------------------------

    def position(self, at: int | None = None) -> Position:
        at = self.at if at is None else at
        line = bisect.bisect_right(self.line_starts, at)
        return Position(line, at - self.line_starts[line - 1] + 1)

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        where = self.position(at)
        raise GrammarError(message, where.line, where.column)

    def warn(self, message: str, at: int) -> None:
        self.warnings.append(Warning(message, self.position(at)))

    def peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def found(self) -> str:
        """What stands at the cursor, for an error message."""
        return repr(self.peek()) if self.peek() else "the end of the text"

    def skip_space(self, newlines: bool) -> None:
        blanks = " \t\r\n" if newlines else " \t"
        while (here := self.peek()) and (here in blanks or here == "#"):
            if here == "#":
                while self.peek() and self.peek() not in "\r\n":
                    self.at += 1
            else:
                self.at += 1

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    # -- rules ---------------------------------------------------------------------------------------------

    def grammar(self, root: str) -> Grammar:
        if "\0" in self.text:
            self.fail("NUL character in the grammar's text", self.text.index("\0"))
        self.skip_space(newlines=True)
        while self.peek():
            self.rule()
        if not self.rules:
            self.fail("no rule at all: expected 'root ::= ...'")
        if root not in self.rules:
            self.fail(f"the start rule '{root}' is missing: add '{root} ::= ...'")
        for reference in self.references:
            if reference.name not in self.rules:
                where = reference.position
                raise GrammarError(f"rule '{reference.name}' is not defined", where.line, where.column)
        return Grammar(tuple(self.nodes), self.rules, root, tuple(self.warnings))

    def name(self) -> str:
        start = self.at
        while self.peek() in NAME_CHARACTERS and self.peek():
            self.at += 1
        return self.text[start : self.at]

    def rule(self) -> None:
        start = self.at
        name = self.name()
        if not name:
            self.fail(f"expected a rule name ([a-zA-Z0-9-]+), found {self.found()}")
        self.skip_space(newlines=False)
        if not self.text.startswith("::=", self.at):
            self.fail(f"expected '::=' after the rule name '{name}', found {self.found()}")
        self.at += 3
        self.skip_space(newlines=True)
        if name in self.rules:
            first = self.rules[name].position
            self.fail(f"rule '{name}' is defined twice (first on line {first.line})", start)
        body = self.body()
        self.rules[name] = Rule(name, body, self.position(start))
        if self.peek() and self.peek() not in "\r\n":
            self.fail(f"expected a newline or the end of the text after rule '{name}', found {self.found()}")
        self.skip_space(newlines=True)

    def body(self) -> int:
        """Alternatives up to the end of the rule, groups included, without recursion."""
        stack = [_Open(self.at, [], [])]
        while True:
            here = self.peek()
            top = stack[-1]
            nested = len(stack) > 1
            if here == "(":
                stack.append(_Open(self.at, [], []))
                self.at += 1
                self.skip_space(newlines=True)
            elif here == "|":
                top.options.append(self.close_sequence(top))
                self.at += 1
                self.skip_space(newlines=True)
            elif here == ")" and nested:
                group = self.close(stack.pop())
                stack[-1].items.append(group)
                self.at += 1
                self.skip_space(newlines=len(stack) > 1)
            elif here and here in "*+?{":
                self.repetition(top, nested)
            elif (node := self.item()) is not None:
                top.items.append(node)
                self.skip_space(newlines=nested)
            elif nested:
                opened = self.position(top.start)
                self.fail(
                    f"expected ')' for the group opened at line {opened.line}, column {opened.column}, "
                    f"found {self.found()}"
                )
            else:
                return self.close(top)

    def close_sequence(self, group: _Open) -> int:
        items, group.items = group.items, []
        return items[0] if len(items) == 1 else self.add(Sequence(tuple(items)))

    def close(self, group: _Open) -> int:
        last = self.close_sequence(group)
        return self.add(Choice((*group.options, last))) if group.options else last

    # -- items ---------------------------------------------------------------------------------------------

    def item(self) -> int | None:
        """One literal, class, dot, token terminal or rule reference; None where none of them stands."""
        here = self.peek()
        start = self.at
        if here == '"':
            return self.literal()
        if here == "[":
            return self.character_class()
        if here == ".":
            self.at += 1
            return self.add(Characters(normalise([(0, LAST_CODE_POINT)])))
        if here and here in "<!":
            return self.token()
        if name := self.name():
            reference = Reference(name, self.position(start))
            self.references.append(reference)
            return self.add(reference)
        return None

    def repetition(self, group: _Open, nested: bool) -> None:
        start = self.at
        if not group.items:
            self.fail(f"expected an item before the repetition {self.found()}")
        here = self.peek()
        self.at += 1
        minimum, maximum = self.bounds(nested) if here == "{" else _REPETITIONS[here]
        if maximum is not None and maximum < minimum:
            self.fail(f"repetition {{{minimum},{maximum}}}: the maximum is below the minimum", start)
        group.items[-1] = self.add(Repeat(group.items[-1], minimum, maximum, self.position(start)))
        self.skip_space(newlines=nested)

    def bounds(self, nested: bool) -> tuple[int, int | None]:
        """The inside of ``{n}``, ``{n,}``, ``{,m}`` or ``{n,m}``, and its closing brace."""
        self.skip_space(newlines=nested)
        minimum = self.integer()
        maximum = minimum
        self.skip_space(newlines=nested)
        if self.peek() == ",":
            self.at += 1
            self.skip_space(newlines=nested)
            maximum = self.integer()
            self.skip_space(newlines=nested)
            if minimum is None and maximum is None:
                self.fail("expected a number in the repetition '{,}'")
        elif minimum is None:
            self.fail(f"expected a number or ',' in the repetition, found {self.found()}")
        if self.peek() != "}":
            self.fail(f"expected '}}' at the end of the repetition, found {self.found()}")
        self.at += 1
        return minimum or 0, maximum

    def integer(self) -> int | None:
        start = self.at
        while self.peek() and self.peek() in _DIGITS:
            self.at += 1
        if self.at - start > 9:
            self.fail("a number of more than nine digits in a repetition", start)
        return int(self.text[start : self.at]) if self.at > start else None

    def token(self) -> int:
        start = self.at
        negated = self.peek() == "!"
        self.at += negated
        if self.peek() != "<":
            self.fail(f"expected '<' of a token terminal after '!', found {self.found()}")
        where = self.position(start)
        end = self.text.find(">", self.at)
        if end < 0 or "\n" in self.text[self.at : end]:
            self.fail("unterminated token terminal: expected '>'", start)
        inside = self.text[self.at + 1 : end]
        if inside.startswith("["):
            digits = inside[1:-1]
            if not inside.endswith("]") or not digits or not set(digits) <= _DIGITS or len(digits) > 10:
                self.fail(f"expected a token id as in '<[1234]>', found '<{_visible(inside)}>'", start)
            node = Token(int(digits), None, negated, where)
        else:
            node = Token(None, f"<{inside}>", negated, where)
        self.at = end + 1
        return self.add(node)

    def literal(self) -> int:
        start = self.at
        self.at += 1
        items: list[int] = []
        while self.peek() != '"':
            if not self.peek():
                self.fail("unterminated literal: expected '\"'", start)
            at = self.at
            value = self.character()
            self.check_scalar(value, value, at)
            items.append(self.add(Characters(normalise([(value, value)]))))
        self.at += 1
        return items[0] if len(items) == 1 else self.add(Sequence(tuple(items)))

    def character_class(self) -> int:
        start = self.at
        self.at += 1
        negated = self.peek() == "^"
        self.at += negated
        ranges: list[CodePointRange] = []
        while self.peek() != "]":
            if not self.peek():
                self.fail("unterminated character class: expected ']'", start)
            at = self.at
            low = high = self.character()
            if self.peek() == "-" and self.peek(1) != "]":
                self.at += 1
                if not self.peek():
                    self.fail("unterminated character class: expected ']'", start)
                high = self.character()
            if high < low:
                self.fail(f"reversed range {_show(low)}-{_show(high)}: put the smaller one first", at)
            self.check_scalar(low, high, at)
            ranges.append((low, high))
        self.at += 1
        matched = complement(ranges) if negated else normalise(ranges)
        if not matched:
            self.warn("this character class matches nothing", start)
        return self.add(Characters(matched, negated, bare=not ranges))

    def check_scalar(self, low: int, high: int, at: int) -> None:
        """Warn of code points that are written in the grammar and have no encoding."""
        if SURROGATES[0] <= low and high <= SURROGATES[1]:
            self.warn(
                f"{_show(low)} is a surrogate: it has no UTF-8 encoding and never matches "
                "(write a character above U+FFFF as \\UHHHHHHHH)",
                at,
            )
        if high > LAST_CODE_POINT:
            self.warn(f"{_show(high)} lies beyond U+10FFFF and never matches", at)

    def character(self) -> int:
        """One character, escapes resolved, as a number; the cursor moves behind it."""
        start = self.at
        here = self.peek()
        self.at += 1
        if here != "\\":
            return ord(here)
        kind = self.peek()
        if not kind:
            self.fail("unterminated escape at the end of the text", start)
        self.at += 1
        if kind in _SIMPLE_ESCAPES:
            return ord(_SIMPLE_ESCAPES[kind])
        if kind not in _HEX_ESCAPES:
            allowed = '\\n \\r \\t \\\\ \\" \\[ \\] \\- \\xHH \\uHHHH \\UHHHHHHHH'
            self.fail(f"unknown escape '\\{_visible(kind)}': allowed are {allowed}", start)
        size = _HEX_ESCAPES[kind]
        digits = self.text[self.at : self.at + size]
        if len(digits) < size or not set(digits) <= _HEX:
            self.fail(f"expected {size} hex digits after '\\{kind}', found '{_visible(digits)}'", start)
        self.at += size
        if kind == "u" and self.peek() and self.peek() in _HEX:
            self.warn(
                f"\\u takes four digits: this is {_show(int(digits, 16))} and then '{self.peek()}' "
                "(write eight digits with \\U)",
                start,
            )
        return int(digits, 16)


def _visible(text: str) -> str:
    """Text for a message of one line: what cannot be seen is escaped."""
    return repr(text)[1:-1]


def _show(value: int) -> str:
    return f"U+{value:04X}"
