"""The states at which times are taken, and how one time is taken."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import numpy as np

from oracle.mask import Oracle

STATES = 20
WALKS = 60
WALK_LENGTH = 14
SEED = 1

TIMES = 3
"""How often everything is computed at a state, on all sides; the least counts."""


def random_places(oracle: Oracle) -> list[tuple[tuple[int, ...], int]]:
    """Up to ``STATES`` different states, each with a token path to it, by random walks from a fixed seed."""
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


def cpu_seconds(action: Callable[[], object], times: int = 1) -> float:
    """The least CPU time of this thread over some calls."""

    def once() -> float:
        begun = time.thread_time()
        action()
        return time.thread_time() - begun

    return min(once() for _ in range(times))


def mask_seconds(oracle: Oracle, state: int, times: int = TIMES) -> float:
    """CPU seconds of one mask, each time computed afresh by an oracle that remembers no mask."""

    def fresh() -> float:
        oracle.forget()
        return cpu_seconds(lambda: oracle.compute_mask(state))

    return min(fresh() for _ in range(times))


def resident_growth(action: Callable[[], object]) -> int:
    """Bytes by which this process's resident memory grows while something is made and kept."""
    before = _resident()
    made = action()
    grown = _resident() - before
    del made
    return grown


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
