"""The GGUF audit of one build: each of its readers on each file, against our own reader.

A function from inputs to a document: it builds nothing, writes nothing and prints nothing. Deterministic: the
same build gives the same bytes.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from tracker.audits.gguf.build_reader import (
    CONTROLS,
    CPU_SECONDS,
    MEMORY,
    Outcome,
    OutcomeKind,
    Reader,
    last_words,
    outcomes,
)
from tracker.audits.gguf.cases import cases
from tracker.audits.gguf.minimise import broken_fields, minimised, restored
from tracker.audits.gguf.mutants import CASES, Family, Mutant, layout_of, mutants
from tracker.audits.gguf.own_reader import OwnVerdict, fuzz, own_verdict
from tracker.audits.gguf.seeds import seeds
from tracker.audits.gguf.verdicts import Difference, difference
from tracker.audits.grammar.audit import build_identity
from tracker.build import Build
from tracker.libllama.client import LibllamaClient, Limits
from tracker.results import Control, Kind, tally
from tracker.results.gguf import BY_CAUSE, GgufDocument, GgufFinding, GgufResult

LIMITS = Limits(cpu_seconds=600, wall_seconds=600, address_space=2 << 30)
"""For the process that starts others; each file has limits of its own (``build_reader``)."""

_REVISION = 1
"""Raised when outcomes are judged or summed up in another way."""

Progress: TypeAlias = Callable[[str, int, int], None]
"""Told the reader, the files that are done and all files."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is tried: ``randoms``, every ``step``-th truncation and boundary value, by which readers."""

    randoms: int = 2000
    step: int = 1
    readers: tuple[Reader, ...] = tuple(Reader)
    fuzz_own_reader: bool = True
    """Whether our reader is fuzzed with the same random files first, as a control."""


QUICK = Budget()
FULL = Budget(randoms=20_000)


@dataclass
class RunFacts:
    """How long things took, for people; never part of a document. Seconds by reader, files in all."""

    files: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


def run_gguf_audit(
    client: LibllamaClient,
    build: Build,
    budget: Budget = QUICK,
    *,
    progress: Progress | None = None,
) -> tuple[GgufDocument, RunFacts]:
    """Audit a build's readers.

    ``client`` holds that build, without a vocabulary and with ``LIMITS``. A control that failed is in the
    document; see ``Document.trustworthy``.
    """
    facts = RunFacts()
    files, verdicts = _judged(budget)
    facts.files = len(files)
    controls = [*_controls(client, budget)]
    results: list[GgufResult] = []
    for reader in budget.readers:
        started = time.perf_counter()
        got: list[Outcome] = []
        for outcome in outcomes(client, reader, [mutant.data for mutant in files]):
            got.append(outcome)
            if progress is not None:
                progress(reader, len(got), len(files))
        facts.seconds[reader] = time.perf_counter() - started
        results += [_result(client, reader, seed, files, verdicts, got) for seed in (*seeds(), CASES)]
    failed = [control for control in controls if not control.passed]
    document = GgufDocument(
        audit_version=audit_version(budget),
        build=build_identity(build.release, build.id),
        controls=tuple(controls),
        readers=tuple(results),
        status="untestable" if failed else "complete",
        reason=f"control '{failed[0].name}' failed: {failed[0].detail}" if failed else None,
    )
    return document, facts


def audit_version(budget: Budget = QUICK) -> str:
    """Hash of everything on our side that decides the outcome: files, our verdicts, limits and judgement."""
    files, verdicts = _judged(budget)
    digest = hashlib.sha256(repr((_REVISION, LIMITS, CPU_SECONDS, MEMORY, budget.readers)).encode())
    for mutant, own in zip(files, verdicts, strict=True):
        digest.update(repr((mutant.name, own.rule, own.offset, own.contiguous)).encode())
        digest.update(mutant.data)
    return digest.hexdigest()


def files_of(budget: Budget) -> list[Mutant]:
    """The files of a budget, in their order."""
    stepped = (Family.TRUNCATION, Family.BOUNDARY)
    seen = Counter[Family]()
    chosen = []
    for mutant in mutants(budget.randoms):
        if mutant.family not in stepped or seen[mutant.family] % budget.step == 0:
            chosen.append(mutant)
        seen[mutant.family] += 1
    return chosen


@cache
def _judged(budget: Budget) -> tuple[list[Mutant], list[OwnVerdict]]:
    files = files_of(budget)
    return files, [own_verdict(mutant.data) for mutant in files]


