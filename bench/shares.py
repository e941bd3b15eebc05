"""``python -m bench.shares``: what the time of an audit's children goes into, over all workers.

Three audits of one build, one after the other: the corpus as it is; without the grammars that are there
because they may kill the library, whose deadlines are most of the waiting; and those with longer walks, where
what is paid once (children, vocabulary) weighs less.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tracker.audits.grammar.audit import RunFacts, VocabularyFile, audit_build
from tracker.audits.grammar.corpus import CorpusEntry
from tracker.build import Build
from tracker.cache import Cache
from tracker.cli.options import DEFAULT_JOBS, DEFAULT_RELEASE
from tracker.pipeline import Selection, load_vocabulary, prepare_build, select_grammars

LONGER = 4
"""How many times as many states the longer walks visit at most."""

OUT = Console(highlight=False, soft_wrap=True, width=140)


def main() -> None:
    """Audit and print."""
    parser = argparse.ArgumentParser(prog="bench.shares", description=__doc__)
    parser.add_argument("release", nargs="?", default=DEFAULT_RELEASE)
    parser.add_argument("--jobs", type=int, default=DEFAULT_JOBS)
    arguments = parser.parse_args()
    cache = Cache.default()
    build = prepare_build(arguments.release, cache, jobs=arguments.jobs, retry_failed=False, tell=OUT.print)
    vocabulary = load_vocabulary(cache, [build.tree])
    entries = select_grammars(Selection(), build.tree)
    harmless = [entry for entry in entries if entry.group != "robustness"]
    longer = [entry.model_copy(update={"states": LONGER * entry.states}) for entry in harmless]
    runs = {
        "the corpus": entries,
        "without robustness": harmless,
        f"and {LONGER} times the states": longer,
    }
    facts = {name: _audited(build, vocabulary, some, arguments.jobs) for name, some in runs.items()}
    OUT.print(shares_table(facts))


def _audited(build: Build, vocabulary: VocabularyFile, entries: Sequence[CorpusEntry], jobs: int) -> RunFacts:
    document, facts = audit_build(build, vocabulary, entries, jobs=jobs)
    if not document.trustworthy:
        raise SystemExit(f"bench.shares: {build.id}: no verdict: {document.reason}")
    return facts


def shares_table(facts: dict[str, RunFacts]) -> Table:
    """Per cent of wall time × workers, by what the children spent it on."""
    title = "what the children's time goes into, in % of wall time x workers"
    table = Table("", *facts, title=title)
    rows = {
        "llama.cpp's apply": "apply",
        "apply, until a deadline": "died_in_apply",
        "other requests that the library died of": "died",
        "children otherwise": "child",
        "starting children": "starting",
        "waiting for us or for a processor": "waiting",
    }
    for name, field in rows.items():
        parts = (getattr(each.shares, field) / each.shares.whole for each in facts.values())
        table.add_row(name, *(f"{100 * part:.1f}" for part in parts))
    table.add_section()
    for name, field in {"CPU time in apply": "apply_cpu", "our own CPU time": "own"}.items():
        parts = (getattr(each.shares, field) / each.shares.whole for each in facts.values())
        table.add_row(name, *(f"{100 * part:.1f}" for part in parts))
    table.add_row("states", *(f"{each.states:,}" for each in facts.values()))
    table.add_row("wall time, s", *(f"{each.wall_seconds:.0f}" for each in facts.values()))
    oracle = (each.oracle_seconds / each.apply_seconds for each in facts.values())
    table.add_row("oracle's CPU time ÷ apply's, %", *(f"{100 * each:.1f}" for each in oracle))
    return table


if __name__ == "__main__":
    main()
