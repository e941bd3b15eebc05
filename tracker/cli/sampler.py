"""``llama-tracker sampler``."""

from __future__ import annotations

import itertools
import json
import time
from typing import Annotated

import typer
from rich.table import Table

from tracker.audits.grammar.audit import build_identity
from tracker.audits.sampler import text
from tracker.audits.sampler.audit import run_sampler_audit
from tracker.audits.sampler.transitions import generation_changes
from tracker.cache import Cache
from tracker.cli import options
from tracker.cli.output import OUTPUT, write_json
from tracker.errors import ExitCode
from tracker.libllama.client import LibllamaClient
from tracker.pipeline import prepare_build
from tracker.results.sampler import SamplerDocument


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sampler")(sampler)


def sampler(
    releases: Annotated[
        list[str], typer.Argument(metavar="RELEASE...", help="For example llama-cpp-python==0.3.36.")
    ],
    jobs: options.Jobs = options.DEFAULT_JOBS,
    json_to: options.Json = "",
    exit_code: options.ExitCodeOption = False,
    retry_failed: options.RetryFailed = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Hold a release's samplers against the reference, bit for bit; of several releases show what changed.

    Example: llama-tracker sampler llama-cpp-python==0.3.30 llama-cpp-python==0.3.36
    """
    documents = [_audited(release, jobs=jobs, retry_failed=retry_failed) for release in releases]
    if json_to:
        written = [document.model_dump(mode="json") for document in documents]
        target = written[0] if len(written) == 1 else written
        write_json(json_to, json.dumps(target, indent=2, sort_keys=True, ensure_ascii=False))
    if json_to != "-":
        _print(documents)
    failed = [control for document in documents for control in document.controls if not control.passed]
    for control in failed:
        OUTPUT.problem(f"llama-tracker: control {control.name}: {control.detail}: no verdict")
    if failed:
        return ExitCode.INCOMPLETE
    found = any(result.deviations for document in documents for result in document.samplers)
    return ExitCode.CHANGED if exit_code and found else ExitCode.OK


def _audited(release: str, *, jobs: int, retry_failed: bool) -> SamplerDocument:
    build = prepare_build(release, Cache.default(), jobs=jobs, retry_failed=retry_failed, tell=OUTPUT.say)
    OUTPUT.say(f"{build.id}: auditing the samplers")
    started = time.monotonic()
    with LibllamaClient(build, None) as client:
        document = run_sampler_audit(client, build_identity(build.release, build.id), progress=OUTPUT.detail)
    OUTPUT.say(
        f"{build.id}: {sum(r.cases for r in document.samplers)} cases in {time.monotonic() - started:.0f} s"
    )
    return document


def _print(documents: list[SamplerDocument]) -> None:
    header, rows = text.table(documents)
    shown = Table(*header)
    for row in rows:
        shown.add_row(*row)
    OUTPUT.out.print(shown)
    for document in documents:
        for line in text.findings(document):
            OUTPUT.result(f"{document.build.id}: {line}")
    for before, after in itertools.pairwise(documents):
        if before.trustworthy and after.trustworthy:
            for line in text.changes(generation_changes(before, after)):
                OUTPUT.result(f"{before.build.id} → {after.build.id}: {line}")
