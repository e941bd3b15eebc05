"""How upstream's parser is known to read a text that it accepts with another meaning.

The tree is taken from our parser and changed where upstream differs, so that what follows from it can be told
from what does not: a deviation that the other reading explains has the cause ``parser``.
"""

from __future__ import annotations

from dataclasses import replace

from oracle.gbnf import Characters, Grammar, Node, Repeat, Sequence

LARGEST_BOUND = 2000
"""A maximum above it is dropped (since b10286; older builds refuse such a text, or keep the bound)."""


def upstream_reading(grammar: Grammar) -> Grammar | None:
    """The grammar as upstream reads it, or None when that is the same one."""
    nodes = tuple(_as_read(node) for node in grammar.nodes)
    return None if nodes == grammar.nodes else replace(grammar, nodes=nodes)


def _as_read(node: Node) -> Node:
    match node:
        case Characters(bare=True):
            # ``[]`` and ``[^]`` add no element to the sequence that they stand in.
            return Sequence(())
        case Repeat(maximum=int(maximum)) if maximum > LARGEST_BOUND:
            return replace(node, maximum=None)
        case _:
            return node
