"""The GGUF audit in words: rows of the table of outcomes, and a line for each finding. Prints nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tracker.audits.gguf.model import GgufDocument, GgufFinding
from tracker.audits.gguf.own_reader import FuzzReport
from tracker.results import Kind

OUTCOMES = ("refused", "accepted", "crash", "hang", "memory")


def table(documents: Sequence[GgufDocument]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: files by build, reader, seed and outcome, and the findings by kind."""
    header = ("build", "reader/seed", "files", *OUTCOMES, "findings")
    rows = []
    for document in documents:
        for result in document.readers:
            counts: Counter[str] = Counter()
            for by_outcome in result.outcomes.values():
                counts.update(by_outcome)
            kinds = Counter(str(finding.kind) for finding in result.deviations)
            found = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
            figures = (str(counts[outcome] or "-") for outcome in OUTCOMES)
            rows.append((document.build.id, result.name, str(result.files), *figures, found or "none"))
    return header, rows


def findings(document: GgufDocument, *, policy: bool = False) -> Iterator[str]:
    """A line for each finding, matters of policy only when asked for."""
    for result in document.readers:
        for finding in result.deviations:
            if policy or finding.kind is not Kind.POLICY:
                yield f"{result.name}: {finding_in_words(finding)}"


def finding_in_words(finding: GgufFinding) -> str:
    """Kind, cause, field, how many files, and how small the smallest is."""
    where = f" at {finding.field}" if finding.field else ""
    files = "1 file" if finding.files == 1 else f"{finding.files} files"
    return f"{finding.kind}: {finding.cause}{where} ({files}, smallest {len(finding.file) // 2} bytes)"


def fuzz_lines(report: FuzzReport) -> Iterator[str]:
    """What a fuzz of our reader came to."""
    rate = report.files / report.seconds if report.seconds else 0.0
    yield (
        f"{report.files} files in {report.seconds:.1f} s ({rate:.0f} a second with memory watched), "
        f"most memory for one file {report.peak} bytes, {len(report.violations)} violations"
    )
    accepted: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for (family, verdict), count in report.outcomes.items():
        (accepted if verdict == "accepted" else refused)[family] += count
    for family in sorted({*accepted, *refused}):
        yield f"  {family}: {accepted[family]} accepted, {refused[family]} refused"
    for violation in report.violations:
        yield f"  VIOLATION {violation.mutant.name}: {violation.what}"
