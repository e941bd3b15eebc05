"""``python -m bench``: the oracle's masks against llama.cpp's own apply, at the same states, in the same run.

CPU time on both sides, remembered masks excluded. The states are those of llama.cpp's sample grammars in the
build's source tree, reached by random walks from a fixed seed. Warm is the least of three computations of a
mask whose automaton rows exist, cold the first one in a walk from the start.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from oracle.automaton import Automaton
from oracle.gbnf import parse
from oracle.lowering import lower
from oracle.mask import Oracle
from oracle.vocabulary import Trie, Vocabulary
from tracker.audits.grammar.audit import LIMITS
from tracker.cache import Cache
from tracker.cli.options import DEFAULT_RELEASE
from tracker.libllama.client import LibllamaClient
from tracker.pipeline import load_vocabulary, prepare_build

STATES = 20
WALKS = 60
WALK_LENGTH = 14
SEED = 1
VOCABULARY_SIZES = (1_000, 4_000, 16_000, 64_000, 151_936)

OUT = Console(highlight=False, soft_wrap=True)


class Timing(NamedTuple):
    """CPU seconds at one state."""

    apply: float
    warm: float
    cold: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("release", nargs="?", default=DEFAULT_RELEASE)
    release = parser.parse_args().release
    cache = Cache.default()
    build = prepare_build(release, cache, jobs=2, retry_failed=False, tell=OUT.print)
    vocabulary = load_vocabulary(cache, [build.tree])
    words = vocabulary.vocabulary
    words.trie  # noqa: B018 - measured on its own below
    with LibllamaClient(build, vocabulary.path, LIMITS) as client:
        rows = {
            path.name: list(at_states(path, client, words))
            for path in sorted((build.tree / "grammars").glob("*.gbnf"))
        }
    masks_table(build.id, rows)
    OUT.print(growth_with_vocabulary(words))
    OUT.print(growth_with_grammar())


def at_states(path: Path, client: LibllamaClient, vocabulary: Vocabulary) -> Iterator[Timing]:
    """Times at states of one grammar."""
    text = path.read_text(encoding="utf-8")
    oracle = Oracle(text, vocabulary)
    places = random_places(oracle)
    fresh = Oracle(text, vocabulary)
    cold = {}
    for tokens, state in places:
        reached = fresh.walk(tokens)
        begun = time.thread_time()
        fresh.compute_mask(reached)
        cold[state] = time.thread_time() - begun
    for tokens, state in places:
        warm = min(timed_mask(oracle, state) for _ in range(3))
        apply = min(client.mask(text, tokens).apply_cpu_seconds for _ in range(2))
        yield Timing(apply, warm, cold[state])


def random_places(oracle: Oracle) -> list[tuple[tuple[int, ...], int]]:
    """Up to ``STATES`` different states, each with a token path to it."""
    chance = random.Random(SEED)
    found: dict[int, tuple[int, ...]] = {}
    for _ in range(WALKS):
        tokens: tuple[int, ...] = ()
        state = oracle.start
        for _ in range(WALK_LENGTH):
            found.setdefault(state, tokens)
            allowed = np.flatnonzero(oracle.mask(state).tokens)
            if not len(allowed) or len(found) >= STATES:
                break
            token = int(allowed[chance.randrange(len(allowed))])
            tokens, state = (*tokens, token), oracle.step(state, token)
    return [(tokens, state) for state, tokens in found.items()]


def timed_mask(oracle: Oracle, state: int) -> float:
    """CPU seconds of one mask, computed afresh by an oracle that remembers nothing of it."""
    oracle.forget()
    begun = time.thread_time()
    oracle.compute_mask(state)
    return time.thread_time() - begun


def masks_table(build: str, rows: dict[str, list[Timing]]) -> None:
    """Print the ratios grammar by grammar and over all states."""
    table = Table(
        "grammar", "states", "apply ms", "warm / apply, mean", "most", "cold / apply, median", title=build
    )
    everything = [timing for timings in rows.values() for timing in timings]
    for name, timings in [*rows.items(), ("all", everything)]:
        apply, warm, cold = (np.array(column) for column in zip(*timings, strict=True))
        table.add_row(
            name,
            str(len(timings)),
            f"{apply.min() * 1e3:.0f}-{apply.max() * 1e3:.0f}",
            f"{np.exp(np.log(warm / apply).mean()):.3f}",
            f"{(warm / apply).max():.3f}",
            f"{np.median(cold / apply):.3f}",
        )
    OUT.print(table)


def growth_with_vocabulary(vocabulary: Vocabulary) -> Table:
    """Set-up and a dense mask over the first tokens of the vocabulary, against the whole of it."""
    table = Table("tokens", "trie / whole", "dense mask / whole", title="growth with the vocabulary")
    times = []
    for size in VOCABULARY_SIZES:
        part = Vocabulary(vocabulary.pieces[:size], vocabulary.kinds[:size], frozenset())
        begun = time.thread_time()
        Trie(part.pieces)
        built = time.thread_time() - begun
        oracle = Oracle("root ::= .+", part)
        oracle.compute_mask(oracle.start)
        times.append((size, built, min(timed_mask(oracle, oracle.start) for _ in range(5))))
    _, whole_trie, whole_mask = times[-1]
    for size, built, mask in times:
        table.add_row(f"{size:,}", f"{built / whole_trie:.3f}", f"{mask / whole_mask:.3f}")
    return table


def growth_with_grammar() -> Table:
    """Reading and lowering grammars of growing size, a unit of size against the smallest."""
    table = Table("grammar", "size", "time per unit / smallest", title="growth with the grammar")
    for name, make in (
        ("alternatives", lambda n: "root ::= " + " | ".join(f'"word{i}"' for i in range(n))),
        ("nested groups", lambda n: "root ::= " + "(" * n + '"a"' + ")" * n),
        ("repetition {0,n}", lambda n: f'root ::= "a"{{0,{n}}}'),
    ):
        sizes: Sequence[int] = (500, 5_000, 50_000)
        per_unit = []
        for size in sizes:
            begun = time.thread_time()
            Automaton(lower(parse(make(size))))
            per_unit.append((time.thread_time() - begun) / size)
        for size, spent in zip(sizes, per_unit, strict=True):
            table.add_row(name, f"{size:,}", f"{spent / per_unit[0]:.2f}")
    return table


if __name__ == "__main__":
    main()
