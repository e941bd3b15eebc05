"""``llama-tracker control``: what makes the result trustworthy."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from tracker.audits.engines.run import FULL, run_cross_oracles
from tracker.build import Build
from tracker.cache import Cache
from tracker.cli import options
from tracker.cli.output import OUTPUT, state_progress, write_json
from tracker.errors import ExitCode
from tracker.pipeline import Selection, audit_grammars, load_vocabulary, prepare_build, select_grammars
from tracker.results import Control
from tracker.store import encode
from tracker.synthetic_vocabulary import synthetic_vocabulary


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("control")(control)


def control(
    release: Annotated[str, typer.Argument(help="The release to control with.")] = options.DEFAULT_RELEASE,
    grammar: options.GrammarNames = None,
    states: options.States = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also hold the oracle against other engines; takes minutes.")
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Which grammars --full draws; each number has others.")
    ] = 0,
    jobs: options.Jobs = options.DEFAULT_JOBS,
    json_to: options.Json = "",
    retry_failed: options.RetryFailed = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Check the tracker itself: planted differences, the same build twice, vocabulary parity.

    Every state is asked again of a fresh child in the opposite order, and then the whole audit is made once
    more with another number of workers: the two results must be the same bytes. With --full the oracle is
    also held against brute force, the textbook recognizer, llguidance, lark and, where installed, xgrammar.

    Example: llama-tracker control llama-cpp-python==0.3.36
    """
    cache = Cache.default()
    build = prepare_build(release, cache, jobs=jobs, retry_failed=retry_failed, tell=OUTPUT.say)
    selection = Selection(tuple(grammar or ()), states)
    with state_progress() as progress:
        OUTPUT.say(f"{build.id}: auditing, every state twice")
        first, _ = audit_grammars(build, cache, selection, jobs=jobs, keep_every=1, progress=progress)
        OUTPUT.say(f"{build.id}: auditing once more")
        other_jobs = 1 if jobs > 1 else 2
        again, _ = audit_grammars(build, cache, selection, jobs=other_jobs, keep_every=1, progress=progress)
    same = encode(first) == encode(again)
    whole = Control(
        name="whole result twice",
        passed=same,
        detail=f"with {jobs} and {other_jobs} workers: {'the same bytes' if same else 'results differ'}",
        figures={"bytes": len(encode(first))},
    )
    controls = [*first.controls, whole]
    if full:
        controls += _cross_oracles(build, cache, seed)
    if json_to:
        write_json(json_to, {"build": build.id, "controls": [c.model_dump(mode="json") for c in controls]})
    if json_to != "-":
        for one in controls:
            OUTPUT.result(f"{'passed' if one.passed else 'FAILED'}  {one.name}: {one.detail}")
    return ExitCode.OK if all(one.passed for one in controls) else ExitCode.INCOMPLETE


def _cross_oracles(build: Build, cache: Cache, seed: int) -> list[Control]:
    entries = select_grammars(Selection(), build.tree)
    return run_cross_oracles(
        replace(FULL, seed=seed),
        synthetic_vocabulary(),
        load_vocabulary(cache, [build.tree]).vocabulary,
        [(entry.name, entry.text) for entry in entries],
        OUTPUT.say,
    )
