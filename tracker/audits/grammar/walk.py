"""The walk: visit the states of one grammar, compare each over the whole vocabulary.

Breadth first, but a state that shows a new position of the grammar goes before one that does not: a plain
queue drowns in white space. A state is the oracle's; each is visited once, by the first token path found,
which is a shortest one among those of its rank, or by several paths when asked for, since the build's own
state may differ where the oracle's does not. The walk goes on only through tokens that both sides accept, so
that both stay in equivalent, well-defined states.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oracle.automaton import DEAD
from oracle.mask import Oracle
from oracle.vocabulary import Vocabulary
from tracker.audits.grammar.compare import (
    BoolMask,
    Comparison,
    Ends,
    Place,
    Reading,
    compare_state,
    deviation,
)
from tracker.libllama.client import DeathKind, LibllamaClient, WorkerDied
from tracker.results import Cause, Coverage, Deviation, Kind

AHEAD = 2
"""Masks asked for at a time, so that the child need not wait for what we do with the last one."""

MAX_DEATHS = 3
"""Deaths of the library in one grammar after which its walk stops."""

KIND_OF_DEATH = {DeathKind.CRASH: Kind.CRASH, DeathKind.HANG: Kind.HANG, DeathKind.OOM: Kind.OOM}


@dataclass
class Walk:
    """What a walk has found so far; complete once the iterator of ``walk`` is exhausted.

    ``outputs`` holds the bytes before each state compared, ``masks`` the build's packed masks of the states
    kept for the null control, with their paths. ``apply_seconds`` is CPU time inside the library's apply,
    ``oracle_seconds`` that of the oracle's masks.
    """

    deviations: list[Deviation] = field(default_factory=list)
    visited: int = 0
    left: int = 0
    exhaustive: bool = False
    bound: str | None = None
    start_tokens: int = 0
    coverage: Coverage | None = None
    outputs: list[bytes] = field(default_factory=list)
    masks: list[tuple[tuple[int, ...], bytes]] = field(default_factory=list)
    apply_seconds: float = 0.0
    oracle_seconds: float = 0.0
    asked: int = 0


def walk(
    oracle: Oracle,
    client: LibllamaClient,
    grammar: str,
    ends: Ends,
    *,
    states: int,
    paths: int = 1,
    keep_every: int,
    result: Walk,
    visit: Sequence[bytes] = (),
    reading: Reading | None = None,
    ahead: int = AHEAD,
) -> Iterator[tuple[Place, Comparison]]:
    """Visit up to ``states`` states, each by up to ``paths`` paths; yields each with its comparison.

    Outputs in ``visit`` are compared first, unless the build refuses a token on the way to them: then the
    walk meets their states as any others. While a state is compared, the child is at the next one (``ahead``
    of 1: it waits and may be asked other things).

    Raises:
        GrammarRejected: the build refuses the grammar.
    """
    frontier = _Frontier(oracle, paths)
    first = deque(_first_places(oracle, visit))
    unproven = {place.path for place in first}
    held: list[tuple[Place, BoolMask, NDArray[np.int32]]] = []
    asked: deque[Place] = deque()
    deaths = 0
    result.start_tokens = int(oracle.mask(oracle.start).tokens.sum())
    while deaths < MAX_DEATHS:
        if not unproven:
            # Before, a state could count as new that one of the first places is about to show.
            for each in held:
                frontier.expand(*each)
            held.clear()
        # The first one alone: the build may refuse the grammar.
        room = min(ahead if result.visited else 1, states - result.visited) - len(asked)
        while (first or frontier) and room > 0:
            place = first.popleft() if first else frontier.pop()
            client.send_mask(grammar, place.path, check_path=place.path in unproven)
            asked.append(place)
            room -= 1
        if not asked:
            break
        place = asked.popleft()
        died: WorkerDied | None = None
        try:
            reply = client.receive_mask()
        except WorkerDied as death:
            died = death
        if died is None and reply.refused_at is not None:
            unproven.remove(place.path)
            continue
        result.visited += 1
        if place.path in unproven:
            unproven.remove(place.path)
            frontier.met(place.state)
        if died is not None:
            deaths += 1
            result.deviations.append(death_finding(place, died))
            continue
        result.asked += 1
        result.outputs.append(place.prefix)
        result.apply_seconds += reply.apply_cpu_seconds
        if result.visited % keep_every == 1 or keep_every == 1:
            result.masks.append((place.path, np.packbits(reply.allowed).tobytes()))
        begun = time.thread_time()
        # The states behind all tokens are needed anyway, and the mask follows from them.
        following = oracle.successors(place.state)
        oracle.mask(place.state)
        result.oracle_seconds += time.thread_time() - begun
        comparison = compare_state(oracle, place, reply.allowed, ends, reading)
        result.deviations += comparison.deviations
        yield place, comparison
        held.append((place, comparison.both, following))
    if asked:
        client.close()
    result.left = len(first) + len(frontier) + len(asked)
    result.coverage = frontier.coverage()
    if deaths:
        result.bound = f"the library died {deaths} times"
    elif result.left:
        result.bound = f"{states} states"
    result.exhaustive = result.bound is None


def death_finding(place: Place, death: WorkerDied) -> Deviation:
    """The finding that a death of the library is."""
    how = f"signal {death.signal}" if death.signal else str(death.kind)
    if death.stage.words:
        how += f", {death.stage.words}"
    last = death.detail.strip().splitlines()[-1][:200] if death.detail.strip() else ""
    return deviation(
        place, KIND_OF_DEATH[death.kind], Cause.DIED, False, detail=f"{how}: {last}" if last else how
    )


def _first_places(oracle: Oracle, outputs: Sequence[bytes]) -> list[Place]:
    """The places behind some outputs, spelled by the longest tokens: one a state, viable, not the start."""
    places: dict[int, Place] = {}
    for output in outputs:
        path = longest_tokens(oracle.vocabulary, output)
        state = oracle.walk(path)
        if state not in (DEAD, oracle.start):
            places.setdefault(state, Place(state, path, output))
    return list(places.values())


class _Frontier:
    """States seen and not yet visited, the most instructive first."""

    def __init__(self, oracle: Oracle, paths: int):
        self._oracle = oracle
        self._paths = paths
        self._seen: Counter[int] = Counter()
        self._full: list[int] = []
        self._heap: list[tuple[int, int, int, Place]] = []
        self._order = 0
        self._positions: set[int] = set()
        self._add(Place(oracle.start))

    def met(self, state: int) -> bool:
        """Count a path to a state; whether it shows a new position of the grammar."""
        self._seen[state] += 1
        if self._seen[state] == self._paths:
            self._full.append(state)
        new = self._oracle.automaton.positions(state) - self._positions
        self._positions |= new
        return bool(new)

    def __len__(self) -> int:
        return len(self._heap)

    def _add(self, place: Place) -> None:
        new = self.met(place.state)
        # Inside a code point there are no new positions, and that is where deviations live.
        rank = 0 if new or self._oracle.automaton.inside(place.state) else 1
        self._order += 1
        heapq.heappush(self._heap, (rank, len(place.path), self._order, place))

    def pop(self) -> Place:
        return heapq.heappop(self._heap)[-1]

    def expand(self, place: Place, both: BoolMask, following: NDArray[np.int32]) -> None:
        """Add the states behind all tokens that both sides accept, by their shortest tokens."""
        vocabulary = self._oracle.vocabulary
        wanted = np.ones(len(self._oracle.automaton), dtype=np.bool_)
        wanted[[DEAD, *self._full]] = False
        tokens = np.flatnonzero(both)
        tokens = tokens[wanted[following[tokens]]]
        if not len(tokens):
            return
        shortest = np.full(len(wanted), len(vocabulary), dtype=np.int32)
        np.minimum.at(shortest, following[tokens], vocabulary.place_by_length[tokens])
        for state in np.flatnonzero(shortest < len(vocabulary)).tolist():
            room = self._paths - self._seen[state]
            if room == 1:
                self._add(place.after(self._oracle, int(vocabulary.shortest_first[shortest[state]]), state))
                continue
            leading = tokens[following[tokens] == state]
            by_length = leading[np.argsort(vocabulary.place_by_length[leading])]
            for token in _one_of_each_length(by_length, self._oracle)[:room]:
                self._add(place.after(self._oracle, token, state))

    def coverage(self) -> Coverage:
        """Positions of the grammar before a terminal, and those met at token boundaries."""
        return Coverage(positions=sum(self._oracle.network.terminal), reached=len(self._positions))


def _one_of_each_length(tokens: NDArray[np.intp], oracle: Oracle) -> list[int]:
    """Of tokens sorted by length the first of each length: paths that cut the output in different places."""
    chosen: dict[int, int] = {}
    for token in tokens.tolist():
        chosen.setdefault(len(oracle.vocabulary.pieces[token]), token)
    return list(chosen.values())


def longest_tokens(vocabulary: Vocabulary, output: bytes) -> tuple[int, ...]:
    """A token path that spells some bytes, taking the longest token that fits at each point."""
    ids = vocabulary.ids_by_text
    longest = max(map(len, ids), default=0)
    path: list[int] = []
    while output:
        size = next((n for n in range(min(longest, len(output)), 0, -1) if output[:n] in ids), 0)
        if not size:
            return (*path, *vocabulary.tokens_of_bytes(output))
        path.append(ids[output[:size]])
        output = output[size:]
    return tuple(path)


Progress = Callable[[str, int, int], None]
"""Called with a grammar's name, states visited, and states known to be left."""
