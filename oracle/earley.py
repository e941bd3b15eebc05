"""The definition: a textbook Earley recognizer over bytes. Slow, and obviously right.

It translates the grammar's tree into plain productions of its own (it shares the parser and the UTF-8 ranges
with the fast automaton, not the lowering) and builds one item set a byte. An item is a production, a dot, and
the set where it began. Nullable symbols follow Aycock and Horspool (Practical Earley Parsing, 2002): when a
nullable symbol stands behind the dot, the dot also moves over it at prediction. All context-free grammars are
read, left-recursive and cyclic ones too.

The input is a list of tokens. A token's bytes are read one by one; a token terminal spans all bytes of one
token at once, so sets between two token boundaries hold items that wait for bytes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from oracle import utf8
from oracle.gbnf import Characters, Choice, Grammar, Reference, Repeat, Token
from oracle.gbnf import Sequence as SequenceNode


class Bytes(NamedTuple):
    """A terminal: one byte in a range."""

    low: int
    high: int


class WholeToken(NamedTuple):
    """A terminal: one token with this id, or any but this (and but an end-of-generation token)."""

    id: int
    negated: bool


Symbol = Bytes | WholeToken | int
"""A terminal, or a nonterminal by number."""


class Item(NamedTuple):
    """A production with a dot, begun at set ``origin``."""

    production: int
    dot: int
    origin: int


class InputToken(NamedTuple):
    """One token of the input; ``id`` is None for bytes that came from no token."""

    id: int | None
    data: bytes


class Productions:
    """A context-free grammar over bytes and tokens: numbered nonterminals, plain right-hand sides.

    Node ``i`` of the tree becomes nonterminal ``i``; rules and repetitions get further ones. Productions that
    can never be finished are left out, so that an item that is still alive can always be completed.
    """

    def __init__(self, grammar: Grammar, token_ids: Mapping[bytes, int] | None = None):
        self.rules: list[tuple[int, tuple[Symbol, ...]]] = []
        self._next = len(grammar.nodes)
        names = {name: self._fresh() for name in grammar.rules}
        self.start = names[grammar.root]
        for name, rule in grammar.rules.items():
            self._add(names[name], (rule.body,))
        for number, node in enumerate(grammar.nodes):
            match node:
                case Characters():
                    for sequence in utf8.byte_ranges(node.ranges):
                        self._add(number, tuple(Bytes(low, high) for low, high in sequence))
                case Token():
                    token = node.id if node.id is not None else (token_ids or {})[(node.text or "").encode()]
                    self._add(number, (WholeToken(token, node.negated),))
                case Reference():
                    self._add(number, (names[node.name],))
                case SequenceNode():
                    self._add(number, node.items)
                case Choice():
                    for option in node.options:
                        self._add(number, (option,))
                case Repeat():
                    self._repeat(number, node)
        self._drop_unfinishable()
        self.of: dict[int, list[int]] = {}
        for index, (left, _) in enumerate(self.rules):
            self.of.setdefault(left, []).append(index)
        self.nullable = self._nullable()

    def _fresh(self) -> int:
        self._next += 1
        return self._next - 1

    def _add(self, left: int, right: Sequence[Symbol]) -> None:
        self.rules.append((left, tuple(right)))

    def _repeat(self, number: int, node: Repeat) -> None:
        """``X{n,m}`` as n times X and then up to m - n more, nested to the right."""
        rest: tuple[Symbol, ...] = ()
        if node.maximum is None:
            more = self._fresh()
            self._add(more, ())
            self._add(more, (node.item, more))
            rest = (more,)
        else:
            for _ in range(node.maximum - node.minimum):
                optional = self._fresh()
                self._add(optional, ())
                self._add(optional, (node.item, *rest))
                rest = (optional,)
        self._add(number, (node.item,) * node.minimum + rest)

    def _fixpoint(self, good: Iterable[type]) -> set[int]:
        """Nonterminals with a production whose symbols are all in ``good`` or already found."""
        kinds = tuple(good)
        found: set[int] = set()
        grown = True
        while grown:
            grown = False
            for left, right in self.rules:
                if left not in found and all(
                    isinstance(s, kinds) or (isinstance(s, int) and s in found) for s in right
                ):
                    found.add(left)
                    grown = True
        return found

    def _drop_unfinishable(self) -> None:
        finishable = self._fixpoint((Bytes, WholeToken))
        self.rules = [
            (left, right)
            for left, right in self.rules
            if all(not isinstance(s, int) or s in finishable for s in right)
        ]

    def _nullable(self) -> set[int]:
        return self._fixpoint(())


class Recognizer:
    """Answers about prefixes of one grammar's language, each from scratch.

    Args:
        grammar: as parsed.
        token_ids: text of each token to its id, to resolve ``<name>``.
        end_tokens: ids that a negated token terminal does not match.
    """

    def __init__(
        self,
        grammar: Grammar,
        token_ids: Mapping[bytes, int] | None = None,
        end_tokens: Iterable[int] = (),
    ):
        self.productions = Productions(grammar, token_ids)
        self.end_tokens = frozenset(end_tokens)

    def viable(self, tokens: Iterable[InputToken] | bytes) -> bool:
        """Whether some string of the language begins so."""
        return bool(self._last_set(tokens))

    def member(self, tokens: Iterable[InputToken] | bytes) -> bool:
        """Whether this is a whole string of the language."""
        rules = self.productions.rules
        return any(
            item.origin == 0
            and rules[item.production][0] == self.productions.start
            and item.dot == len(rules[item.production][1])
            for item in self._last_set(tokens)
        )

    def _last_set(self, tokens: Iterable[InputToken] | bytes) -> set[Item]:
        if isinstance(tokens, bytes):
            tokens = [InputToken(None, bytes([byte])) for byte in tokens]
        productions = self.productions
        begun = {Item(production, 0, 0) for production in productions.of.get(productions.start, [])}
        sets = [self._complete([], begun)]
        for token in tokens:
            boundary = sets[-1]
            if not token.data:
                sets.append(set())
            for byte in token.data:
                scanned = {
                    Item(item.production, item.dot + 1, item.origin)
                    for item in sets[-1]
                    if isinstance(symbol := self._behind(item), Bytes) and symbol.low <= byte <= symbol.high
                }
                sets.append(self._complete(sets, scanned))
            whole = {
                Item(item.production, item.dot + 1, item.origin)
                for item in boundary
                if isinstance(symbol := self._behind(item), WholeToken) and self._matches(symbol, token)
            }
            if whole:
                sets[-1] = self._complete(sets[:-1], sets[-1] | whole)
            if not sets[-1]:
                return set()
        return sets[-1]

    def _behind(self, item: Item) -> Symbol | None:
        right = self.productions.rules[item.production][1]
        return right[item.dot] if item.dot < len(right) else None

    def _matches(self, symbol: WholeToken, token: InputToken) -> bool:
        if token.id is None:
            return False
        if symbol.negated:
            return token.id != symbol.id and token.id not in self.end_tokens
        return token.id == symbol.id

    def _complete(self, before: Sequence[set[Item]], items: set[Item]) -> set[Item]:
        """Close an item set under prediction and completion."""
        productions = self.productions
        here = len(before)
        closed = set(items)
        todo = list(items)

        def add(item: Item) -> None:
            if item not in closed:
                closed.add(item)
                todo.append(item)

        while todo:
            item = todo.pop()
            symbol = self._behind(item)
            if symbol is None:
                left = productions.rules[item.production][0]
                # A completion inside this very set is the empty string: prediction has moved over it.
                if item.origin < here:
                    for waiting in before[item.origin]:
                        if self._behind(waiting) == left:
                            add(Item(waiting.production, waiting.dot + 1, waiting.origin))
            elif isinstance(symbol, int):
                for production in productions.of.get(symbol, []):
                    add(Item(production, 0, here))
                if symbol in productions.nullable:
                    add(Item(item.production, item.dot + 1, item.origin))
        return closed
