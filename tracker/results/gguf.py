"""The document of the GGUF audit: what is written to disk of one build's readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from tracker.results import AuditName, Document, Finding, Kind, SubjectResult

BY_CAUSE = frozenset({Kind.CRASH, Kind.HANG, Kind.OOM, Kind.REFUSES_VALID, Kind.SANITIZER})
"""Kinds whose cause comes from the build and tells findings apart; for others the field does as well."""


class GgufFinding(Finding):
    """One (kind, cause, field) of one reader, with the smallest file that shows it.

    ``kind`` says what came of it. ``cause`` is, for a death, the signal and the build's own last words; for a
    difference between verdicts, the rule of our reader; for a sanitizer, its report and the innermost frames.
    """

    field: str
    """Kind of the field that is broken in the smallest file (``tracker.audits.gguf.writer.FieldKind``)."""
    file: str
    """The smallest file in hex; at most 1 KiB."""
    files: int
    """How many of the audit's files show it. Not part of the identity."""
    digest: str
    """sha256 over the names of those files. Not part of the identity."""
    example: str
    """Name of the first of them, from which its bytes can be made again."""
    detail: str = ""
    """What the build said, one line, without paths and addresses. Not part of the identity."""
    stack: tuple[str, ...] = ()
    """For a sanitizer's report: functions and source files, innermost first."""

    def where(self) -> str:
        """The kind of field; empty where the cause says it all and the field is that of one example."""
        return "" if self.kind in BY_CAUSE else self.field

    def details(self) -> Sequence[str]:
        """One atom: what differs is kind, cause and place."""
        return ("",)


class GgufResult(SubjectResult):
    """What one of a build's readers did with the files made from one seed."""

    reader: Literal["directory", "data", "vocabulary", "sanitized"]
    seed: str
    files: int = 0
    outcomes: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Files by family and outcome: ``refused``, ``accepted``, ``crash``, ``hang``, ``memory``."""
    deviations: tuple[GgufFinding, ...] = ()

    def findings(self) -> Sequence[GgufFinding]:
        """The deviations."""
        return self.deviations


class GgufDocument(Document):
    """The result of the GGUF audit of one build."""

    audit: Literal[AuditName.GGUF] = AuditName.GGUF
    readers: tuple[GgufResult, ...] = ()

    @property
    def subjects(self) -> Sequence[GgufResult]:
        """One for each reader and seed."""
        return self.readers
