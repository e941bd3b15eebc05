"""``llama-tracker report``: the reports again, from the results that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracker.cli import options
from tracker.cli.output import OUTPUT
from tracker.config import load_config
from tracker.errors import ExitCode, TrackerError
from tracker.render.reports import render_all
from tracker.store import Store


class NothingToReport(TrackerError):
    """There is no result at all: an empty report would look like a clean one."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    config: options.ConfigFile = Path("builds.yaml"),
    reports: options.Reports = options.REPORTS,
    show: Annotated[bool, typer.Option("--list", help="Print the files that changed.")] = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Render reports/ again from reports/data/; only files that change are written.

    Example: llama-tracker report
    """
    settings = load_config(config)
    store = Store(reports / "data")
    store.sweep()
    if not store.keys():
        raise NothingToReport(f"{store.root}: no results: run 'llama-tracker run' first")
    changed = render_all(store, settings, reports)
    if show:
        for path in changed:
            OUTPUT.result(str(path))
    OUTPUT.say(f"reports: {reports / 'README.md'} ({len(changed)} files changed)")
    return ExitCode.OK
