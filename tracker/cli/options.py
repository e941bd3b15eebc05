"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tracker.cli.output import OUTPUT

DEFAULT_RELEASE = "llama-cpp-python==latest"
REPORTS = Path("reports")
DEFAULT_JOBS = len(os.sched_getaffinity(0))
"""As many as there are processors that this process may use."""


def _set_quiet(value: bool) -> bool:
    OUTPUT.quiet = OUTPUT.quiet or value
    return value


def _set_verbose(value: bool) -> bool:
    OUTPUT.verbose = OUTPUT.verbose or value
    return value


Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print results and problems only.", callback=_set_quiet),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Say more; show tracebacks.", callback=_set_verbose),
]
Json = Annotated[
    str,
    typer.Option(
        "--json", metavar="FILE|-", help="Write one JSON document to a file, or to standard output for '-'."
    ),
]
ConfigFile = Annotated[Path, typer.Option("--config", metavar="FILE", help="The configuration.")]
Reports = Annotated[Path, typer.Option("--reports", metavar="DIR", help="Where results and reports lie.")]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=1, max=64, help="Compile processes, and audit workers, at once.")
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Try a build again that failed when it was last tried.")
]
ExitCodeOption = Annotated[
    bool, typer.Option("--exit-code", help="Exit with 10 when deviations were found or have changed.")
]
GrammarNames = Annotated[
    list[str] | None,
    typer.Option(
        "--grammar",
        "-g",
        metavar="NAME",
        help="Only this grammar of the corpus, or a pattern such as 'json-*'.",
    ),
]
States = Annotated[
    int | None, typer.Option("--states", min=1, help="Compare at most so many states of each grammar.")
]
Paths = Annotated[
    int,
    typer.Option(
        "--paths", min=1, max=100, help="Compare each state after up to so many token paths that lead to it."
    ),
]
VocabularyName = Annotated[
    str,
    typer.Option(
        "--vocabulary",
        metavar="NAME",
        help="qwen2.5, or synthetic: a few thousand tokens that no trained vocabulary has.",
    ),
]
