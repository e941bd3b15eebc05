"""``llama-tracker plan`` and ``llama-tracker merge``: the two ends of the audit jobs in GitHub Actions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracker.cache import Cache
from tracker.cli import options
from tracker.cli.output import OUTPUT
from tracker.config import load_config
from tracker.errors import ExitCode, UsageError
from tracker.publish.health import Log, Problem, count_night, read_log, write_log
from tracker.publish.matrix import decode_matrix, encode_matrix, pending
from tracker.publish.merge import PLAN, Merged, merge
from tracker.store import Store


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("plan")(plan_command)
    app.command("merge")(merge_command)


def plan_command(
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Append matrix=... and count=... there: $GITHUB_OUTPUT in a workflow."
        ),
    ] = None,
    config: options.ConfigFile = Path("builds.yaml"),
    reports: options.Reports = options.REPORTS,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Print the audit jobs of tonight as a matrix for GitHub Actions: each release without a current result.

    Example: llama-tracker plan
    """
    jobs = list(pending(load_config(config), Store(reports / "data"), Cache.default()))
    matrix, count = encode_matrix(jobs)
    for job in jobs[:count]:
        OUTPUT.say(f"{job.release}: to be audited")
    if count < len(jobs):
        OUTPUT.say(f"{len(jobs) - count} more wait for the next night")
    OUTPUT.result(matrix)
    if output is not None:
        try:
            with output.open("a", encoding="utf-8") as file:
                file.write(f"matrix={matrix}\ncount={count}\n")
        except OSError as error:
            raise UsageError(
                f"--output {output}: {error.strerror}: give a file that can be written"
            ) from None
    return ExitCode.OK


def merge_command(
    folder: Annotated[Path, typer.Argument(help="Where the artifacts of the audit jobs lie.")],
    planned: Annotated[
        str, typer.Option(metavar="MATRIX", help="The matrix that `plan` has printed; empty when it failed.")
    ],
    night: Annotated[
        str, typer.Option(metavar="NAME", help="Names this night, so that a rerun does not count as another.")
    ],
    reports: options.Reports = options.REPORTS,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Check what the audit jobs have handed over, store it, and count what went wrong.

    Example: llama-tracker merge handover --planned "$MATRIX" --night "$GITHUB_RUN_ID"
    """
    if planned:
        merged = merge(folder, decode_matrix(planned), Store(reports / "data"))
    else:
        what = "it could not be said which releases there are; see the log of that job"
        merged = Merged((), (Problem(PLAN, what),))
    for document in merged.stored:
        OUTPUT.say(f"{document.build.id}: {document.audit} {document.status}, stored")
    for problem in merged.problems:
        OUTPUT.problem(f"llama-tracker: {problem.key}: {problem.what}")
    log = count_night(read_log(reports) or Log(), merged.problems, night, unknown=not planned)
    write_log(reports, log)
    return ExitCode.INCOMPLETE if merged.problems else ExitCode.OK
