"""The questions: every case of the audit, made from fixed seeds.

It knows which inputs are worth asking about. It does not know any answer: no case says what a build gets
wrong, and a fault is found because the answer differs from the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from oracle.sampling import Specification
from oracle.sampling import specification as s
from tracker.audits.sampler.case import Call, Case, Family, Invocation, Logits
from tracker.audits.sampler.logits import KINDS, Random, masked, ordinary, special, tied, vocabulary_sized

CHAIN = "chain"
"""Subject of the audited chain and of random chains."""
INTERFACE = "interface"
"""Subject of calls with nothing or indices out of range."""

_SEEDS = 2**16


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much is asked; equal budgets ask the same."""

    vocabulary: int = 151_936
    """Logits of a vocabulary-sized input."""
    ordinary: int = 60
    """Random cases a sampler, and a tenth as many for each family of unusual inputs."""
    chains: int = 240
    """Random chains."""
    draws: int = 12_000
    """Draws a configuration of the statistics."""
    sequence: int = 1_000
    """Draws of the seeded sequences that are compared token by token."""
    shrink: int = 400
    """Questions a finding's shrinking may ask."""


GRID: tuple[tuple[int, float, float, float], ...] = (
    (40, 0.95, 0.05, 0.8),
    (40, 0.95, 0.0, 0.8),
    (40, 0.95, 0.05, 0.0),
    (0, 0.95, 0.05, 0.8),
    (0, 1.0, 0.1, 1.0),
    (200, 0.9, 0.0, 1.3),
    (128, 0.5, 0.02, 0.6),
    (1000, 0.999, 0.001, 2.0),
)
"""(k, p, min_p, temperature): the library's defaults, min_p off, T = 0, k = 0, and further ones."""


def audited_chain(k: int, p: float, min_p: float, t: float, seed: int) -> tuple[Specification, ...]:
    """The chain under audit."""
    return (s.TopK(k), s.TopP(p, 1), s.MinP(min_p, 1), s.Temp(t), s.Dist(seed))


def _choice(random: Random, *values: float) -> float:
    return values[random.randint(len(values))]


def _p(random: Random) -> float:
    return _choice(random, 0.0, 0.02, 0.05, 0.3, 0.5, 0.9, 0.95, 0.999, 1.0, float(random.uniform()))


def _keep(random: Random) -> int:
    return int(_choice(random, 0, 1, 1, 1, 2, 5, 200))


def _seed(random: Random) -> int:
    return random.randint(_SEEDS)


PARAMETERS: dict[str, Callable[[Random], Specification]] = {
    "top_k": lambda r: s.TopK(int(_choice(r, 0, 1, 2, 5, 40, 127, 128, 129, 130, 200, 2000))),
    "top_p": lambda r: s.TopP(_p(r), _keep(r)),
    "min_p": lambda r: s.MinP(_p(r), _keep(r)),
    "temp": lambda r: s.Temp(_choice(r, 0.0, -1.0, 0.1, 0.8, 1.0, 1.5, 7.0)),
    "dist": lambda r: s.Dist(_seed(r)),
    "greedy": lambda r: s.Greedy(),
    "typical": lambda r: s.Typical(_p(r), _keep(r)),
    "temp_ext": lambda r: s.TempExt(_choice(r, 0.5, 0.8, 1.0), _choice(r, 0.0, 0.2, 0.5), _choice(r, 1, 0.7)),
    "xtc": lambda r: s.Xtc(_choice(r, 0.0, 0.5, 1.0), _choice(r, 0.02, 0.1, 0.5, 0.6), _keep(r), _seed(r)),
    "top_n_sigma": lambda r: s.TopNSigma(_choice(r, 0.0, -1.0, 0.5, 1.0, 2.0, 3.0)),
    "mirostat": lambda r: s.Mirostat(1000, _seed(r), _choice(r, 2, 5, 8), 0.1, int(_choice(r, 1, 5, 100))),
    "mirostat_v2": lambda r: s.MirostatV2(_seed(r), _choice(r, 0.5, 2, 5), _choice(r, 0.1, 0.5)),
    "penalties": lambda r: s.Penalties(
        int(_choice(r, 0, 1, 3, 64)), _choice(r, 1.0, 1.1, 2.0), _choice(r, 0, 0.3), _choice(r, 0, 0.7)
    ),
    "dry": lambda r: s.Dry(
        _choice(r, 0, 0.8, 2.0),
        _choice(r, 0.5, 1.0, 1.2, 1.75),
        int(_choice(r, 1, 1, 2)),
        int(_choice(r, 0, 8, 64)),
    ),
    "adaptive_p": lambda r: s.AdaptiveP(_choice(r, -1.0, 0.1, 0.5, 0.9), _choice(r, 0, 0.9, 0.99), _seed(r)),
    "logit_bias": lambda r: s.LogitBias(
        tuple((r.randint(12), _choice(r, -100.0, -1.5, 0.25, 8.0)) for _ in range(r.randint(4)))
    ),
}
"""Ordinary parameters of each sampler that has a reference, edges included."""

