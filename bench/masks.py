"""Masks of the oracle and of llguidance against llama.cpp's own apply, at the same states, in the same run.

CPU time on all sides, remembered masks excluded. The states are those of llama.cpp's sample grammars in the
build's source tree. *Warm* is the least of five computations of a mask whose automaton rows and slices
exist, *cold* the first one on a walk from the start. llguidance reads the same grammars with one terminal for
each set of characters, once with its precomputed slices (its default) and once without.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.table import Table

from bench.places import cpu_seconds, mask_seconds, random_places
from oracle.mask import Oracle
from oracle.vocabulary import Vocabulary
from tracker.libllama.client import LibllamaClient

if TYPE_CHECKING:
    from tracker.audits.engines.llguidance_engine import Llguidance

DENSE = 100_000
"""Allowed tokens from which on a state counts as dense."""


class Timing(NamedTuple):
    """CPU seconds at one state; llguidance's are NaN where it is missing. ``allowed`` counts tokens."""

    apply: float
    warm: float
    cold: float
    sliced: float
    plain: float
    allowed: int


class Compiled(NamedTuple):
    """CPU seconds to make a grammar ready; upstream's include what it does at init."""

    ours: float
    upstream: float


class Engines(NamedTuple):
    """llguidance with and without slices, or None."""

    sliced: Llguidance | None
    plain: Llguidance | None


def engines(vocabulary: Vocabulary) -> Engines:
    """llguidance over the vocabulary where it is installed."""
    if importlib.util.find_spec("llguidance") is None:
        return Engines(None, None)
    from tracker.audits.engines.llguidance_engine import PATIENT, Llguidance

    return Engines(Llguidance(vocabulary, PATIENT, sliced=True), Llguidance(vocabulary, PATIENT))


def at_states(
    path: Path, client: LibllamaClient, vocabulary: Vocabulary, others: Engines
) -> Iterator[Timing]:
    """Times at states of one grammar."""
    text = path.read_text(encoding="utf-8")
    oracle = Oracle(text, vocabulary)
    places = random_places(oracle)
    fresh = Oracle(text, vocabulary)
    cold = {}
    for tokens, state in places:
        reached = fresh.walk(tokens)
        cold[state] = cpu_seconds(lambda reached=reached: fresh.compute_mask(reached))  # type: ignore[misc]
    for tokens, state in places:
        warm = mask_seconds(oracle, state)
        apply = min(client.mask(text, tokens).apply_cpu_seconds for _ in range(2))
        sliced, plain = (_llguidance(engine, oracle, tokens) for engine in others)
        yield Timing(apply, warm, cold[state], sliced, plain, int(oracle.mask(state).tokens.sum()))


def compiled(path: Path, client: LibllamaClient, vocabulary: Vocabulary) -> Compiled:
    """Times to make one grammar ready."""
    text = path.read_text(encoding="utf-8")
    ours = cpu_seconds(lambda: Oracle(text, vocabulary), 3)
    # The child keeps a grammar that it has parsed, so each time is that of a text that is new to it.
    texts = [text + "\n" * blanks for blanks in range(1, 4)]
    return Compiled(ours, min(client.mask(one, ()).init_seconds for one in texts))


def _llguidance(engine: Llguidance | None, oracle: Oracle, tokens: tuple[int, ...]) -> float:
    if engine is None:
        return float("nan")
    # The engine keeps the last mask of a matcher, so each time is that of a new one.
    matchers = [engine.start(oracle.grammar).after(tokens) for _ in range(3)]
    return min(cpu_seconds(matcher.compute) for matcher in matchers)


def masks_table(build: str, rows: dict[str, list[Timing]]) -> Table:
    """Ratios to apply, by grammar and over all states: geometric means, the largest, the cold median."""
    names = ("grammar", "states", "apply ms", "warm", "warm, most", "cold, median", "llguidance", "no slices")
    table = Table(*names, title=f"{build}: time of a mask / time of apply")
    everything = [timing for timings in rows.values() for timing in timings]
    dense = [timing for timing in everything if timing.allowed >= DENSE]
    for name, timings in [*rows.items(), ("all", everything), (f"{DENSE:,} tokens or more", dense)]:
        apply, warm, cold, sliced, plain, _ = (np.array(column) for column in zip(*timings, strict=True))
        table.add_row(
            name,
            str(len(timings)),
            f"{apply.min() * 1e3:.0f}-{apply.max() * 1e3:.0f}",
            _mean(warm / apply),
            f"{(warm / apply).max():.3f}",
            f"{np.median(cold / apply):.3f}",
            _mean(sliced / apply),
            _mean(plain / apply),
        )
    return table


def compile_table(rows: dict[str, Compiled]) -> Table:
    """Times to make grammars ready, ours against upstream's."""
    table = Table("grammar", "ours ms", "upstream ms", title="reading and compiling a grammar")
    for name, one in rows.items():
        table.add_row(name, f"{one.ours * 1e3:.2f}", f"{one.upstream * 1e3:.2f}")
    return table


def _mean(ratios: np.ndarray) -> str:
    return "-" if np.isnan(ratios).any() else f"{np.exp(np.log(ratios).mean()):.3f}"