def _controls(client: LibllamaClient, budget: Budget) -> Sequence[Control]:
    """What has to hold before a build's outcomes mean anything."""
    seen = {name: next(outcomes(client, name, [b"GGUF"])).kind for name in CONTROLS}
    wrong = [f"{name} was seen as {kind}" for name, kind in seen.items() if kind is not CONTROLS[name]]
    controls = [
        Control(
            name="deaths",
            passed=not wrong,
            detail="; ".join(wrong) or "a crash, a hang and an allocation beyond the limit are seen as such",
        )
    ]
    if budget.fuzz_own_reader:
        report = fuzz(mutant for mutant in _judged(budget)[0] if mutant.family is not Family.BOUNDARY)
        first = report.violations[0] if report.violations else None
        detail = f"{report.files} files, nothing but refusals and honest acceptances"
        if first is not None:
            detail = f"{first.mutant.name}: {first.what}"
        controls.append(
            Control(name="own-reader", passed=first is None, detail=detail, figures={"files": report.files})
        )
    return controls


def _result(
    client: LibllamaClient,
    reader: Reader,
    seed: str,
    files: Sequence[Mutant],
    verdicts: Sequence[OwnVerdict],
    got: Sequence[Outcome],
) -> GgufResult:
    name, digest = f"{reader}/{seed}", definition(seed)
    if reader is Reader.VOCABULARY and (why := _seed_refused(seed, files, got)) is not None:
        # A release from before such vocabularies: no difference between its mutants would mean anything.
        reason = f"the build does not load the seed's vocabulary: {why}"
        return GgufResult(
            name=name, sha256=digest, reader="vocabulary", seed=seed, status="untestable", reason=reason
        )
    counts: dict[str, Counter[str]] = {}
    groups: dict[tuple[Difference, str], list[tuple[Mutant, Outcome]]] = {}
    for mutant, own, outcome in zip(files, verdicts, got, strict=True):
        if mutant.seed != seed:
            continue
        counts.setdefault(mutant.family, Counter())[outcome.kind] += 1
        found = difference(mutant, own, outcome, reader)
        if found is not None:
            groups.setdefault((found, _field_at_fault(found, own, mutant)), []).append((mutant, outcome))
    deviations = sorted(
        (_finding(client, reader, found, at_fault, group) for (found, at_fault), group in groups.items()),
        key=lambda finding: (finding.kind, finding.cause, finding.field),
    )
    totals, digests = tally(name, digest, deviations)
    return GgufResult(
        name=name,
        sha256=digest,
        reader=reader.value,
        seed=seed,
        files=sum(counter.total() for counter in counts.values()),
        outcomes={family: dict(sorted(counter.items())) for family, counter in sorted(counts.items())},
        totals=totals,
        digests=digests,
        deviations=tuple(deviations),
    )


def _seed_refused(seed: str, files: Sequence[Mutant], got: Sequence[Outcome]) -> str | None:
    for mutant, outcome in zip(files, got, strict=True):
        if mutant.family is Family.SEED and mutant.seed == seed and outcome.kind is OutcomeKind.REFUSED:
            return last_words(outcome) or "no reason given"
    return None


def definition(seed: str) -> str:
    """sha256 of what the files of a subject are made from."""
    parts = [case.data for case in cases().values()] if seed == CASES else [seeds()[seed].data]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _field_at_fault(found: Difference, own: OwnVerdict, mutant: Mutant) -> str:
    """The kind of field by which findings are told apart; empty where the cause does."""
    if found[0] in BY_CAUSE or own.offset is None:
        return ""
    return layout_of(mutant).at(own.offset).kind


def _finding(
    client: LibllamaClient,
    reader: Reader,
    found: Difference,
    at_fault: str,
    group: Sequence[tuple[Mutant, Outcome]],
) -> GgufFinding:
    # Of the files with the fewest bytes, the one that comes first; boundary values break one place alone.
    mutant, outcome = min(group, key=lambda pair: (pair[0].family is Family.RANDOM, len(pair[0].data)))
    layout = layout_of(mutant)

    def first_true(candidates: Sequence[bytes]) -> int | None:
        asked = [Mutant("", mutant.seed, mutant.family, data) for data in candidates]
        for i, answer in enumerate(outcomes(client, reader, candidates)):
            if difference(asked[i], own_verdict(candidates[i]), answer, reader) == found:
                return i
        return None

    data = mutant.data
    if found[0] is not Kind.POLICY:
        data = restored(data, layout, first_true)
    broken = at_fault or next((str(item.kind) for item in broken_fields(data, layout)), "")
    if found[0] is not Kind.POLICY:
        data = minimised(data, layout, first_true)
        outcome = next(outcomes(client, reader, [data]))
    said = "" if outcome.kind is OutcomeKind.ACCEPTED else last_words(outcome)
    names = "\n".join(sorted(pair[0].name for pair in group))
    return GgufFinding(
        kind=found[0],
        cause=found[1],
        field=broken,
        file=data.hex(),
        files=len(group),
        digest=hashlib.sha256(names.encode()).hexdigest(),
        example=mutant.name,
        detail=said,
    )