EXTREME: dict[str, Sequence[Specification]] = {
    "top_k": (s.TopK(-1), s.TopK(2**31 - 1), s.TopK(-(2**31))),
    "top_p": (s.TopP(-1.0, 0), s.TopP(1e-40, 0), s.TopP(float("inf"), 1), s.TopP(0.5, 10**6)),
    "min_p": (s.MinP(1e-40, 0), s.MinP(2.0, 0), s.MinP(float("inf"), 1), s.MinP(0.5, 10**6)),
    "temp": tuple(s.Temp(t) for t in (1e-40, 1e-30, 1e-10, 1e10, 1e38, float("inf"), float("-inf"))),
    "typical": (s.Typical(0.0, 0), s.Typical(1e-40, 0), s.Typical(0.5, 10**6)),
    "temp_ext": (s.TempExt(1e-40, 0.0, 1.0), s.TempExt(0.5, 5.0, 1.0), s.TempExt(1e30, 1.0, 3.0)),
    "xtc": (s.Xtc(1.0, 0.0, 0, 3), s.Xtc(1.0, 1e-40, 10**6, 3)),
    "top_n_sigma": (s.TopNSigma(1e-30), s.TopNSigma(1e30), s.TopNSigma(float("inf"))),
    "mirostat": (s.Mirostat(1000, 3, 100.0, 0.1, 100), s.Mirostat(1000, 3, 0.0, 0.1, 100)),
    "mirostat_v2": (s.MirostatV2(3, 100.0, 0.1), s.MirostatV2(3, -5.0, 0.1)),
    "penalties": (s.Penalties(-1, 2.0, 0.5, 0.5), s.Penalties(4, 1e30, 0.0, 0.0)),
    "dry": (s.Dry(1.0, 1e10, 1, 64), s.Dry(1e30, 3.0, 0, 64)),
    "adaptive_p": (s.AdaptiveP(2.0, 0.9, 3), s.AdaptiveP(0.5, 5.0, 3), s.AdaptiveP(0.5, -1.0, 3)),
    "logit_bias": (
        s.LogitBias(((1, float("-inf")),)),
        s.LogitBias(((-1, 1.0), (10**6, 1.0))),
        s.LogitBias(((1, 1.0), (1, 2.0))),
    ),
}
"""Parameters at the ends of what the types hold."""


