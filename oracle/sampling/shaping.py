"""Samplers that change logits and keep all candidates: temp, temp_ext, penalties, dry, logit_bias.

Lower-case letters stand for float32 numbers unless a step says double.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import replace

import numpy as np

from oracle.sampling import libm
from oracle.sampling.candidates import Candidates, Floats, UndefinedDistribution
from oracle.sampling.generation import Generation
from oracle.sampling.sampler import Sampler
from oracle.sampling.specification import Dry, LogitBias, Penalties, Temp, TempExt

_LARGEST_EXPONENT = np.float32(88.7228391)
"""Natural logarithm of the largest float32; DRY limits its exponent so that the power stays finite."""


def with_temperature(candidates: Candidates, t: np.float32) -> Candidates:
    """l / t in float32; for t ≤ 0 the first strict maximum keeps its logit and the others become −∞."""
    if not len(candidates):
        return candidates
    if t > 0:
        with np.errstate(over="ignore", invalid="ignore"):
            return replace(candidates, logits=candidates.logits / t)
    best = int(np.argmax(candidates.logits == candidates.maximum()))
    logits = np.full_like(candidates.logits, -np.inf)
    logits[best] = candidates.logits[best]
    return replace(candidates, logits=logits)


class TempSampler(Sampler):
    """Temperature; t = 1 changes nothing."""

    def __init__(self, specification: Temp, generation: Generation) -> None:
        """Start with t from the description."""
        super().__init__(generation)
        self.t = np.float32(specification.t)

    def apply(self, candidates: Candidates) -> Candidates:
        """Divide, or keep the best."""
        return with_temperature(candidates, self.t)


class TempExtSampler(Sampler):
    """Dynamic temperature (Zhu et al. 2023): t − δ + 2δ·(H / log n)^exponent, never below 0 at its lower end.

    H is summed in float32 over the sorted candidates. Afterwards probabilities are computed in double:
    p = exp(l − l₀), each divided by their sum.
    """

    def __init__(self, specification: TempExt, generation: Generation) -> None:
        """Start with the parameters from the description."""
        super().__init__(generation)
        self.t = np.float32(specification.t)
        self.delta = np.float32(specification.delta)
        self.exponent = specification.exponent

    def apply(self, candidates: Candidates) -> Candidates:
        """Divide by the dynamic temperature; with δ ≤ 0 by t alone."""
        if self.delta <= 0:
            return with_temperature(candidates, self.t)
        if len(candidates) <= 1:
            return candidates
        ranked = candidates.sort().softmax()
        scaled = with_temperature(ranked, self.temperature(ranked))
        return replace(scaled, p=self.probabilities(scaled))

    def temperature(self, ranked: Candidates) -> np.float32:
        """The temperature for candidates with probabilities."""
        likely = ranked.p[ranked.p > 0]
        entropy = -np.float32(np.cumsum(likely * libm.logf(likely), dtype=np.float32)[-1])
        share = entropy / -libm.logf_of(float(np.float32(1) / np.float32(len(ranked))))
        low, high = np.maximum(np.float32(0), self.t - self.delta), self.t + self.delta
        return np.float32(low + (high - low) * libm.powf_of(float(share), self.exponent))

    def probabilities(self, scaled: Candidates) -> Floats:
        """Softmax in double; float32, shape (n,)."""
        logits = scaled.logits.astype(np.float64)
        if not np.isfinite(logits[0]):
            raise UndefinedDistribution(
                f"dividing by the dynamic temperature made the best logit {logits[0]}; use a larger one"
            )
        e = libm.exp(logits - logits[0])
        p: Floats = (e.astype(np.float32).astype(np.float64) / np.cumsum(e)[-1]).astype(np.float32)
        return p


class PenaltiesSampler(Sampler):
    """Repetition, frequency and presence penalties over the last n accepted tokens (Keskar et al. 2019).

    For a token seen c > 0 times: l ← l·repeat if l ≤ 0, else l / repeat; then l ← l − (c·freq + present).
    """

    def __init__(self, specification: Penalties, generation: Generation) -> None:
        """Start without accepted tokens."""
        super().__init__(generation)
        self.specification = specification
        self.reset()

    def reset(self) -> None:
        """Forget the accepted tokens."""
        self.recent: deque[int] = deque(maxlen=max(self.specification.last_n, 0))

    def accept(self, token: int) -> None:
        """Remember the token; the oldest one falls out."""
        self.recent.append(token)

    def apply(self, candidates: Candidates) -> Candidates:
        """Penalise."""
        wanted = self.specification
        repeat, freq, present = np.float32(wanted.repeat), np.float32(wanted.freq), np.float32(wanted.present)
        if wanted.last_n <= 0 or (repeat == 1 and freq == 0 and present == 0):
            return candidates
        counts = Counter(self.recent)
        logits = candidates.logits.copy()
        with np.errstate(all="ignore"):
            for i in np.flatnonzero(np.isin(candidates.ids, list(counts))).tolist():
                scaled = logits[i] * repeat if logits[i] <= 0 else logits[i] / repeat
                logits[i] = scaled - (np.float32(counts[int(candidates.ids[i])]) * freq + present)
        return replace(candidates, logits=logits, ordered=False)


class DrySampler(Sampler):
    """Don't repeat yourself: l ← l − multiplier·base^(len − allowed), without sequence breakers.

    ``len`` is the length of the longest end of the last n accepted tokens that has occurred before, followed
    by the token; shorter ones than ``allowed`` are free. The power is taken in double.
    """

    def __init__(self, specification: Dry, generation: Generation) -> None:
        """Start without accepted tokens."""
        super().__init__(generation)
        self.specification = specification
        self.reset()

    def reset(self) -> None:
        """Forget the accepted tokens."""
        self.recent: deque[int] = deque(maxlen=max(self.specification.last_n, 0))

    def accept(self, token: int) -> None:
        """Remember the token; the oldest one falls out."""
        self.recent.append(token)

    def repeats(self) -> dict[int, int]:
        """For each token that would continue a repetition, how long that repetition is so far."""
        context = list(self.recent)
        longest: dict[int, int] = {}
        for follower in range(1, len(context)):
            length = 0
            while length < follower and context[follower - 1 - length] == context[-1 - length]:
                length += 1
            if length >= self.specification.allowed_length:
                token = context[follower]
                longest[token] = max(longest.get(token, 0), length)
        return longest

    def apply(self, candidates: Candidates) -> Candidates:
        """Penalise."""
        wanted = self.specification
        multiplier, base = np.float32(wanted.multiplier), np.float32(wanted.base)
        if multiplier == 0 or base < 1 or wanted.last_n <= 0 or len(self.recent) <= wanted.allowed_length:
            return candidates
        limit = int(_LARGEST_EXPONENT / libm.logf_of(float(base))) if base > np.float32(1.000001) else 0
        logits = candidates.logits.copy()
        longest = self.repeats()
        for i in np.flatnonzero(np.isin(candidates.ids, list(longest))).tolist():
            exponent = longest[int(candidates.ids[i])] - wanted.allowed_length
            if limit > 0:
                exponent = min(exponent, limit)
            logits[i] -= np.float32(float(multiplier) * math.pow(float(base), exponent))
        return replace(candidates, logits=logits, ordered=False)


class LogitBiasSampler(Sampler):
    """l ← l + bias for each listed token; a token listed twice gets both."""

    def __init__(self, specification: LogitBias, generation: Generation) -> None:
        """Start with the biases from the description."""
        super().__init__(generation)
        self.biases = specification.biases

    def apply(self, candidates: Candidates) -> Candidates:
        """Add; what was sorted no longer is."""
        if not self.biases:
            return candidates
        logits = candidates.logits.copy()
        for token, bias in self.biases:
            logits[candidates.ids == token] += np.float32(bias)
        return replace(candidates, logits=logits, ordered=False)
