"""Logits to ask about, from fixed seeds.

numpy's legacy generator is used since its streams are frozen: the same case on every numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import numpy as np

from tracker.audits.sampler.case import Family, Logits


class Random(np.random.RandomState):
    """A seeded source of cases."""

    def randint(self, limit: int) -> int:  # type: ignore[override]
        """An integer from 0 to ``limit`` − 1; 0 for a limit of 0."""
        return int(super().randint(limit)) if limit > 0 else 0


class Kind(StrEnum):
    """Shapes of a vocabulary-sized input."""

    PEAKED = "peaked"
    THREE_STRONG = "three strong candidates"
    FLAT_TOP = "flat top"
    EXACT_TIES = "exact ties"


KINDS = tuple(Kind)


def vocabulary_sized(kind: Kind, random: Random, size: int) -> Logits:
    """Synthetic logits of a language model's output; float32, shape (size,)."""
    logits = random.standard_normal(size).astype(np.float32) * np.float32(2.5)
    places = random.permutation(size)
    match kind:
        case Kind.PEAKED:
            logits[places[0]] = 24
        case Kind.THREE_STRONG:
            logits[places[:3]] = [19.5, 19.25, 18.0]
        case Kind.FLAT_TOP:
            top = places[: min(50, size)]
            logits[top] = np.float32(15) + random.standard_normal(len(top)).astype(np.float32) * np.float32(
                1e-3
            )
        case Kind.EXACT_TIES:
            logits = np.round(logits * 2) / np.float32(2)
    return logits


def ordinary(random: Random, size: int) -> Logits:
    """Finite logits within about ±15, all different; float32, shape (size,)."""
    spread = np.float32((0.1, 1.0, 4.0)[random.randint(3)])
    logits = random.standard_normal(size).astype(np.float32) * spread
    while len(np.unique(logits)) < size:
        logits = random.standard_normal(size).astype(np.float32) * spread
    return logits


def tied(random: Random, size: int) -> Logits:
    """Few different values."""
    return np.round(ordinary(random, size) * 2) / np.float32(2)


def masked(random: Random, size: int) -> Logits:
    """Some logits −∞, or all of them."""
    logits = ordinary(random, size)
    logits[random.uniform(size=size) < (0.1, 0.9, 1.1)[random.randint(3)]] = -np.inf
    return logits


def special(random: Random) -> Iterator[tuple[float, Family]]:
    """A number for one of the logits, and the family it makes the case belong to."""
    yield float("inf"), Family.INFINITE
    yield float("nan"), Family.NAN
    yield (4e8, 3e9, 3e38)[random.randint(3)], Family.HUGE
    yield (1e4, -1e4, -4e8, -3e38, 1e-40)[random.randint(5)], Family.HUGE
