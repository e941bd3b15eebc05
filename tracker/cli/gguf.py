"""``llama-tracker gguf``."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tracker.audits.gguf import text
from tracker.audits.gguf.audit import FULL, LIMITS, QUICK, Budget, RunFacts, run_gguf_audit
from tracker.audits.gguf.guided import fuzz_guided
from tracker.audits.gguf.mutants import mutants, untouched, written_cases
from tracker.audits.gguf.own_reader import Violation, fuzz
from tracker.audits.gguf.sanitized import sanitizer_options
from tracker.audits.gguf.sanitized_audit import run_sanitizer_audit
from tracker.audits.gguf.saved import MAXIMUM_BYTES, SavedFile, save_files
from tracker.build import build_release
from tracker.cache import Cache
from tracker.cli import options
from tracker.cli.output import OUTPUT, write_json
from tracker.errors import ExitCode, UsageError
from tracker.libllama.client import LibllamaClient
from tracker.pipeline import prepare_build
from tracker.releases.channels import expand, fetch
from tracker.results import Kind
from tracker.results.gguf import GgufDocument

GUIDED_RUNS = 200_000


class Fuzz(StrEnum):
    """How much our own reader is put through."""

    QUICK = "quick"
    FULL = "full"
    GUIDED = "guided"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("gguf")(gguf)


def gguf(
    releases: Annotated[
        list[str] | None,
        typer.Argument(metavar="RELEASE...", help="For example llama-cpp-python==0.3.36."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="20,000 random files instead of 2,000.")] = False,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Build the reader with sanitizers and collect their reports.")
    ] = False,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole", help="With --sanitize: the whole library, vocabulary load included (20 minutes)."
        ),
    ] = False,
    fuzz_own: Annotated[
        Fuzz | None, typer.Option("--fuzz", help="Fuzz our own reader; needs no release.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the findings' files there, as YAML.")
    ] = None,
    policy: Annotated[bool, typer.Option("--policy", help="Show matters of policy as well.")] = False,
    jobs: options.Jobs = options.DEFAULT_JOBS,
    json_to: options.Json = "",
    exit_code: options.ExitCodeOption = False,
    retry_failed: options.RetryFailed = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Show what a release's GGUF reader does with files that no honest writer makes.

    Example: llama-tracker gguf llama-cpp-python==0.3.16 llama-cpp-python==0.3.36
    """
    if fuzz_own is not None:
        if releases or sanitize:
            raise UsageError("--fuzz is about our own reader: give it without a release and --sanitize")
        return _fuzz(fuzz_own, save)
    if not releases:
        raise UsageError("no release given: name one, or fuzz our own reader with --fuzz quick")
    if whole and not sanitize:
        raise UsageError("--whole says what --sanitize builds: give both")
    budget = FULL if full else QUICK
    documents = []
    for release in releases:
        if sanitize:
            document = _sanitized(release, budget, whole=whole, jobs=jobs, retry_failed=retry_failed)
        else:
            document = _audited(release, budget, jobs=jobs, retry_failed=retry_failed)
        documents.append(document)
    if json_to:
        written = [document.model_dump(mode="json") for document in documents]
        target = written[0] if len(written) == 1 else written
        write_json(json_to, json.dumps(target, indent=2, sort_keys=True, ensure_ascii=False))
    if json_to != "-":
        _print(documents, policy=policy)
    if save is not None:
        save_files(save, [file for document in documents for file in _files(document)])
    failed = [(document, c) for document in documents for c in document.controls if not c.passed]
    for document, control in failed:
        OUTPUT.problem(f"llama-tracker: {document.build.id}: control {control.name}: {control.detail}")
    if failed:
        return ExitCode.INCOMPLETE
    found = any(
        finding.kind is not Kind.POLICY
        for document in documents
        for result in document.readers
        for finding in result.deviations
    )
    return ExitCode.CHANGED if exit_code and found else ExitCode.OK


def _fuzz(how: Fuzz, save: Path | None) -> int:
    if how is Fuzz.GUIDED:
        starts = [mutant.data for mutant in (*untouched(), *written_cases())]
        OUTPUT.say(f"{GUIDED_RUNS} files, led by the coverage of our reader")
        report = fuzz_guided(starts, GUIDED_RUNS)
        found = [] if report.violation is None else [report.violation]
        OUTPUT.result(
            f"{report.files} files, {report.edges} edges and {report.features} features of the reader "
            f"covered, {len(found)} violations"
        )
        for violation in found:
            OUTPUT.result(f"  VIOLATION {violation.mutant.name}: {violation.what}")
    else:
        budget = FULL if how is Fuzz.FULL else QUICK
        result = fuzz(mutants(budget.randoms))
        for line in text.fuzz_lines(result):
            OUTPUT.result(line)
        found = result.violations
    if save is not None:
        save_files(save, [_saved(violation) for violation in found])
    return ExitCode.INCOMPLETE if found else ExitCode.OK


def _saved(violation: Violation) -> SavedFile:
    return SavedFile(violation.mutant.name, violation.what, violation.mutant.data[:MAXIMUM_BYTES])


def _files(document: GgufDocument) -> list[SavedFile]:
    return [
        SavedFile(
            f"{document.build.id}/{result.name}/{finding.kind}/{finding.cause}/{finding.field}",
            text.finding_in_words(finding),
            bytes.fromhex(finding.file),
        )
        for result in document.readers
        for finding in result.deviations
    ]


def _audited(release: str, budget: Budget, *, jobs: int, retry_failed: bool) -> GgufDocument:
    build = prepare_build(release, Cache.default(), jobs=jobs, retry_failed=retry_failed, tell=OUTPUT.say)
    with LibllamaClient(build, None, LIMITS) as client:
        document, facts = run_gguf_audit(client, build, budget, progress=_progress(build.id))
    _say_throughput(build.id, facts)
    return document


def _sanitized(release: str, budget: Budget, *, whole: bool, jobs: int, retry_failed: bool) -> GgufDocument:
    cache = Cache.default()
    exact = expand(release, cache)
    if len(exact) != 1:
        raise UsageError(f"{release}: names {len(exact)} releases: give exactly one here")
    build = build_release(
        fetch(exact[0], cache),
        cache=cache,
        jobs=jobs,
        options=sanitizer_options(whole=whole),
        retry_failed=retry_failed,
        progress=OUTPUT.say,
    )
    document, facts = run_sanitizer_audit(build, budget, progress=_progress(build.id))
    _say_throughput(build.id, facts)
    return document


def _progress(build_id: str) -> Callable[[str, int, int], None]:
    """Says where the audit is at every tenth of a reader's files."""

    def tell(reader: str, done: int, total: int) -> None:
        if total >= 10 and done % (total // 10) == 0:
            OUTPUT.detail(f"{build_id}: {reader}: {done} of {total} files")

    return tell


def _say_throughput(build_id: str, facts: RunFacts) -> None:
    for reader, seconds in facts.seconds.items():
        rate = facts.files / seconds if seconds else 0.0
        OUTPUT.say(f"{build_id}: {reader}: {facts.files} files in {seconds:.1f} s, {rate:.0f} a second")


def _print(documents: list[GgufDocument], *, policy: bool) -> None:
    for document in documents:
        header, rows = text.table(document)
        shown = Table(
            title=f"{document.build.id} (audit {document.audit_version[:12]})", title_justify="left"
        )
        for i, column in enumerate(header):
            shown.add_column(column, justify="right" if i else "left", no_wrap=True)
        for row in rows:
            shown.add_row(*row)
        OUTPUT.out.print(shown)
        for line in text.findings(document, policy=policy):
            OUTPUT.result(line)
