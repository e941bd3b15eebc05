"""The sampler audit in words: a table of samplers by releases, findings and changes as lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from oracle.sampling import GENERATIONS
from tracker.audits.sampler.transitions import GenerationChange
from tracker.results import Kind
from tracker.results.sampler import Example, SamplerDocument, SamplerResult


def table(documents: Sequence[SamplerDocument]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table sampler × release."""
    header = ["sampler", *(document.build.version or document.build.id for document in documents)]
    names = [result.name for result in documents[0].samplers] if documents else []
    by_name = [{result.name: result for result in document.samplers} for document in documents]
    return header, [[name, *(cell(results.get(name)) for results in by_name)] for name in names]


def cell(result: SamplerResult | None) -> str:
    """One sampler of one release: its generations, and how many findings of which kind."""
    if result is None:
        return "not audited"
    if result.status != "complete":
        return f"untestable: {result.reason}"
    everything = len(result.fits) == len(GENERATIONS)
    parts = [] if not result.fits else ["all generations" if everything else "/".join(result.fits)]
    deaths = sum(finding.kind is not Kind.SAMPLER_DEVIATION for finding in result.deviations)
    others = len(result.deviations) - deaths
    parts += [f"{others} deviating"] if others else []
    parts += [f"{deaths} dying"] if deaths else []
    return ", ".join(parts) if others or deaths else ", ".join([*parts, "exact"])


def findings(document: SamplerDocument) -> Iterator[str]:
    """One line a finding."""
    for result in document.samplers:
        for finding in result.deviations:
            families = ", ".join(finding.families)
            yield f"{result.name}: {finding.kind} {finding.cause} ({families}): {example(finding.example)}"


def changes(found: Sequence[GenerationChange]) -> Iterator[str]:
    """One line a change of generation."""
    for change in found:
        line = f"{change.sampler}: {'/'.join(change.before)} → {'/'.join(change.after)}"
        yield f"{line}: {change.seen_in}: {example(change.example)}" if change.example else line


def example(shown: Example) -> str:
    """An example in one line: samplers, logits, calls, what came of it."""
    samplers = " → ".join(_sampler(step) for step in shown.chain)
    inputs = "; ".join(_logits(runs) for runs in shown.inputs)
    return f"{samplers} on {inputs}: {', '.join(shown.calls)}: {shown.detail}"


def _sampler(step: dict[str, Any]) -> str:
    parameters = ", ".join(f"{key}={value}" for key, value in step.items() if key != "sampler")
    return f"{step['sampler']}({parameters})"


def _logits(runs: Sequence[tuple[str, int]]) -> str:
    return "[" + ", ".join(number if count == 1 else f"{number} × {count}" for number, count in runs) + "]"
