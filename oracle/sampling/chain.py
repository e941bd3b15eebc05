"""A chain of reference samplers, built from descriptions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oracle.sampling import selection, shaping, truncation
from oracle.sampling.candidates import Candidates
from oracle.sampling.generation import NEWEST, Generation
from oracle.sampling.sampler import Sampler
from oracle.sampling.specification import Specification, SpecificationError

Factory = Callable[[Any, Generation], Sampler]
"""Makes a sampler from its description; each takes only its own kind of description."""

FACTORIES: Mapping[str, Factory] = {
    "top_k": truncation.TopKSampler,
    "top_p": truncation.TopPSampler,
    "min_p": truncation.MinPSampler,
    "typical": truncation.TypicalSampler,
    "xtc": truncation.XtcSampler,
    "top_n_sigma": truncation.TopNSigmaSampler,
    "temp": shaping.TempSampler,
    "temp_ext": shaping.TempExtSampler,
    "penalties": shaping.PenaltiesSampler,
    "dry": shaping.DrySampler,
    "logit_bias": shaping.LogitBiasSampler,
    "greedy": selection.GreedySampler,
    "dist": selection.DistSampler,
    "mirostat": selection.MirostatSampler,
    "mirostat_v2": selection.MirostatV2Sampler,
    "adaptive_p": selection.AdaptivePSampler,
}
"""The reference of each sampler. ``infill`` has none: it needs a vocabulary."""


class Chain:
    """Samplers applied one after another; what one hands on, the next is handed."""

    def __init__(
        self,
        specifications: Sequence[Specification],
        generation: Generation = NEWEST,
        factories: Mapping[str, Factory] = FACTORIES,
    ) -> None:
        """Build the samplers.

        Raises:
            SpecificationError: a sampler has no reference.
        """
        for specification in specifications:
            if specification.name not in factories:
                raise SpecificationError(
                    f"sampler {specification.name} has no reference; leave it out of the chain"
                )
        self.samplers = [
            factories[specification.name](specification, generation) for specification in specifications
        ]

    def apply(self, candidates: Candidates) -> Candidates:
        """What the chain makes of the candidates.

        Raises:
            UndefinedDistribution: a sampler needs probabilities and the logits it is handed define none.
        """
        candidates = replace(candidates, selected=-1)
        for sampler in self.samplers:
            candidates = sampler.apply(candidates)
        return candidates

    def draws(self, candidates: Candidates, count: int) -> Iterator[Candidates]:
        """What the chain makes of the same candidates, ``count`` times without an accept between.

        Raises:
            UndefinedDistribution: as `apply`.
        """
        candidates = replace(candidates, selected=-1)
        fixed = 0
        while fixed < len(self.samplers) and not self.samplers[fixed].apply_leaves_state:
            candidates = self.samplers[fixed].apply(candidates)
            fixed += 1
        for _ in range(count):
            drawn = candidates
            for sampler in self.samplers[fixed:]:
                drawn = sampler.apply(drawn)
            yield drawn

    def accept(self, token: int) -> None:
        """Tell all samplers that ``token`` was emitted."""
        for sampler in self.samplers:
            sampler.accept(token)

    def reset(self) -> None:
        """Return all samplers to their fresh state."""
        for sampler in self.samplers:
            sampler.reset()

    def clone(self) -> Chain:
        """A chain in the same state that goes its own way from here."""
        return copy.deepcopy(self)
