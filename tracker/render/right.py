"""What the oracle says is right after some bytes: for the page that explains a deviation.

It knows grammars as text and outputs as bytes; no vocabulary, so that a grammar with token terminals has no
answer here.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np

from oracle import OracleError, gbnf, lowering
from oracle.automaton import DEAD, Automaton


class Right(NamedTuple):
    """The bytes that may come next, as hex ranges (``90-bf``), and whether the output may end here.

    ``viable`` is false when no string of the grammar begins with the output at all.
    """

    next_bytes: tuple[str, ...]
    may_end: bool
    viable: bool


class RightBytes:
    """Answers for one grammar text; it is parsed on the first question."""

    def __init__(self, text: str):
        self._text = text
        self._automaton: Automaton | None = None
        self._asked = False

    def after(self, output: bytes) -> Right | None:
        """What is right after an output; None for a text that the oracle has no automaton for."""
        if not self._asked:
            self._asked = True
            try:
                self._automaton = Automaton(lowering.lower(gbnf.parse(self._text)))
            except (OracleError, RecursionError):
                self._automaton = None
        automaton = self._automaton
        if automaton is None:
            return None
        state = automaton.step(automaton.start, output)
        if state == DEAD:
            return Right((), False, False)
        allowed = np.flatnonzero(automaton.row(state) != DEAD).tolist()
        runs = [[byte for _, byte in run] for _, run in groupby(enumerate(allowed), lambda p: p[1] - p[0])]
        return Right(tuple(_range(run[0], run[-1]) for run in runs), automaton.accepting[state], True)


def _range(low: int, high: int) -> str:
    return f"{low:02x}" if low == high else f"{low:02x}-{high:02x}"
