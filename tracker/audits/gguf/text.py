"""The GGUF audit in words: rows of the table of outcomes, and a line for each finding. Prints nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tracker.audits.gguf.own_reader import FuzzReport
from tracker.results import Kind
from tracker.results.gguf import GgufDocument, GgufFinding, GgufResult

OUTCOMES = ("refused", "accepted", "crash", "hang", "memory")


def table(document: GgufDocument) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: files by reader, seed and outcome; findings, and matters of policy."""
    header = ("reader/seed", "files", *OUTCOMES, "findings", "policy")
    rows = []
    for result in document.readers:
        counts: Counter[str] = Counter()
        for by_outcome in result.outcomes.values():
            counts.update(by_outcome)
        policy = sum(finding.kind is Kind.POLICY for finding in result.deviations)
        figures = (counts[outcome] for outcome in OUTCOMES)
        numbers = (result.files, *figures, len(result.deviations) - policy, policy)
        rows.append((result.name, *(str(number or "-") for number in numbers)))
    return header, rows


def findings(document: GgufDocument, *, policy: bool = False) -> Iterator[str]:
    """A line for each kind and cause, over all readers and seeds; matters of policy only when asked for."""
    groups: dict[tuple[str, str], list[tuple[GgufResult, GgufFinding]]] = {}
    for result in document.readers:
        for finding in result.deviations:
            if policy or finding.kind is not Kind.POLICY:
                groups.setdefault((finding.kind, finding.cause), []).append((result, finding))
    for (kind, cause), group in sorted(groups.items()):
        readers = ", ".join(dict.fromkeys(result.reader for result, _ in group))
        fields = ", ".join(sorted({finding.field for _, finding in group if finding.field}))
        files = sum(finding.files for _, finding in group)
        smallest = min(
            (finding for _, finding in group), key=lambda finding: (len(finding.file), finding.file)
        )
        yield (
            f"{kind}: {cause} (readers: {readers}; fields: {fields or '-'}; {files} files, "
            f"smallest {len(smallest.file) // 2} bytes)"
        )
        if smallest.stack:
            yield "    " + " < ".join(smallest.stack)


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
