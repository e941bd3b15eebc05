"""The command line: parses, calls, prints. What is done is done elsewhere.

Every command lives in a module of its own with a ``register`` function; this one puts them together and turns
errors into one line and an exit code.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import click
import typer

from tracker import __version__
from tracker.cli import audit, builds, check, control
from tracker.cli.output import OUTPUT
from tracker.errors import ExitCode, TrackerError

COMMANDS = (audit, check, control, builds)

app = typer.Typer(
    name="llama-tracker",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Watches llama.cpp releases for regressions in constrained decoding.",
    epilog="Exit codes: 0 done; 10 deviations changed (with --exit-code); 2 wrong usage or configuration; "
    "3 incomplete (a build, an audit or a control failed, or nothing was audited); 70 a bug in the program.",
)

for _module in COMMANDS:
    _module.register(app)


def _version(value: bool) -> None:
    if value:
        OUTPUT.result(f"llama-tracker {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code.

    Every error that is meant to reach the user becomes one line on standard error.
    """
    OUTPUT.quiet = OUTPUT.verbose = False
    try:
        return int(app(list(arguments), standalone_mode=False) or 0)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.exceptions.NoArgsIsHelpError as empty:
        OUTPUT.problem(empty.format_message())
        return ExitCode.USAGE
    except click.ClickException as mistake:
        context = getattr(mistake, "ctx", None)
        hint = f" (see '{context.command_path} --help')" if context else ""
        OUTPUT.problem(f"llama-tracker: {' '.join(mistake.format_message().split())}{hint}")
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        OUTPUT.problem("llama-tracker: interrupted: what was finished is kept, run it again to go on")
        return 130
    except TrackerError as error:
        if OUTPUT.verbose:
            OUTPUT.problem(traceback.format_exc())
        OUTPUT.problem(f"llama-tracker: {error}")
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except Exception as bug:
        if OUTPUT.verbose:
            OUTPUT.problem(traceback.format_exc())
        OUTPUT.problem(
            f"llama-tracker: a bug in the program: {type(bug).__name__}: {bug}: run again with --verbose "
            "and report what it prints"
        )
        return ExitCode.INTERNAL
