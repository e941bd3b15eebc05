"""The same files through a sanitized reader: reports by cause, each with its smallest file and its stack.

A function from a sanitized build to a document; deterministic like the audit proper.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tracker.audits.gguf.audit import QUICK, Budget, RunFacts, audit_version, definition, files_of
from tracker.audits.gguf.minimise import broken_fields, minimised, restored
from tracker.audits.gguf.mutants import CASES, Family, Mutant, layout_of
from tracker.audits.gguf.sanitized import Report, compile_harness, reports, require_sanitized
from tracker.audits.gguf.seeds import seeds
from tracker.audits.grammar.audit import build_identity
from tracker.build import Build
from tracker.results import Control, Kind, tally
from tracker.results.gguf import GgufDocument, GgufFinding, GgufResult


def run_sanitizer_audit(
    build: Build, budget: Budget = QUICK, *, progress: Callable[[str, int, int], None] | None = None
) -> tuple[GgufDocument, RunFacts]:
    """Put the audit's files through a sanitized build. Raises HarnessError, BuildError."""
    require_sanitized(build)
    files = files_of(budget)
    facts = RunFacts(files=len(files))
    with tempfile.TemporaryDirectory() as folder:
        program = compile_harness(build, Path(folder))
        started = time.perf_counter()
        got: list[Report] = []
        for report in reports(program, [mutant.data for mutant in files]):
            got.append(report)
            if progress is not None:
                progress("sanitized", len(got), len(files))
        facts.seconds["sanitized"] = time.perf_counter() - started
        results = [_result(program, seed, files, got) for seed in (*seeds(), CASES)]
    controls = _controls(files, got)
    failed = [control for control in controls if not control.passed]
    document = GgufDocument(
        audit_version=hashlib.sha256(f"sanitized {audit_version(budget)}".encode()).hexdigest(),
        build=build_identity(build.release, build.id),
        controls=controls,
        readers=tuple(results),
        status="untestable" if failed else "complete",
        reason=f"control '{failed[0].name}' failed: {failed[0].detail}" if failed else None,
    )
    return document, facts


def _controls(files: Sequence[Mutant], got: Sequence[Report]) -> tuple[Control, ...]:
    seen = [report for mutant, report in zip(files, got, strict=True) if mutant.family is Family.SEED]
    accepted = sum(report.accepted for report in seen)
    return (
        Control(
            name="seeds",
            passed=accepted == len(seen),
            detail=f"{accepted} of {len(seen)} valid files accepted without a report",
        ),
    )


def _result(program: Path, seed: str, files: Sequence[Mutant], got: Sequence[Report]) -> GgufResult:
    counts: dict[str, Counter[str]] = {}
    groups: dict[tuple[Kind, str], list[tuple[Mutant, Report]]] = {}
    for mutant, report in zip(files, got, strict=True):
        if mutant.seed != seed:
            continue
        counts.setdefault(mutant.family, Counter())[_outcome(report)] += 1
        if report.kind is not None:
            groups.setdefault((report.kind, report.cause), []).append((mutant, report))
    deviations = sorted(
        (_finding(program, kind, cause, group) for (kind, cause), group in groups.items()),
        key=lambda finding: (finding.kind, finding.cause, finding.field),
    )
    name = f"sanitized/{seed}"
    digest = definition(seed)
    totals, digests = tally(name, digest, deviations)
    return GgufResult(
        name=name,
        sha256=digest,
        reader="sanitized",
        seed=seed,
        files=sum(counter.total() for counter in counts.values()),
        outcomes={family: dict(sorted(counter.items())) for family, counter in sorted(counts.items())},
        totals=totals,
        digests=digests,
        deviations=tuple(deviations),
    )


def _outcome(report: Report) -> str:
    names = {Kind.SANITIZER: "crash", Kind.CRASH: "crash", Kind.HANG: "hang", Kind.OOM: "memory"}
    return ("accepted" if report.accepted else "refused") if report.kind is None else names[report.kind]


def _finding(program: Path, kind: Kind, cause: str, group: Sequence[tuple[Mutant, Report]]) -> GgufFinding:
    mutant, report = min(group, key=lambda pair: (pair[0].family is Family.RANDOM, len(pair[0].data)))
    layout = layout_of(mutant)

    def first_true(candidates: Sequence[bytes]) -> int | None:
        for i, candidate in enumerate(reports(program, candidates)):
            if (candidate.kind, candidate.cause) == (kind, cause):
                return i
        return None

    data = restored(mutant.data, layout, first_true)
    at_fault = next((str(field.kind) for field in broken_fields(data, layout)), "")
    data = minimised(data, layout, first_true)
    names = "\n".join(sorted(pair[0].name for pair in group))
    return GgufFinding(
        kind=kind,
        cause=cause,
        field=at_fault,
        file=data.hex(),
        files=len(group),
        digest=hashlib.sha256(names.encode()).hexdigest(),
        example=mutant.name,
        stack=report.stack,
    )
