"""Pieces of the document: examples, figures, and what makes two findings the same. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oracle.sampling import SPECIFICATIONS, to_json
from tracker.audits.sampler import draws
from tracker.audits.sampler.case import EXAMPLE_RUNS, Case, Family, in_words, runs
from tracker.results.sampler import DrawStatistics, Example, SamplerFinding


def place_of(case: Case) -> str:
    """What tells apart the cases of one family: calls without a sampler, the samplers of a short chain."""
    if case.family is Family.NOTHING:
        return ", ".join(in_words(case.calls))
    return " → ".join(step.name for step in case.chain) if len(case.chain) == 2 else ""


def shape_of(finding: SamplerFinding) -> str:
    """What two findings have in common that are the same fault met in different families of cases."""
    example = finding.example
    samplers = [step["sampler"] for step in example.chain]
    special = {"0.0", "-0.0", "inf", "-inf", "nan"}
    numbers = [[text if text in special else "a number" for text, _ in runs] for runs in example.inputs]
    return repr((finding.kind, finding.cause, samplers, numbers, example.calls))


def merged(first: SamplerFinding, second: SamplerFinding) -> SamplerFinding:
    """One finding for the same fault met in two families of cases."""
    families = first.families + second.families
    return first.model_copy(update={"families": families, "cases": first.cases + second.cases})


def parameters_of(name: str) -> Sequence[str]:
    """Names of what describes a subject: a sampler with other parameters is another subject."""
    kind = SPECIFICATIONS.get(name)
    return [] if kind is None else list(kind.__annotations__)


def example_of(case: Case, call: int, detail: str) -> Example:
    """A case as the document shows it; ``call`` is where it parts from the reference."""
    listed = [runs(logits) for logits in case.inputs]
    if sum(map(len, listed)) > EXAMPLE_RUNS:
        listed = [[(f"{len(logits)} different logits", 1)] for logits in case.inputs]
    return Example(
        chain=tuple(_writable(to_json(specification)) for specification in case.chain),
        in_chain=not case.bare,
        inputs=tuple(tuple(run) for run in listed),
        calls=tuple(in_words(case.calls)),
        detail=f"call {call}: {detail}",
    )


def _writable(value: Any) -> Any:
    """A value as JSON holds it: numbers that JSON has no name for become texts, tuples lists."""
    match value:
        case dict():
            return {key: _writable(item) for key, item in value.items()}
        case tuple() | list():
            return [_writable(item) for item in value]
        case float() if not math.isfinite(value):
            return repr(value)
        case _:
            return value


def statistics_of(tested: draws.Frequencies) -> DrawStatistics:
    """The figures of one point of the grid."""
    fitted = tested.fit
    return DrawStatistics(
        configuration=tested.configuration,
        draws=fitted.draws,
        cells=fitted.cells,
        chi_square_p=_rounded(fitted.chi_square_p),
        rare_expected=_rounded(fitted.rare_expected),
        rare_seen=fitted.rare_seen,
        rare_p=_rounded(fitted.rare_p),
        impossible=fitted.impossible,
    )


def _rounded(value: float) -> float:
    """Six significant digits: the last bits are the C library's, not the build's."""
    return float(f"{value:.6g}")
