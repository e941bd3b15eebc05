"""``llama-tracker compare``: what changed between two results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracker.cli import options
from tracker.cli.output import OUTPUT, write_json
from tracker.errors import ExitCode, UsageError
from tracker.history import compare_documents
from tracker.render.comparison import as_json, in_words, is_decided
from tracker.render.words import release_of
from tracker.results import AuditName, Document
from tracker.store import Store, decode

_Result = Annotated[
    str,
    typer.Argument(help="A release, the id of a build in the reports, or a file that audit --json has made."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare_results)


def compare_results(
    old: _Result,
    new: _Result,
    audit: Annotated[AuditName, typer.Option(help="Which audit's results.")] = AuditName.GRAMMAR,
    reports: options.Reports = options.REPORTS,
    json_to: options.Json = "",
    exit_code: options.ExitCodeOption = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Say what changed from one result to another: what came, what went, and what cannot be compared.

    Example: llama-tracker compare llama-cpp-python==0.3.16 llama-cpp-python==0.3.36
    """
    store = Store(reports / "data")
    before, after = (find_result(store, name, audit) for name in (old, new))
    changes = compare_documents(before, after)
    builds = before.build, after.build
    if json_to:
        write_json(json_to, as_json(*builds, changes))
    if json_to != "-":
        OUTPUT.result(in_words(*builds, changes))
    if not is_decided(changes):
        return ExitCode.INCOMPLETE
    return ExitCode.CHANGED if exit_code and changes else ExitCode.OK


def find_result(store: Store, name: str, audit: AuditName) -> Document:
    """The result that a user names. Raises UsageError with what there is, StoreError for a bad file."""
    path = Path(name)
    if path.suffix == ".json" and path.is_file():
        return decode(path.read_bytes(), audit, name)
    ids = [key.build_id for key in store.keys(audit)]
    if name in ids:
        return store.read(name, audit)
    for build_id in ids:
        document = store.read(build_id, audit)
        if release_of(document.build) == name:
            return document
    there = ", ".join(ids) or "none"
    raise UsageError(f"{name}: no {audit} result of it: audit it first; there are results of: {there}")