def of_sampler(name: str, budget: Budget) -> Iterator[Case]:
    """The cases of one sampler alone."""
    parameters = PARAMETERS[name]
    random = Random(sum(name.encode()))
    few = max(budget.ordinary // 5, 3)

    def case(family: Family, logits: Logits, calls: Sequence[Invocation], bare: bool = False) -> Case:
        chain = (parameters(random),)
        return Case(family=family, chain=chain, inputs=(logits,), calls=tuple(calls), bare=bare)

    def sized(limit: int = 300) -> int:
        return int(_choice(random, 1, 2, 3, 10, 1 + random.randint(limit), 1 + random.randint(limit)))

    def turns(which: int = 0, length: int = 8) -> list[Invocation]:
        return _turns(random, which, length, selects=name in SELECTING)

    once = [(Call.APPLY, 0, 0)]
    for i in range(budget.ordinary):
        size = 1024 + random.randint(2000) if i % 10 == 9 else sized()
        yield case(Family.ORDINARY, ordinary(random, size), once, bare=bool(i % 2))
    for _ in range(few):
        yield case(Family.TIES, tied(random, sized()), once)
        yield case(Family.MASKED, masked(random, sized()), once)
        for value, family in special(random):
            # Where NaN stands decides what it does to a sort; others may do harm only among many.
            few_logits = [2 + random.randint(8) for _ in range(4)]
            many_logits = [sized(), 130 + random.randint(500), 130 + random.randint(500)]
            for size in few_logits if family is Family.NAN else many_logits:
                logits = ordinary(random, size)
                logits[random.randint(size)] = value
                yield case(family, logits, once)
        yield case(Family.WIDE, ordinary(random, sized()) * np.float32(60), once)
        yield case(Family.REPEATED, ordinary(random, 12), turns(length=12))
        yield case(Family.RESET, ordinary(random, 12), [*turns(), (Call.RESET, 0), *turns()])
        yield case(Family.CLONE, ordinary(random, 12), _with_clone(random, turns))
        yield case(Family.EMPTY, ordinary(random, 0), once, bare=True)
        yield Case(
            family=Family.REPEATED,
            chain=(parameters(random),),
            inputs=(ordinary(random, 1), ordinary(random, 30)),
            calls=((Call.APPLY, 0, 0), (Call.APPLY, 0, 1), (Call.APPLY, 0, 0), (Call.APPLY, 0, 1)),
        )
    for extreme in EXTREME.get(name, ()):
        for size in (1, 2, 40):
            logits = ordinary(random, size)
            yield _extreme((extreme,), logits)


def _extreme(chain: tuple[Specification, ...], logits: Logits) -> Case:
    return Case(
        family=Family.EXTREME_PARAMETER,
        chain=chain,
        inputs=(logits,),
        calls=((Call.APPLY, 0, 0), (Call.ACCEPT, 0, 0), (Call.APPLY, 0, 0)),
    )


def _turns(random: Random, which: int, length: int, *, selects: bool) -> list[Invocation]:
    """Apply and accept by turns: what was selected, or a token of a small set, so that they repeat."""
    calls: list[Invocation] = []
    for _ in range(length):
        calls.append((Call.APPLY, which, 0))
        calls.append((Call.ACCEPT, which, -1 if selects and random.randint(2) else random.randint(3)))
    return [*calls, (Call.APPLY, which, 0)]


def _with_clone(random: Random, turns: Callable[[int, int], list[Invocation]]) -> list[Invocation]:
    """Some turns, the last of which may lack its accept, a clone, and turns of both one after the other."""
    before = turns(0, random.randint(4))
    if random.randint(2):
        before += [(Call.ACCEPT, 0, -1)]
    order = (1, 0) if random.randint(2) else (0, 1)
    after = [call for which in order for call in [(Call.ACCEPT, which, -1), *turns(which, 3)]]
    return [*before, (Call.CLONE, 0), *after]


def of_chain(budget: Budget) -> Iterator[Case]:
    """The audited chain over the whole vocabulary and over small inputs, and random chains."""
    random = Random(7)
    for kind in KINDS:
        for i, point in enumerate(GRID):
            logits = vocabulary_sized(kind, Random(1000 + i), budget.vocabulary)
            yield Case(
                family=Family.GRID,
                chain=audited_chain(*point, seed=100 + i),
                inputs=(logits,),
                calls=((Call.APPLY, 0, 0), (Call.APPLY, 0, 0)),
            )
    for i, point in enumerate(GRID):
        yield Case(
            family=Family.DRAWS,
            chain=audited_chain(*point, seed=200 + i),
            inputs=(ordinary(random, 120),),
            calls=((Call.DRAWS, 0, 0, budget.sequence),),
        )
    for name, extremes in EXTREME.items():
        if name not in SELECTING:
            for extreme in extremes:
                yield _extreme((extreme, s.Dist(_seed(random))), ordinary(random, 1 + random.randint(20)))
    names = [name for name in PARAMETERS if name not in SELECTING]
    for i in range(budget.chains):
        yield _random_chain(random, names, unusual=i % 2 == 1)


SELECTING = ("dist", "greedy", "mirostat", "mirostat_v2", "adaptive_p")
"""Samplers that select a token and so stand at the end of a chain."""


def _random_chain(random: Random, names: Sequence[str], *, unusual: bool) -> Case:
    picked = [names[random.randint(len(names))] for _ in range(1 + random.randint(3))]
    # dist most often, as in use; the others end a chain in a quarter of the cases.
    picked.append(SELECTING[random.randint(len(SELECTING))] if random.randint(4) == 0 else "dist")
    chain = [PARAMETERS[name](random) for name in picked]
    size = 1 + random.randint(260)
    family, logits = Family.ORDINARY, ordinary(random, size)
    if unusual:
        values = [*special(random), (0.0, Family.EXTREME_PARAMETER), (0.0, Family.TIES)]
        value, family = values[random.randint(len(values))]
        if family is Family.TIES:
            logits = tied(random, size)
        elif family is Family.EXTREME_PARAMETER:
            at = random.randint(len(chain) - 1)
            choices = EXTREME[picked[at]]
            chain[at] = choices[random.randint(len(choices))]
        else:
            logits[random.randint(size)] = value
    calls: list[Invocation] = [(Call.ACCEPT, 0, random.randint(min(size, 3))) for _ in range(4)]
    calls += [(Call.APPLY, 0, 0), (Call.ACCEPT, 0, -1), (Call.APPLY, 0, 0)]
    return Case(family=family, chain=tuple(chain), inputs=(logits,), calls=tuple(calls))


def of_interface() -> Iterator[Case]:
    """Calls with NULL or an index out of range, which a program meets when an init function has failed."""
    logits = np.array([1, 3, 2], np.float32)
    chain = (s.TopK(2), s.Greedy())
    scripts: list[list[Invocation]] = [[(Call.NULL, function)] for function in range(5)]
    scripts += [
        [(Call.ADD_NULL, 0), (Call.APPLY, 0, 0)],
        [(Call.ADD_NULL, 0), (Call.ACCEPT, 0, 1)],
        [(Call.ADD_NULL, 0), (Call.RESET, 0)],
        [(Call.ADD_NULL, 0), (Call.CLONE, 0)],
        [(Call.ADD_NULL, 0)],
    ]
    for index in (-2, 2, 10**6):
        scripts += [[(Call.GET, 0, index)], [(Call.REMOVE, 0, index)]]
    for calls in scripts:
        yield Case(family=Family.NOTHING, chain=chain, inputs=(logits,), calls=tuple(calls))
