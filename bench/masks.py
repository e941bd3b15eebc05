"""Masks of the oracle, llguidance and xgrammar against llama.cpp's own apply: same states, same run.

CPU time on all sides, remembered masks excluded. The states are those of llama.cpp's sample grammars in the
build's source tree. *Warm* is a mask whose automaton rows and slices exist, the least of as many computations
as on the other sides, *cold* the first one on a walk from the start. llguidance reads the same grammars with
one terminal for each set of characters, once with its precomputed slices (its default) and once without;
xgrammar reads their text itself and makes parts of masks while it compiles (its default), which its column
for masks leaves out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.table import Table

from bench.places import TIMES, cpu_seconds, mask_seconds, random_places
from oracle.gbnf import parse
from oracle.mask import Oracle
from oracle.vocabulary import Vocabulary
from tracker.libllama.client import LibllamaClient

if TYPE_CHECKING:
    from tracker.audits.engines.llguidance_engine import Llguidance
    from tracker.audits.engines.xgrammar_engine import Xgrammar

DENSE = 100_000
"""Allowed tokens from which on a state counts as dense."""


class Timing(NamedTuple):
    """CPU seconds at one state; those of engines that are missing are NaN. ``allowed`` counts tokens."""

    apply: float
    warm: float
    cold: float
    sliced: float
    plain: float
    xgrammar: float
    allowed: int


class Compiled(NamedTuple):
    """CPU seconds to make a grammar ready; upstream's include what it does at init. NaN without xgrammar."""

    ours: float
    upstream: float
    xgrammar: float


class Engines(NamedTuple):
    """llguidance with and without slices, and xgrammar; None for what is missing."""

    sliced: Llguidance | None
    plain: Llguidance | None
    xgrammar: Xgrammar | None


def engines(vocabulary: Vocabulary) -> Engines:
    """The other engines over the vocabulary, where they are installed."""
    return Engines(*llguidance(vocabulary), xgrammar(vocabulary))


def llguidance(vocabulary: Vocabulary) -> tuple[Llguidance | None, Llguidance | None]:
    """llguidance over the vocabulary with and without slices, where it is installed."""
    if importlib.util.find_spec("llguidance") is None:
        return None, None
    from tracker.audits.engines.llguidance_engine import PATIENT, Llguidance

    return Llguidance(vocabulary, PATIENT, sliced=True), Llguidance(vocabulary, PATIENT)


def xgrammar(vocabulary: Vocabulary) -> Xgrammar | None:
    """xgrammar over the vocabulary, where it is installed."""
    from tracker.audits.engines.xgrammar_engine import Xgrammar, missing

    return None if missing() else Xgrammar(vocabulary, ahead=True)


def at_states(
    path: Path, client: LibllamaClient, vocabulary: Vocabulary, others: Engines
) -> Iterator[Timing]:
    """Times at states of one grammar."""
    text = path.read_text(encoding="utf-8")
    oracle = Oracle(text, vocabulary)
    matcher = others.xgrammar.start(text, oracle.grammar) if others.xgrammar else None
    places = random_places(oracle)
    fresh = Oracle(text, vocabulary)
    cold = {}
    for tokens, state in places:
        reached = fresh.walk(tokens)
        cold[state] = cpu_seconds(lambda reached=reached: fresh.compute_mask(reached))  # type: ignore[misc]
    for tokens, state in places:
        warm = mask_seconds(oracle, state)
        apply = min(client.mask(text, tokens).apply_cpu_seconds for _ in range(TIMES))
        sliced, plain = (_llguidance(engine, oracle, tokens) for engine in (others.sliced, others.plain))
        third = float("nan")
        if matcher is not None:
            third = min(cpu_seconds(matcher.after(tokens).compute) for _ in range(TIMES))
        yield Timing(apply, warm, cold[state], sliced, plain, third, int(oracle.mask(state).tokens.sum()))


def compiled(path: Path, client: LibllamaClient, vocabulary: Vocabulary, other: Xgrammar | None) -> Compiled:
    """Times to make one grammar ready."""
    text = path.read_text(encoding="utf-8")
    ours = cpu_seconds(lambda: Oracle(text, vocabulary), TIMES)
    third = float("nan")
    if other is not None:
        spelled, _ = other.spelled(text, parse(text))
        third = cpu_seconds(lambda: other.compile(spelled), TIMES)
    # The child keeps a grammar that it has parsed, so each time is that of a text that is new to it.
    texts = [text + "\n" * blanks for blanks in range(1, TIMES + 1)]
    return Compiled(ours, min(client.mask(one, ()).init_seconds for one in texts), third)


def _llguidance(engine: Llguidance | None, oracle: Oracle, tokens: tuple[int, ...]) -> float:
    if engine is None:
        return float("nan")
    # The engine keeps the last mask of a matcher, so each time is that of a new one.
    matchers = [engine.start(oracle.grammar).after(tokens) for _ in range(TIMES)]
    return min(cpu_seconds(matcher.compute) for matcher in matchers)


def masks_table(build: str, rows: dict[str, list[Timing]]) -> Table:
    """Ratios to apply, by grammar and over all states: geometric means, the largest, the cold median."""
    names = ("grammar", "states", "apply ms", "warm", "warm, most", "cold, median")
    table = Table(
        *names, "llguidance", "no slices", "xgrammar", title=f"{build}: time of a mask / time of apply"
    )
    everything = [timing for timings in rows.values() for timing in timings]
    dense = [timing for timing in everything if timing.allowed >= DENSE]
    for name, timings in [*rows.items(), ("all", everything), (f"{DENSE:,} tokens or more", dense)]:
        apply, warm, cold, sliced, plain, third, _ = (
            np.array(column) for column in zip(*timings, strict=True)
        )
        table.add_row(
            name,
            str(len(timings)),
            f"{apply.min() * 1e3:.0f}-{apply.max() * 1e3:.0f}",
            _mean(warm / apply),
            f"{(warm / apply).max():.3f}",
            f"{np.median(cold / apply):.3f}",
            _mean(sliced / apply),
            _mean(plain / apply),
            _mean(third / apply),
        )
    return table


def compile_table(rows: dict[str, Compiled]) -> Table:
    """Times to make grammars ready, ours beside upstream's and xgrammar's."""
    table = Table("grammar", "ours ms", "upstream ms", "xgrammar ms", title="reading and compiling a grammar")
    for name, one in rows.items():
        third = "-" if np.isnan(one.xgrammar) else f"{one.xgrammar * 1e3:.2f}"
        table.add_row(name, f"{one.ours * 1e3:.2f}", f"{one.upstream * 1e3:.2f}", third)
    return table


def _mean(ratios: np.ndarray) -> str:
    return "-" if np.isnan(ratios).any() else f"{np.exp(np.log(ratios).mean()):.3f}"
