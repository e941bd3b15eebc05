"""Samplers that drop or mask candidates: top_k, top_p, min_p, typical, xtc, top_n_sigma.

Lower-case letters stand for float32 numbers, S for a float32 sum taken one by one in the order of the
candidates. Sources: the arithmetic shown by releases of llama.cpp, and the papers named in the docstrings.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oracle.sampling import libm
from oracle.sampling.candidates import Candidates, Floats
from oracle.sampling.generation import Generation
from oracle.sampling.random import Mersenne
from oracle.sampling.sampler import Sampler
from oracle.sampling.specification import MinP, TopK, TopNSigma, TopP, Typical, Xtc


class TopKSampler(Sampler):
    """The k highest logits in descending order; k ≤ 0 is no limit (Fan et al. 2018)."""

    def __init__(self, specification: TopK, generation: Generation) -> None:
        """Start with k from the description."""
        super().__init__(generation)
        self.k = specification.k

    def apply(self, candidates: Candidates) -> Candidates:
        """Sort and truncate."""
        if self.k <= 0:
            return candidates.sort() if self.generation.zero_k_sorts else candidates
        return candidates.best(self.k)


class TopPSampler(Sampler):
    """The shortest head whose probabilities reach p, of at least ``min_keep`` (Holtzman et al. 2019)."""

    def __init__(self, specification: TopP, generation: Generation) -> None:
        """Start with p and min_keep from the description."""
        super().__init__(generation)
        self.p = np.float32(specification.p)
        self.min_keep = specification.min_keep

    def apply(self, candidates: Candidates) -> Candidates:
        """Softmax in the order the candidates are in, sort, and cut after the first i with c_i ≥ p."""
        if self.p >= 1:
            return candidates
        ranked = self.softmax(candidates).sort()
        return ranked.take(slice(self.length(ranked)), ordered=True)

    def length(self, ranked: Candidates) -> int:
        """How many stay: i + 1 for the first i with c_i ≥ p and i + 1 ≥ min_keep, else all."""
        reached = np.cumsum(ranked.p, dtype=np.float32) >= self.p
        reached[: max(self.min_keep - 1, 0)] = False
        return int(np.argmax(reached)) + 1 if reached.any() else len(ranked)


class MinPSampler(Sampler):
    """What is at least p times as likely as the best: l ≥ m + logf(p), m the largest logit.

    In whatever order the candidates are; sorted only when that leaves fewer than ``min_keep``. Without order
    m is no less than the smallest finite float, so candidates that are all −∞ are sorted and all stay.
    """

    def __init__(self, specification: MinP, generation: Generation) -> None:
        """Start with p and min_keep from the description."""
        super().__init__(generation)
        self.p = specification.p
        self.min_keep = specification.min_keep

    def threshold(self, candidates: Candidates) -> np.float32:
        """The smallest logit that stays."""
        return candidates.maximum() + libm.logf_of(self.p)

    def apply(self, candidates: Candidates) -> Candidates:
        """Keep what reaches the threshold."""
        if np.float32(self.p) <= 0 or not len(candidates):
            return candidates
        some = np.isfinite(candidates.maximum())
        stays = some & (candidates.logits >= self.threshold(candidates))
        if not candidates.ordered and stays.any() and int(stays.sum()) >= self.min_keep:
            return candidates.take(stays, ordered=False)
        ranked = candidates.sort()
        stays = ranked.logits >= self.threshold(ranked)
        stays[: max(self.min_keep, 1)] = True
        length = len(ranked) if stays.all() else int(np.argmin(stays))
        return ranked.take(slice(length), ordered=True)


class TypicalSampler(Sampler):
    """Those whose surprise is nearest to the entropy, until they sum to more than p (Meister et al. 2022)."""

    def __init__(self, specification: Typical, generation: Generation) -> None:
        """Start with p and min_keep from the description."""
        super().__init__(generation)
        self.p = np.float32(specification.p)
        self.min_keep = specification.min_keep

    def apply(self, candidates: Candidates) -> Candidates:
        """Order by |−log p − H| ascending and cut after the first i with c_i > p and i + 1 ≥ min_keep."""
        if self.p >= 1 or not len(candidates):
            return candidates
        ranked = candidates.sort().softmax()
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = libm.logf(ranked.p)
            # The limit of p·log p at 0 is 0; the product of the floats is NaN.
            terms = np.where(ranked.p > 0, -ranked.p * logs, np.float32(0)).astype(np.float32)
            distance = np.abs(-logs - np.cumsum(terms, dtype=np.float32)[-1])
        chosen = ranked.take(ranked.by_score(distance), ordered=False)
        reached = np.cumsum(chosen.p, dtype=np.float32) > self.p
        reached[: max(self.min_keep - 1, 0)] = False
        length = int(np.argmax(reached)) + 1 if reached.any() else len(chosen)
        return chosen.take(slice(length), ordered=False)


class XtcSampler(Sampler):
    """Exclude top choices: with probability p, drop all candidates with pᵢ ≥ t but the last of them.

    One ``uniform_real_distribution<float>`` is drawn whenever there are two candidates or more.
    """

    apply_leaves_state = True

    def __init__(self, specification: Xtc, generation: Generation) -> None:
        """Start with a freshly seeded generator."""
        super().__init__(generation)
        self.specification = specification
        self.p = np.float32(specification.p)
        self.t = np.float32(specification.t)
        self.reset()

    def reset(self) -> None:
        """Seed again."""
        self.random = Mersenne(self.specification.seed)

    def apply(self, candidates: Candidates) -> Candidates:
        """Draw; when u ≤ p, softmax over the sorted candidates and drop."""
        if self.p <= 0 or self.t > np.float32(0.5) or len(candidates) < 2:
            return candidates
        if self.random.uniform_float() > self.p:
            return candidates
        ranked = candidates.sort().softmax()
        dropped = max(int((ranked.p >= self.t).sum()) - 1, 0)
        if len(ranked) - dropped < self.specification.min_keep:
            return ranked
        return ranked.cut_first().take(slice(dropped, None), ordered=True) if dropped else ranked


class TopNSigmaSampler(Sampler):
    """Masks l < m − n·σ, over mean and deviation of the logits that are not −∞ (Tang et al. 2024).

    Mean: S / count. Variance: each (l − mean)² is squared in double, added in double to the float32 sum so
    far, and rounded to float32 again.
    """

    def __init__(self, specification: TopNSigma, generation: Generation) -> None:
        """Start with n from the description."""
        super().__init__(generation)
        self.n = np.float32(specification.n)

    def apply(self, candidates: Candidates) -> Candidates:
        """Mask with −∞; the size stays."""
        bare = self.generation.sigma_counts_masked
        if not bare and (self.n <= 0 or len(candidates) <= 1):
            return candidates
        masked = replace(candidates, logits=self.masked(candidates, everything=bare))
        return masked.sort().softmax() if self.generation.sigma_ends_with_softmax else masked

    def masked(self, candidates: Candidates, *, everything: bool) -> Floats:
        """The logits after the cut; ``everything`` takes −∞ into account as well."""
        logits = candidates.logits
        counted = logits if everything else logits[logits != -np.inf]
        if not len(counted):
            return logits
        with np.errstate(all="ignore"):
            count = np.float32(len(counted))
            mean = np.cumsum(counted, dtype=np.float32)[-1] / count
            total = np.float32(0)
            for square in ((counted - mean).astype(np.float64) ** 2).tolist():
                total = np.float32(float(total) + square)
            cut = candidates.maximum() - self.n * np.sqrt(total / count)
            return np.where(logits < cut, np.float32(-np.inf), logits)
