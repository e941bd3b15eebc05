"""``llama-tracker notify``: what the issues should say, and making them say it."""

from __future__ import annotations

import json as json_format
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tracker.cli import options
from tracker.cli.output import OUTPUT, write_json
from tracker.config import Config, load_config
from tracker.errors import ExitCode, TrackerError, UsageError
from tracker.publish.connection import Token
from tracker.publish.facts import Trouble
from tracker.publish.gather import facts_of
from tracker.publish.github import WORKFLOW_AUTHOR, IssueTracker
from tracker.publish.health import read_log, troubles_in
from tracker.publish.issue import HEALTH, Action, Nothing, watch_subject
from tracker.publish.message import Texts
from tracker.publish.plan import plan
from tracker.publish.sections import Links
from tracker.store import Store

Repository = Annotated[
    str, typer.Option(metavar="OWNER/NAME", help="Whose issues. [default: builds.yaml, or GITHUB_REPOSITORY]")
]
ApiUrl = Annotated[str, typer.Option(envvar="GITHUB_API_URL", help="Address of GitHub's API.")]
ServerUrl = Annotated[str, typer.Option(envvar="GITHUB_SERVER_URL", help="Address of GitHub, for links.")]
Branch = Annotated[str, typer.Option(envvar="GITHUB_REF_NAME", help="Branch with the reports, for links.")]
Author = Annotated[
    str,
    typer.Option(
        envvar="LLAMA_TRACKER_AUTHOR", help="Whose issues are ours. [default: the one the token belongs to]"
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("notify")(notify)


def notify(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="With --dry-run: as if there were no issues yet; asks nobody.")
    ] = False,
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
        raise UsageError("GITHUB_TOKEN: is not set; set it, or look at the plan with --dry-run --offline")
    name = repository or ("OWNER/NAME" if offline and not settings.notification.repository else
    settings.notification.target()) store =
    Store(reports / "data")
       
       
       
       
       
        if not
      
       
        
         
          
             store.keys():
       
        raise
       
       
       
       
        TrackerError(f"{reports
       
       
       
       
       
       
        / 'data'}:
      
      
        
          
            
              
                
                  
                       no results there: run `llama-tracker run`
      
      
        
          
            
              
                
                  
                    
                         first")
    label =
    settings.notification.label watches =
    facts_of(settings.watches, store) subjects =
    [*(watch_subject(facts.name) for facts in watches), HEALTH] troubles =
    _troubles(settings, reports) texts = Texts(
        links=Links(repository=f"{server_url.rstrip('/')}/{name}", branch=branch),
        ignore_label=f"{label}:ignore"
    )
    limit = settings.notification.max_new_issues
    if offline:
        actions = plan(watches, troubles, [], author=WORKFLOW_AUTHOR, texts=texts, max_new=limit)
        _print_plan(actions, json)
        return ExitCode.OK
    with IssueTracker(name, token, api_url=api_url, label=label, author=author or None) as tracker:
        issues = tracker.issues(subjects)
        actions = plan(watches, troubles, issues, author=tracker.author, texts=texts, max_new=limit)
        if dry_run:
            _print_plan(actions, json)
            return ExitCode.OK
        failed = False
        outcomes = []
        for outcome in tracker.apply(actions):
            failed = failed or outcome.error is not None
            outcomes.append({**_plain(outcome.action), "number": outcome.number, "error":
            str(outcome.error or "")})
              
               
                
                 
                  
                   
                    
                     
                      
                         if
               
               
               
               
               
               
               
               
               
                outcome.error: OUTPUT.problem(f"llama-tracker:
              
               
                
                 
                  
                   
                    
                     
                      
                       
                          {outcome.error}")
         
               
                 
                   
                     
                       
                         
                           
                             
                               
                                 
                                      else: OUTPUT.say(f"{_in_words(outcome.action)}{_made(outcome.action,
               
               
               
               
               
               
               
               
               
               
                outcome.number)}")
  
       
          if json:
          write_json(json, {"actions": outcomes})
    return ExitCode.INCOMPLETE if failed or len(outcomes) < len(actions) else ExitCode.OK


def _troubles(settings: Config, reports:
    Path) -> list[Trouble] | None: log =
   
    read_log(reports) if settings.notification.health else
    None return None if log is
    None else troubles_in(log,
    settings.notification.after_failures)


def _print_plan(actions: Sequence[Action], json: str) -> None:
    if json:
        write_json(json, {"actions": [_plain(action) for action in actions]})
    if json == "-":
        return
    for action in actions:
        OUTPUT.result(_in_words(action))
        if not isinstance(action, Nothing):
            OUTPUT.result()
            for line in action.body.splitlines():
                OUTPUT.result(f"    {line}".rstrip())
            OUTPUT.result()


def _in_words(action: Action) -> str:
    number = getattr(action, "number", None)
    where = f" #{number}" if number is not None else ""
    more = f": {action.reason}" if isinstance(action, Nothing) else ""
    return f"{action.subject}: {type(action).__name__.lower()}{where}{more}"


def _made(action: Action, number: int | None) -> str:
    return "" if getattr(action, "number", None) is not None or number is None else f" #{number}"


def _plain(action: Action) -> dict[str, object]:
    return {"action": type(action).__name__.lower(), **json_format.loads(json_format.dumps(asdict(action)))}
