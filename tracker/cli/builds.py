"""``llama-tracker builds``: what is in the cache, and putting things there by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from tracker.cache import Cache
from tracker.cli import options
from tracker.cli.output import OUTPUT, write_json
from tracker.errors import ExitCode, TrackerError, UsageError
from tracker.pipeline import make_build
from tracker.releases import ChannelName, Release
from tracker.releases.channels import expand, fetch

DAY = 24 * 3600.0
GIB = 1 << 30
LISTED = (ChannelName.PYTHON.value, ChannelName.BIN.value)


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(no_args_is_help=True, help="List, fetch, build and prune what is in the cache.")
    group.command("list")(list_builds)
    group.command("fetch")(fetch_sources)
    group.command("build")(build)
    group.command("prune")(prune)
    app.add_typer(group, name="builds")


def list_builds(
    channel: Annotated[
        str | None,
        typer.Argument(help="List the releases of this channel on the package index instead of the cache."),
    ] = None,
    json_to: options.Json = "",
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """What is in the cache; or, with a channel, which releases there are.

    Example: llama-tracker builds list llama-cpp-python
    """
    if channel is not None:
        if channel not in LISTED:
            raise UsageError(f"{channel}: cannot be listed: give one of {', '.join(LISTED)}")
        releases = [str(release) for release in expand(f"{channel}>=0", Cache.default())]
        if json_to:
            write_json(json_to, releases)
        if json_to != "-":
            for release in releases:
                OUTPUT.result(release)
        return ExitCode.OK
    entries = Cache.default().entries()
    if json_to:
        write_json(json_to, [{"kind": e.kind, "name": e.path.name, "bytes": e.size} for e in entries])
    if json_to != "-":
        table = Table()
        for column in ("kind", "name", "size"):
            table.add_column(column, justify="right" if column == "size" else "left")
        for entry in entries:
            table.add_row(entry.kind, Text(entry.path.name), f"{entry.size / 2**20:,.0f} MiB")
        OUTPUT.out.print(table)
        OUTPUT.result(f"{len(entries)} entries, {sum(e.size for e in entries) / GIB:.2f} GiB")
    return ExitCode.OK


Releases = Annotated[
    list[str], typer.Argument(help="Releases, or ranges such as 'llama-cpp-python>=0.3.30'.")
]


def fetch_sources(
    releases: Releases,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Download, verify and unpack sources.

    Example: llama-tracker builds fetch llama-cpp-python==0.3.36
    """
    return _each(releases, lambda release, cache: str(fetch(release, cache).tree), "fetched")


def build(
    releases: Releases,
    jobs: options.Jobs = options.DEFAULT_JOBS,
    retry_failed: options.RetryFailed = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Build releases, one after the other, unless they are in the cache.

    Example: llama-tracker builds build 'llama-cpp-python>=0.3.35'
    """

    def one(release: Release, cache: Cache) -> str:
        made = make_build(fetch(release, cache), cache, jobs=jobs, retry_failed=retry_failed, tell=OUTPUT.say)
        return str(made.library)

    return _each(releases, one, "built")


def prune(
    days: Annotated[
        float, typer.Option(min=0, max=36_500, help="Remove what was not used for so many days.")
    ] = 30.0,
    keep_gib: Annotated[
        float, typer.Option(min=0, max=1_000_000, help="Then the oldest, until so much is left.")
    ] = 20.0,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Remove what was not used lately, and the oldest of what is too much.

    Example: llama-tracker builds prune --days 7
    """
    removed = Cache.default().prune(unused_seconds=days * DAY, keep_bytes=int(keep_gib * GIB))
    for entry in removed:
        OUTPUT.result(f"removed {entry.kind} {entry.path.name} ({entry.size / 2**20:,.0f} MiB)")
    OUTPUT.say(f"{len(removed)} entries removed, {sum(e.size for e in removed) / GIB:.2f} GiB")
    return ExitCode.OK


def _each(texts: list[str], do: Callable[[Release, Cache], str], done: str) -> int:
    """Do something with every release named; one that fails does not stop the others."""
    cache = Cache.default()
    releases = [release for text in texts for release in expand(text, cache)]
    failed = 0
    for release in releases:
        try:
            OUTPUT.result(f"{release}: {done}: {do(release, cache)}")
        except TrackerError as error:
            failed += 1
            OUTPUT.problem(f"llama-tracker: {error}")
    return ExitCode.INCOMPLETE if failed else ExitCode.OK
