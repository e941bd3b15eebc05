"""``llama-tracker audit`` and ``llama-tracker run``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tracker.atomic import write_atomic
from tracker.audits.grammar.audit import RunFacts
from tracker.cache import Cache
from tracker.cli import options, tables
from tracker.cli.output import OUTPUT, check_folder, check_json_target, state_progress, write_json
from tracker.config import load_config
from tracker.errors import ExitCode, TrackerError
from tracker.pipeline import (
    VOCABULARY_NAME,
    Outcome,
    Run,
    Selection,
    audit_grammars,
    prepare_build,
)
from tracker.render.reports import render_all
from tracker.results import AuditName
from tracker.store import Store, encode

RUN_FACTS = "run-facts.json"


class NothingAudited(TrackerError):
    """A run that measured nothing: empty is not green."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("audit")(audit)
    app.command("run")(run)


def audit(
    release: Annotated[str, typer.Argument(help="For example llama-cpp-python==0.3.36, or path:DIR.")],
    grammar: options.GrammarNames = None,
    states: options.States = None,
    paths: options.Paths = 1,
    vocabulary: options.VocabularyName = VOCABULARY_NAME,
    corpus: Annotated[Path | None, typer.Option(help="Another folder with a corpus.yaml.")] = None,
    jobs: options.Jobs = options.DEFAULT_JOBS,
    json_to: options.Json = "",
    exit_code: options.ExitCodeOption = False,
    retry_failed: options.RetryFailed = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Build one release and audit its grammar sampler.

    Example: llama-tracker audit llama-cpp-python==0.3.36 --grammar 'json-*' --json result.json
    """
    check_json_target(json_to)
    selection = Selection(tuple(grammar or ()), states, corpus, paths, vocabulary)
    cache = Cache.default()
    build = prepare_build(
        release, cache, jobs=jobs, retry_failed=retry_failed, tell=OUTPUT.say, selection=selection
    )
    OUTPUT.say(f"{build.id}: auditing")
    with state_progress() as progress:
        document, facts = audit_grammars(
            build,
            cache,
            selection,
            jobs=jobs,
            progress=progress,
        )
    if json_to:
        write_json(json_to, encode(document).decode())
    if json_to != "-":
        tables.print_document(document)
    OUTPUT.say(_in_words(facts))
    if not document.trustworthy:
        OUTPUT.problem(f"llama-tracker: {build.id}: no verdict: {document.reason}")
        return ExitCode.INCOMPLETE
    found = any(g.deviations for g in document.grammars)
    return ExitCode.CHANGED if exit_code and found else ExitCode.OK


def run(
    releases: Annotated[
        list[str] | None, typer.Argument(help="Only these releases, instead of those in the configuration.")
    ] = None,
    config: options.ConfigFile = Path("builds.yaml"),
    reports: options.Reports = options.REPORTS,
    jobs: options.Jobs = options.DEFAULT_JOBS,
    audit: Annotated[
        list[AuditName] | None,
        typer.Option("--audit", help="Only this audit, instead of those in the configuration."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Audit again what has a current result.")] = False,
    exit_code: options.ExitCodeOption = False,
    retry_failed: options.RetryFailed = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Audit every release of builds.yaml that has no current result, and write the reports.

    Example: llama-tracker run
    """
    settings = load_config(config)
    check_folder(reports)
    store = Store(reports / "data")
    store.sweep()
    with state_progress() as progress:
        session = Run(
            settings,
            store,
            Cache.default(),
            jobs=jobs,
            audits=audit or (),
            retry_failed=retry_failed,
            force=force,
            tell=OUTPUT.say,
            progress=progress,
        )
        outcomes: list[Outcome] = []
        for release, entry in session.releases(releases or ()):
            outcome = session.one(release, entry)
            outcomes.append(outcome)
            if outcome.facts:
                OUTPUT.say(f"{outcome.build_id}: {_in_words(outcome.facts)}")
            if outcome.state == "failed":
                OUTPUT.problem(f"llama-tracker: {outcome.build_id or release}: no result: {outcome.reason}")
    changed = render_all(store, settings, reports)
    _write_facts(reports, outcomes)
    tables.print_run(store, settings, outcomes)
    OUTPUT.say(f"reports: {reports / 'README.md'} ({len(changed)} files changed)")
    if all(outcome.state == "failed" for outcome in outcomes):
        raise NothingAudited("nothing was audited: see the lines above for each release's reason")
    if any(outcome.state == "failed" for outcome in outcomes):
        return ExitCode.INCOMPLETE
    audited = {outcome.build_id for outcome in outcomes if outcome.state == "audited"}
    return ExitCode.CHANGED if exit_code and tables.changes_at(store, audited) else ExitCode.OK


def _in_words(facts: RunFacts) -> str:
    shares = facts.shares
    ratio = facts.oracle_seconds / max(facts.apply_seconds, 1e-9)
    parts = {
        "in llama.cpp's apply": shares.apply,
        "at requests that it died of": shares.died,
        "answering otherwise": shares.child,
        "starting": shares.starting,
        "waiting": shares.waiting,
    }
    words = ", ".join(f"{seconds / shares.whole:.0%} {name}" for name, seconds in parts.items())
    return (
        f"{facts.states} states in {facts.wall_seconds:.0f} s; of {facts.jobs} children's time {words}; at "
        f"the states compared {facts.apply_seconds:.1f} s of CPU time in apply and "
        f"{facts.oracle_seconds:.1f} s in the oracle ({ratio:.0%}); peak memory "
        f"{facts.peak_memory / 2**20:.0f} MiB"
    )


def _write_facts(reports: Path, outcomes: list[Outcome]) -> None:
    """Times and memory of this run, beside the reports; never committed."""
    facts = {o.build_id: asdict(o.facts) for o in outcomes if o.facts}
    if facts:
        write_atomic(reports / RUN_FACTS, (json.dumps(facts, indent=1, sort_keys=True) + "\n").encode())
