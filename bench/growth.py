"""How times and memory grow with the vocabulary, the grammar and the nesting of the output."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

from rich.table import Table

from bench.places import cpu_seconds, mask_seconds, random_places
from oracle.automaton import Automaton
from oracle.gbnf import parse
from oracle.lowering import lower
from oracle.mask import Oracle
from oracle.vocabulary import Trie, Vocabulary

SIZES = (1_000, 4_000, 16_000, 64_000, 151_936, 256_000)
LEVELS = (1, 10, 100, 1_000)
NESTED = 'root ::= "[" (root ("," root)*)? "]" | string\nstring ::= "\\"" [^"\\\\]* "\\""'


def with_vocabulary(vocabulary: Vocabulary) -> Table:
    """Set-up and a dense mask over the first tokens, against the whole vocabulary; memory of the trie."""
    title = "growth with the vocabulary (1.000: the whole of it)"
    table = Table("tokens", "trie", "first dense mask", "dense mask", "trie MB", title=title)
    measured = {size: _one_size(vocabulary, size) for size in SIZES}
    whole = measured[min(len(vocabulary), SIZES[-2])]
    for size, (trie, first, dense, memory) in measured.items():
        ratios = (trie / whole[0], first / whole[1], dense / whole[2])
        table.add_row(f"{size:,}", *(f"{ratio:.3f}" for ratio in ratios), f"{memory / 1e6:.0f}")
    return table


def _one_size(vocabulary: Vocabulary, size: int) -> tuple[float, float, float, int]:
    pieces = vocabulary.pieces[:size]
    # More tokens than there are: the same ones behind a space.
    pieces += tuple(b" " + piece for piece in vocabulary.pieces[: size - len(pieces)])
    kinds = vocabulary.kinds[:1].repeat(len(pieces))
    trie = cpu_seconds(lambda: Trie(pieces))
    tracemalloc.start()
    part = Vocabulary(pieces, kinds, frozenset())
    part.trie  # noqa: B018 - made here
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    oracle = Oracle("root ::= .+", part)
    first = cpu_seconds(lambda: oracle.compute_mask(oracle.start))
    return trie, first, mask_seconds(oracle, oracle.start, 5), memory


def with_grammar() -> Table:
    """Reading and lowering grammars of growing size, a unit of size against the smallest."""
    table = Table("grammar", "size", "time per unit / smallest", title="growth with the grammar")
    shapes: tuple[tuple[str, Callable[[int], str]], ...] = (
        ("alternatives", lambda n: "root ::= " + " | ".join(f'"word{i}"' for i in range(n))),
        ("nested groups", lambda n: "root ::= " + "(" * n + '"a"' + ")" * n),
        ("repetition {0,n}", lambda n: f'root ::= "a"{{0,{n}}}'),
        ("rules in a chain", lambda n: "".join(f"r{i} ::= r{i + 1}\n" for i in range(n)) + f'r{n} ::= "a"'),
    )
    for name, make in shapes:
        per_unit = {}
        for size in (500, 5_000, 50_000):
            text = make(size)
            start = "r0" if name.startswith("rules") else "root"
            per_unit[size] = cpu_seconds(lambda text=text, start=start: _ready(text, start)) / size  # type: ignore[misc]
        for size, spent in per_unit.items():
            table.add_row(name, f"{size:,}", f"{spent / per_unit[500]:.2f}")
    return table


def _ready(text: str, start: str) -> Automaton:
    return Automaton(lower(parse(text, start)))


def with_nesting(vocabulary: Vocabulary) -> Table:
    """A mask inside a string in so many arrays, against one array; states and continuations there."""
    title = "growth with nesting (1.00: one array)"
    table = Table("arrays", "warm mask", "step, per byte", "states", "continuations", title=title)
    measured = {}
    for depth in LEVELS:
        oracle = Oracle(NESTED, vocabulary)
        output = b"[" * depth + b'"'
        step = cpu_seconds(lambda o=oracle, b=output: o.automaton.step(o.start, b)) / len(output)  # type: ignore[misc]
        state = oracle.automaton.step(oracle.start, output)
        oracle.compute_mask(state)
        measured[depth] = mask_seconds(oracle, state), step, oracle.automaton
    for depth, (mask, step, automaton) in measured.items():
        table.add_row(
            f"{depth:,}",
            f"{mask / measured[1][0]:.2f}",
            f"{step / measured[1][1]:.2f}",
            f"{len(automaton):,}",
            f"{automaton.continuations:,}",
        )
    return table


def memory_of_a_walk(texts: dict[str, str], vocabulary: Vocabulary) -> Table:
    """What an oracle takes after masks at all its places: automaton, remembered masks."""
    table = Table("grammar", "states", "MB", title="memory of an oracle after its walk, masks included")
    for name, text in texts.items():
        tracemalloc.start()
        oracle = Oracle(text, vocabulary)
        for _, state in random_places(oracle):
            oracle.mask(state)
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        table.add_row(name, str(len(oracle.automaton)), f"{memory / 1e6:.1f}")
    return table
