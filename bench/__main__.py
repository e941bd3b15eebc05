"""``python -m bench``: how fast the oracle is, as ratios of things measured side by side in one run."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from bench import growth, masks
from bench.places import cpu_seconds, resident_growth
from oracle.vocabulary import Trie, read_vocabulary
from tracker.audits.grammar.audit import LIMITS
from tracker.cache import Cache
from tracker.cli.options import DEFAULT_RELEASE
from tracker.libllama.client import LibllamaClient
from tracker.pipeline import load_vocabulary, prepare_build

OUT = Console(highlight=False, soft_wrap=True, width=140)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("release", nargs="?", default=DEFAULT_RELEASE)
    release = parser.parse_args().release
    cache = Cache.default()
    build = prepare_build(release, cache, jobs=2, retry_failed=False, tell=OUT.print)
    file = load_vocabulary(cache, [build.tree])
    vocabulary = file.vocabulary
    vocabulary.trie  # noqa: B018 - measured on its own below
    others = masks.engines(vocabulary)
    paths = sorted((build.tree / "grammars").glob("*.gbnf"))
    with LibllamaClient(build, file.path, LIMITS) as client:
        rows = {path.name: list(masks.at_states(path, client, vocabulary, others)) for path in paths}
        ready = {path.name: masks.compiled(path, client, vocabulary, others.xgrammar) for path in paths}
    OUT.print(masks.masks_table(build.id, rows))
    OUT.print(masks.compile_table(ready))
    steps: dict[str, Callable[[], object]] = {
        "reading the file": lambda: read_vocabulary(file.path),
        "trie": lambda: Trie(vocabulary.pieces),
        "llguidance, twice": lambda: masks.llguidance(vocabulary),
        "xgrammar": lambda: masks.xgrammar(vocabulary),
    }
    setup = Table("step", "ms", "resident MB", title="setting a vocabulary up")
    for name, step in steps.items():
        setup.add_row(name, f"{cpu_seconds(step) * 1e3:.0f}", f"{resident_growth(step) / 1e6:.0f}")
    OUT.print(setup)
    OUT.print(growth.with_vocabulary(vocabulary))
    OUT.print(growth.with_grammar())
    OUT.print(growth.with_nesting(vocabulary))
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths}
    OUT.print(growth.memory_of_a_walk(texts, vocabulary))


if __name__ == "__main__":
    main()
