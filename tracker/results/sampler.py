"""The document of the sampler audit: what is written to disk of one build's samplers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from tracker.results import AuditName, Document, Finding, Kind, Model, SubjectResult


class Example(Model):
    """A case small enough to be read, and what came of it.

    ``inputs`` holds each array of logits as (number, how many of it in a row). ``detail`` says what the build
    did and what the reference does at the first call where they part.
    """

    chain: tuple[dict[str, Any], ...]
    in_chain: bool
    """Whether the samplers are inside a chain object."""
    inputs: tuple[tuple[tuple[str, int], ...], ...]
    calls: tuple[str, ...]
    detail: str


class SamplerFinding(Finding):
    """One thing that is wrong with one sampler, with the smallest case found that shows it."""

    families: tuple[str, ...]
    """The families of cases that led to it; only the first belongs to the identity."""
    place: str
    """What tells the finding apart within its family, empty if the family does."""
    classification: Literal["deviation", "generation"]
    """``generation``: another known generation than the sampler's own explains the cases exactly."""
    cases: int
    """How many of the audit's cases show it. Not part of the identity."""
    example: Example

    def where(self) -> str:
        """The first family of cases, and what tells the finding apart within it."""
        return f"{self.families[0]}: {self.place}" if self.place else self.families[0]

    def details(self) -> Sequence[str]:
        """One atom: what differs is the cause."""
        return ("",)


class GenerationFinding(Finding):
    """Which known generations a sampler belongs to: nothing wrong, but a change that history has to show.

    One atom for each generation that explains all that any does.
    """

    kind: Literal[Kind.POLICY] = Kind.POLICY
    cause: str = "generation"
    generations: tuple[str, ...]

    def where(self) -> str:
        """Everywhere."""
        return ""

    def details(self) -> Sequence[str]:
        """The generations' names."""
        return self.generations


def generation_findings(fits: tuple[str, ...]) -> tuple[GenerationFinding, ...]:
    """The finding for the generations that fit; none where there are none to tell."""
    return (GenerationFinding(generations=fits),) if fits else ()


class SamplerResult(SubjectResult):
    """What the audit found of one sampler, the audited chain, or the interface."""

    generation: str | None = None
    """The newest known generation that explains the most cases; None where there is nothing to tell by."""
    fits: tuple[str, ...] = ()
    """All generations that explain the same cases."""
    unlike: dict[str, Example] = Field(default_factory=dict)
    """For each generation that does not fit: the smallest case that tells it from ``generation``."""
    cases: int = 0
    exact: int = 0
    """Cases equal to the last bit, order included."""
    by_ties: int = 0
    """Cases equal but for the order of equal scores, which is open (``tie-order``)."""
    deviations: tuple[SamplerFinding, ...] = ()

    def findings(self) -> Sequence[Finding]:
        """The deviations, and which generations fit."""
        return (*self.deviations, *generation_findings(self.fits))


class DrawStatistics(Model):
    """How the counts of many draws fit the exact distribution, for one point of the grid."""

    configuration: str
    draws: int
    cells: int
    chi_square_p: float
    rare_expected: float
    rare_seen: int
    rare_p: float
    impossible: int


class SamplerDocument(Document):
    """The result of the sampler audit of one build."""

    audit: Literal[AuditName.SAMPLER] = AuditName.SAMPLER
    samplers: tuple[SamplerResult, ...] = ()
    statistics: tuple[DrawStatistics, ...] = ()
    family_wise_error: float | None = None
    """Bound on the probability that a correct build fails any of the tests under ``statistics``."""

    @property
    def subjects(self) -> Sequence[SamplerResult]:
        """The samplers."""
        return self.samplers
