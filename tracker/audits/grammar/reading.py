"""How upstream's parser is known to read a text that it accepts with another meaning.

The tree is taken from our parser and changed where upstream differs, so that what follows from it can be told
from what does not: a deviation that the other reading explains has the cause ``parser``.
"""

from __future__ import annotations

from dataclasses import replace

from oracle.gbnf import Characters, Grammar, Node, Repeat, Sequence
from oracle.mask import Oracle
from tracker.audits.grammar.compare import Reading

LARGEST_BOUND = 2000
"""A maximum above it is dropped (since b10286; older builds refuse such a text, or keep the bound)."""

REMEMBERED_MASKS = 16
"""A mask is asked for a few times while its state is compared; 4,096 of them would be 620 MB."""


def reading_of(oracle: Oracle) -> Reading:
    """What is known of how upstream reads the grammar of an oracle."""
    notes = [str(warning) for warning in oracle.grammar.warnings]
    as_read = upstream_reading(oracle.grammar)
    return Reading(
        surrogates=any("is a surrogate" in note for note in notes),
        beyond=any("lies beyond U+10FFFF" in note for note in notes),
        other=None
        if as_read is None
        else Oracle(as_read, oracle.vocabulary, end_tokens=oracle.end_tokens, remember=REMEMBERED_MASKS),
    )


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
