"""Samplers that select a token: greedy, dist, mirostat, mirostat_v2, adaptive_p.

Lower-case letters stand for float32 numbers unless a step says double.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from oracle.sampling import libm
from oracle.sampling.candidates import Candidates
from oracle.sampling.generation import Generation
from oracle.sampling.random import Mersenne
from oracle.sampling.sampler import Sampler
from oracle.sampling.specification import AdaptiveP, Dist, Greedy, Mirostat, MirostatV2

Doubles = npt.NDArray[np.float64]


def discrete(p: npt.NDArray[np.float32], random: Mersenne) -> int:
    """``std::discrete_distribution`` over float weights, as libstdc++ draws from it.

    In double: pᵢ / Σp, running sums with the last one set to 1, one uniform double, the first index whose
    running sum is not below it. A single weight consumes no random number.
    """
    if len(p) < 2:
        return 0
    weights = p.astype(np.float64)
    running = np.cumsum(weights / np.cumsum(weights)[-1])
    running[-1] = 1.0
    return int(np.searchsorted(running, random.uniform(), side="left"))


class GreedySampler(Sampler):
    """The first of the highest logits; of no candidates, none."""

    def __init__(self, specification: Greedy, generation: Generation) -> None:
        """Nothing to remember."""
        super().__init__(generation)

    def apply(self, candidates: Candidates) -> Candidates:
        """Select."""
        if not len(candidates):
            return replace(candidates, selected=-1)
        return replace(candidates, selected=int(np.argmax(candidates.logits == candidates.maximum())))


class DistSampler(Sampler):
    """Draws a token with its probability; seeded.

    Running sum: eᵢ float32, their sums in double; T = u·Σe; the first index whose running sum reaches T;
    p = float(eᵢ / Σe), the division in double. Discrete: see `discrete`, over the softmax.
    """

    apply_leaves_state = True

    def __init__(self, specification: Dist, generation: Generation) -> None:
        """Start with a freshly seeded generator."""
        super().__init__(generation)
        self.seed = specification.seed
        self.reset()

    def reset(self) -> None:
        """Seed again."""
        self.random = Mersenne(self.seed)

    def apply(self, candidates: Candidates) -> Candidates:
        """Compute probabilities and draw."""
        if not len(candidates):
            return replace(candidates, selected=-1)
        if self.generation.dist_is_discrete:
            ranked = self.softmax(candidates)
            return replace(ranked, selected=discrete(ranked.p, self.random))
        if len(candidates) == 1:
            self.on_single()
            return replace(candidates, p=np.ones(1, np.float32), selected=0)
        e = candidates.exponentials()
        running = self.running(e)
        selected = int(np.searchsorted(running, running[-1] * self.random.uniform(), side="left"))
        return replace(candidates, p=(e / running[-1]).astype(np.float32), selected=selected)

    def running(self, e: npt.NDArray[np.float32]) -> Doubles:
        """The running sums of the exponentials; float64, shape (n,)."""
        return np.cumsum(e, dtype=np.float64)

    def on_single(self) -> None:
        """What one candidate does to the generator."""
        if self.generation.single_candidate_draws:
            self.random.uniform()


class _Mirostat(Sampler):
    """What both versions share: a bound mu on the surprise, drawing, and correcting mu by what was drawn.

    mu starts at 2τ; mu ← mu − η·(−log₂ p − τ) with p the probability of the token drawn.
    """

    apply_leaves_state = True

    def __init__(self, specification: Mirostat | MirostatV2, generation: Generation) -> None:
        super().__init__(generation)
        self.seed = specification.seed
        self.tau = np.float32(specification.tau)
        self.eta = np.float32(specification.eta)
        self.reset()

    def reset(self) -> None:
        """Start again."""
        self.mu = np.float32(2) * self.tau
        self.random = Mersenne(self.seed)

    def length(self, ranked: Candidates) -> int:
        """How many of the candidates stay, at least one."""
        raise NotImplementedError

    def apply(self, candidates: Candidates) -> Candidates:
        """Cut, renormalise, draw by `discrete`, and learn."""
        if not len(candidates):
            return replace(candidates, selected=-1)
        ranked = candidates.sort().softmax()
        kept = ranked.take(slice(self.length(ranked)), ordered=True).softmax()
        selected = discrete(kept.p, self.random)
        surprise = -libm.log2f(kept.p[selected : selected + 1])[0]
        self.mu = self.corrected(surprise)
        return replace(kept, selected=selected)

    def corrected(self, surprise: np.float32) -> np.float32:
        """The next bound after a surprise."""
        return self.mu - self.eta * (surprise - self.tau)


class MirostatSampler(_Mirostat):
    """Mirostat 1.0 (Basu et al. 2020): estimate Zipf's exponent over the m best, and cut at the k it implies.

    tᵢ = log((i + 2) / (i + 1)), bᵢ = log(pᵢ / pᵢ₊₁), s = Σtᵢbᵢ / Σtᵢ², ε = s − 1,
    k = ((ε·2^mu) / (1 − V^−ε))^(1/s).
    """

    def __init__(self, specification: Mirostat, generation: Generation) -> None:
        """Start with mu = 2τ and a freshly seeded generator."""
        self.n_vocab, self.m = specification.n_vocab, specification.m
        super().__init__(specification, generation)

    def length(self, ranked: Candidates) -> int:
        """The k above, rounded down; 1 where it is no number, all where it exceeds what there is."""
        ranks = np.arange(min(self.m, len(ranked)) - 1, dtype=np.float32)
        with np.errstate(all="ignore"):
            t = libm.logf((ranks + np.float32(2)) / (ranks + np.float32(1)))
            b = libm.logf(ranked.p[: len(ranks)] / ranked.p[1 : len(ranks) + 1])
            s = self.total(t * b) / self.total(t * t)
            epsilon = s - np.float32(1)
            spread = np.float32(1) - libm.powf_of(self.n_vocab, float(-epsilon))
            base = epsilon * libm.powf_of(2, float(self.mu)) / spread
            k = libm.powf_of(float(base), float(np.float32(1) / s))
        if np.isnan(k):
            return 1
        return max(int(min(k, np.float32(len(ranked)))), 1)

    def total(self, terms: npt.NDArray[np.float32]) -> np.float32:
        """The float32 sum one after another, 0 for none."""
        return np.float32(np.cumsum(terms, dtype=np.float32)[-1]) if len(terms) else np.float32(0)


class MirostatV2Sampler(_Mirostat):
    """Mirostat 2.0 (Basu et al. 2020): cut before the first −log₂ p > mu."""

    def __init__(self, specification: MirostatV2, generation: Generation) -> None:
        """Start with mu = 2τ and a freshly seeded generator."""
        super().__init__(specification, generation)

    def length(self, ranked: Candidates) -> int:
        """The candidates before the first that surprises too much."""
        surprising = -libm.log2f(ranked.p) > self.mu
        return max(int(np.argmax(surprising)), 1) if surprising.any() else len(ranked)


class AdaptivePSampler(Sampler):
    """Favours tokens whose probability is near a target that makes the running average meet the wanted one.

    d = |(p − target′) / 0.3|, l ← 5 − 10·d·d / (1 + d) except where l = −∞, softmax, `discrete`. An accepted
    token that was selected last enters the average with its probability before the transformation.
    """

    apply_leaves_state = True
    WIDTH, PEAK, SHARPNESS = np.float32(0.3), np.float32(5), np.float32(10)

    def __init__(self, specification: AdaptiveP, generation: Generation) -> None:
        """Start with an average that is on target."""
        super().__init__(generation)
        self.seed = specification.seed
        self.target = np.float32(specification.target)
        self.decay = np.clip(np.float32(specification.decay), np.float32(0), np.float32(0.99))
        self.reset()

    def reset(self) -> None:
        """Start again."""
        rest = np.float32(1) - self.decay
        self.weighted = self.target / rest
        self.weight = np.float32(1) / rest
        self.pending: tuple[int, np.float32] | None = None
        self.random = Mersenne(self.seed)

    def adapted(self) -> np.float32:
        """The target for this step."""
        target = np.clip(self.target, np.float32(0), np.float32(1))
        if self.weight != 0:
            target = np.float32(2) * target - self.weighted / self.weight
        return np.clip(target, np.float32(0), np.float32(1))

    def apply(self, candidates: Candidates) -> Candidates:
        """Transform and draw."""
        if not len(candidates):
            return replace(candidates, selected=-1)
        original = self.softmax(candidates)
        if self.target < 0:
            return replace(original, selected=discrete(original.p, self.random))
        distance = np.abs((original.p - self.adapted()) * (np.float32(1) / self.WIDTH))
        shaped = self.PEAK - self.SHARPNESS * distance * distance / (np.float32(1) + distance)
        logits = np.where(original.logits == -np.inf, original.logits, shaped)
        transformed = replace(original, logits=logits, ordered=False).softmax()
        selected = discrete(transformed.p, self.random)
        self.pending = (int(original.ids[selected]), original.p[selected])
        return replace(transformed, selected=selected)

    def accept(self, token: int) -> None:
        """Take the token's original probability into the average if it is the one selected last."""
        if self.pending is not None and self.pending[0] == token:
            self.weighted = self.pending[1] + self.decay * self.weighted
            self.weight = np.float32(1) + self.decay * self.weight
        self.pending = None
