"""What every reference sampler offers: apply, accept, reset.

A sampler holds the state that calls leave behind; what it does to the candidates depends on its description,
that state and the generation. Cloning is copying (`copy.deepcopy`): the copy behaves as its original would.
"""

from __future__ import annotations

from typing import ClassVar

from oracle.sampling.candidates import Candidates
from oracle.sampling.generation import Generation


class Sampler:
    """Base of the reference samplers; one without state needs only `apply`."""

    apply_leaves_state: ClassVar[bool] = False
    """Whether `apply` changes what a later one does; otherwise only `accept` can."""

    def __init__(self, generation: Generation) -> None:
        """Start in the state of a fresh sampler of that generation."""
        self.generation = generation

    def apply(self, candidates: Candidates) -> Candidates:
        """What the sampler makes of the candidates.

        Raises:
            UndefinedDistribution: it needs probabilities and the logits define none.
        """
        raise NotImplementedError

    def accept(self, token: int) -> None:
        """Take note that ``token`` was emitted."""

    def reset(self) -> None:
        """Return to the state of a fresh sampler."""

    def softmax(self, candidates: Candidates) -> Candidates:
        """The softmax that leaves an order open: it sorts in the generations that always do."""
        return (candidates.sort() if self.generation.softmax_sorts else candidates).softmax()
