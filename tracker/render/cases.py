"""The case that says most with least, and its output traced byte by byte. Pure.

What is right at a place is asked of the oracle; what the build does is taken from the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from tracker.history import Strand
from tracker.render.right import Right, RightBytes
from tracker.render.words import byte_roles, spelled
from tracker.results import NEWS, Deviation, GrammarResult, Kind

MAX_TRACED = 16
"""Bytes of a trace; of a longer output the last ones."""

MAX_RANGES = 6


@dataclass(frozen=True, slots=True)
class Step:
    """One byte of an output: what came before, what might come, what came. ``right`` says whether it may."""

    so_far: str
    may_come: str
    byte: str
    role: str
    right: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """An output that ends wrongly, byte by byte.

    ``skipped`` counts bytes before the first step; ``ends`` says that the build reports it as complete.
    """

    steps: tuple[Step, ...]
    skipped: int
    ends: bool
    output: str
    spelled: str


@dataclass(frozen=True, slots=True)
class Case:
    """A grammar, a place in it, and what is wrong there. ``right`` is None when not known by bytes."""

    grammar: GrammarResult
    deviation: Deviation
    right: Right | None
    trace: Trace | None

    @property
    def may_come(self) -> str:
        """The right next bytes."""
        return next_bytes(self.right)


@lru_cache(maxsize=256)
def _oracle(text: str) -> RightBytes:
    return RightBytes(text)


def right_after(grammar: GrammarResult, prefix: str) -> Right | None:
    """What may come after an output, given in hex; None where the oracle gives no bytes."""
    return _oracle(grammar.text).after(bytes.fromhex(prefix))


def next_bytes(right: Right | None) -> str:
    """The bytes that may come, as ranges."""
    if right is None:
        return "not known by bytes"
    if not right.viable:
        return "nothing: no string of the grammar begins so"
    ranges = [item.upper().replace("-", "–") for item in right.next_bytes]
    more = f" and {len(ranges) - MAX_RANGES} more ranges" if len(ranges) > MAX_RANGES else ""
    shown = ", ".join(ranges[:MAX_RANGES]) + more
    if right.may_end:
        return f"{shown}, or the end" if shown else "only the end"
    return shown


def smallest_case(
    grammars: Iterable[GrammarResult], selected: Callable[[Strand], bool] = lambda _: True
) -> Case | None:
    """The case to begin with: news, then what ends wrongly, then published grammars, then the smallest."""
    found = [
        (grammar, deviation)
        for grammar in grammars
        for deviation in grammar.deviations
        if deviation.kind is not Kind.POLICY and selected(strand_of(grammar, deviation))
    ]
    if not found:
        return None
    grammar, deviation = min(found, key=lambda item: _size(*item))
    return case_of(grammar, deviation)


def case_of(grammar: GrammarResult, deviation: Deviation) -> Case:
    """A deviation with what is right at its place, and the trace of its escape."""
    return Case(grammar, deviation, right_after(grammar, deviation.prefix), _trace(grammar, deviation))


def strand_of(grammar: GrammarResult, deviation: Deviation) -> Strand:
    """The strand that a deviation belongs to."""
    return Strand(
        grammar.name, grammar.sha256, str(deviation.kind), deviation.cause, deviation.mid_code_point
    )


def _size(
    grammar: GrammarResult, deviation: Deviation
) -> tuple[bool, bool, bool, int, int, int, str, str, str]:
    escape = deviation.escape
    return (
        deviation.cause not in NEWS,
        escape is None or escape.outcome != "end-of-generation",
        not grammar.published,
        len(grammar.text),
        len(deviation.prefix),
        len(deviation.tokens),
        grammar.name,
        deviation.prefix,
        str(deviation.kind),
    )


def _trace(grammar: GrammarResult, deviation: Deviation) -> Trace | None:
    escape = deviation.escape
    if escape is None:
        return None
    output = bytes.fromhex(escape.bytes)
    skipped = max(0, len(output) - MAX_TRACED)
    steps = []
    for index, (byte, role) in enumerate(byte_roles(output)):
        if index < skipped:
            continue
        before = right_after(grammar, output[:index].hex())
        if before is None:
            return None
        after = right_after(grammar, output[: index + 1].hex())
        viable = after is not None and after.viable
        steps.append(Step(output[skipped:index].hex(), next_bytes(before), byte, role, viable))
    ends = escape.outcome == "end-of-generation"
    return Trace(tuple(steps), skipped, ends, escape.bytes, spelled(output))
