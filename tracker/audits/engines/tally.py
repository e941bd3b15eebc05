"""What came of asking two parties the same questions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tracker.results import Control

SHOWN = 3
"""Mismatches that are told in full."""


class EngineGaveUp(Exception):
    """An engine refused a grammar or hit a limit of its own; says what it said, in one line."""


class Opinion(NamedTuple):
    """Whether some string of the language begins with some bytes, and whether they are one."""

    viable: bool
    member: bool


@dataclass
class Tally:
    """Counts of one comparison.

    ``pairs`` are questions (a grammar and a prefix of bytes or tokens) that both answered; ``decisions`` the
    yes-or-no answers in them: one a token, one for the end. ``explained`` counts mismatches by the documented
    fault of the other engine that predicts them exactly, ``gave_up`` grammars by what the engine said.
    ``own_text`` counts grammars that the other party read from the same text by a parser of its own.
    """

    name: str
    pairs: int = 0
    decisions: int = 0
    grammars: int = 0
    mismatches: list[str] = field(default_factory=list)
    explained: Counter[str] = field(default_factory=Counter)
    gave_up: Counter[str] = field(default_factory=Counter)
    own_text: int = 0

    def control(self, required: int) -> Control:
        """Passed when at least ``required`` pairs were compared and every mismatch is explained."""
        detail = (
            f"{self.pairs:,} (grammar, prefix) pairs of {self.grammars:,} grammars, "
            f"{self.decisions:,} answers, {len(self.mismatches)} mismatches"
        )
        if self.own_text:
            detail += f"; {self.own_text:,} grammars read from their own text there"
        if self.explained:
            detail += "; explained: " + ", ".join(f"{count} {why}" for why, count in self.explained.items())
        if self.gave_up:
            detail += "; gave up: " + ", ".join(f"{count} {why}" for why, count in self.gave_up.items())
        if self.pairs < required:
            detail += f"; too few: {required:,} are required"
        if self.mismatches:
            detail += "; " + "; ".join(self.mismatches[:SHOWN])
        return Control(
            name=f"cross-oracle: {self.name}",
            passed=self.pairs >= required and not self.mismatches,
            detail=detail,
            figures={
                "pairs": self.pairs,
                "answers": self.decisions,
                "grammars": self.grammars,
                "mismatches": len(self.mismatches),
                "explained": sum(self.explained.values()),
                "gave_up": sum(self.gave_up.values()),
                "own_text": self.own_text,
            },
        )
