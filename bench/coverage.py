"""``python -m bench.coverage``: how much of each grammar a walk sees, by its bound.

The walk is the audit's own, against a stand-in for the build that gives the oracle's own masks. Coverage is
the share of the grammar's dotted positions before a terminal that were met at token boundaries.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Sequence
from typing import cast

import numpy as np
from rich.console import Console
from rich.table import Table

from oracle.gbnf import GrammarError
from oracle.mask import Oracle
from oracle.vocabulary import Vocabulary
from tracker.audits.grammar.compare import Ends
from tracker.audits.grammar.corpus import load_corpus, source_tree_grammars
from tracker.audits.grammar.walk import Walk, walk
from tracker.cache import Cache
from tracker.cli.options import DEFAULT_RELEASE
from tracker.libllama.client import LibllamaClient, MaskReply
from tracker.pipeline import load_vocabulary, prepare_build
from tracker.synthetic_vocabulary import synthetic_vocabulary

BOUNDS = (5, 10, 20, 40, 80, 160, 640, 2100)
OUT = Console(highlight=False, soft_wrap=True, width=140)


class Faithful:
    """A stand-in for a build without a fault."""

    def __init__(self, oracle: Oracle):
        self._oracle = oracle

        self._sent: deque[Sequence[int]] = deque()

    def send_mask(
        self, grammar: str, path: Sequence[int], root: str = "root", *, check_path: bool = False
    ) -> None:
        """Ask for a mask."""
        self._sent.append(path)

    def receive_mask(self) -> MaskReply:
        """The oracle's mask, the end as its end tokens."""
        right = self._oracle.mask(self._oracle.walk(list(self._sent.popleft())))
        allowed = right.tokens.copy()
        allowed[list(self._oracle.end_tokens)] = right.eos
        return MaskReply(allowed, None, 0.0, 0.0, 0.0, 0.0)


def main() -> None:
    """Walk and print."""
    parser = argparse.ArgumentParser(prog="bench.coverage", description=__doc__)
    parser.add_argument("release", nargs="?", default=DEFAULT_RELEASE)
    release = parser.parse_args().release
    cache = Cache.default()
    build = prepare_build(release, cache, jobs=2, retry_failed=False, tell=OUT.print)
    entries = [*load_corpus(), *source_tree_grammars(build.tree, 60)]
    texts = {entry.name: entry.text for entry in entries if entry.group != "robustness"}
    whole = load_vocabulary(cache, [build.tree]).vocabulary
    for title, vocabulary in (("Qwen2.5", whole), ("synthetic vocabulary", synthetic_vocabulary())):
        OUT.print(coverage_table(title, texts, vocabulary))


def coverage_table(title: str, texts: dict[str, str], vocabulary: Vocabulary) -> Table:
    """Coverage in per cent by bound; a walk that ended by itself is marked."""
    columns = (f"{bound} states" for bound in BOUNDS)
    table = Table("grammar", "positions", *columns, title=f"coverage in %, {title} (* every state visited)")
    for name, text in texts.items():
        try:
            oracle = Oracle(text, vocabulary)
        except GrammarError:
            continue
        cells = []
        for bound in BOUNDS:
            result = walked(oracle, text, bound)
            assert result.coverage is not None
            share = result.coverage.reached / max(result.coverage.positions, 1)
            cells.append(f"{100 * share:.0f}{'*' if result.exhaustive else ''}")
        table.add_row(name, str(sum(oracle.network.terminal)), *cells)
    return table


def walked(oracle: Oracle, text: str, bound: int) -> Walk:
    """The audit's walk over a grammar."""
    result = Walk()
    ends = np.zeros(len(oracle.vocabulary), dtype=np.bool_)
    ends[list(oracle.end_tokens)] = True
    client = cast(LibllamaClient, Faithful(oracle))
    for _ in walk(oracle, client, text, Ends(ends, ends), states=bound, keep_every=1_000_000, result=result):
        pass
    return result


if __name__ == "__main__":
    main()
