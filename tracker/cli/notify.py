"""``llama-tracker notify``: what the issues should say, and making them say it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tracker.cli import options
from tracker.cli.output import OUTPUT, write_json
from tracker.config import Notification, load_config
from tracker.errors import ExitCode, TrackerError, UsageError
from tracker.publish.connection import Token
from tracker.publish.facts import Trouble
from tracker.publish.gather import facts_of
from tracker.publish.github import WORKFLOW_AUTHOR, IssueTracker, Outcome
from tracker.publish.health import read_log, troubles_in
from tracker.publish.issue import HEALTH, Action, Nothing, watch_subject
from tracker.publish.message import Texts
from tracker.publish.plan import plan
from tracker.publish.sections import Links
from tracker.store import Store

NOBODY = "OWNER/NAME"

Repository = Annotated[
    str, typer.Option(metavar=NOBODY, help="Whose issues. [default: builds.yaml, or GITHUB_REPOSITORY]")
]
ApiUrl = Annotated[str, typer.Option(envvar="GITHUB_API_URL", help="Address of GitHub's API.")]
ServerUrl = Annotated[str, typer.Option(envvar="GITHUB_SERVER_URL", help="Address of GitHub, for links.")]
Branch = Annotated[str, typer.Option(envvar="GITHUB_REF_NAME", help="Branch with the reports, for links.")]
Author = Annotated[
    str,
    typer.Option(
        envvar="LLAMA_TRACKER_AUTHOR", help="Whose issues are ours. [default: the token's own user]"
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")]
Offline = Annotated[
    bool, typer.Option("--offline", help="With --dry-run: as if there were no issues yet; asks nobody.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("notify")(notify)


def notify(
    dry_run: DryRun = False,
    offline: Offline = False,
    repository: Repository = "",
    api_url: ApiUrl = "https://api.github.com",
    server_url: ServerUrl = "https://github.com",
    branch: Branch = "main",
    author: Author = "",
    config: options.ConfigFile = Path("builds.yaml"),
    reports: options.Reports = options.REPORTS,
    json: options.Json = "",
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Make the issues say what the results say. The token is read from GITHUB_TOKEN, and from nowhere else.

    Example: llama-tracker notify --dry-run --offline
    """
    settings = load_config(config)
    token = Token(os.environ.get("GITHUB_TOKEN", ""))
    if offline and not dry_run:
        raise UsageError("--offline: makes sense with --dry-run only")
    if not dry_run and not token:
        raise UsageError("GITHUB_TOKEN: is not set: set it, or look at the plan with --dry-run --offline")
    name = _target(repository, settings.notification, offline)
    store = Store(reports / "data")
    if not store.keys():
        raise TrackerError(f"{store.root}: no results there: run `llama-tracker run` first")
    watches = facts_of(settings.watches, store)
    troubles = _troubles(settings.notification, reports)
    label = settings.notification.label
    links = Links(repository=f"{server_url.rstrip('/')}/{name}", branch=branch)
    texts = Texts(links=links, ignore_label=f"{label}:ignore")
    limit = settings.notification.max_new_issues
    if offline:
        _print_plan(plan(watches, troubles, [], author=WORKFLOW_AUTHOR, texts=texts, max_new=limit), json)
        return ExitCode.OK
    with IssueTracker(name, token, api_url=api_url, label=label, author=author or None) as tracker:
        issues = tracker.issues([*(watch_subject(facts.name) for facts in watches), HEALTH])
        actions = plan(watches, troubles, issues, author=tracker.author, texts=texts, max_new=limit)
        if dry_run:
            _print_plan(actions, json)
            return ExitCode.OK
        outcomes = []
        for outcome in tracker.apply(actions):
            outcomes.append(outcome)
            _print_outcome(outcome)
    if json:
        write_json(json, {"actions": [_plain(o.action, o) for o in outcomes]})
    complete = len(outcomes) == len(actions) and all(outcome.error is None for outcome in outcomes)
    return ExitCode.OK if complete else ExitCode.INCOMPLETE


def _target(repository: str, settings: Notification, offline: bool) -> str:
    if offline and not (repository or settings.repository):
        return NOBODY
    return Notification(repository=repository or settings.repository).target()


def _troubles(settings: Notification, reports: Path) -> list[Trouble] | None:
    log = read_log(reports) if settings.health else None
    return None if log is None else troubles_in(log, settings.after_failures)


def _print_outcome(outcome: Outcome) -> None:
    if outcome.error is not None:
        OUTPUT.problem(f"llama-tracker: {outcome.error}")
    else:
        OUTPUT.say(_in_words(outcome.action, outcome.number))


def _print_plan(actions: Sequence[Action], json: str) -> None:
    if json:
        write_json(json, {"actions": [_plain(action) for action in actions]})
    if json == "-":
        return
    for action in actions:
        OUTPUT.result(_in_words(action))
        if not isinstance(action, Nothing):
            lines = action.body.splitlines()
            OUTPUT.result("\n".join(["", *(f"    {line}".rstrip() for line in lines), ""]))


def _in_words(action: Action, number: int | None = None) -> str:
    number = getattr(action, "number", None) or number
    where = f" #{number}" if number is not None else ""
    more = f": {action.reason}" if isinstance(action, Nothing) else ""
    return f"{action.subject}: {type(action).__name__.lower()}{where}{more}"


def _plain(action: Action, outcome: Outcome | None = None) -> dict[str, Any]:
    shown: dict[str, Any] = {"action": type(action).__name__.lower(), **asdict(action)}
    if outcome is not None:
        shown |= {"number": outcome.number, "error": str(outcome.error) if outcome.error else None}
    return shown
