"""The data model: everything that is written to ``reports/data`` or handed to a page.

It knows what a result is and how its identity is computed; it does not know where results are stored, how
they are ordered, or how they are shown. Nothing in here holds a time of day, a path or a host name: the same
build audited twice gives the same bytes.

Three audits share one shape. A *document* is the result of one audit of one build; it has *subjects* (a
grammar, a sampler, a family of GGUF mutants), each with *findings*. A finding is made of *atoms*, the
smallest things that can appear or go; two documents of one audit version are compared atom by atom.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1
"""Version of the document format. A document with a newer one is refused, an older one is migrated."""


class Model(BaseModel):
    """Base of all result types: immutable, and strict about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AuditName(StrEnum):
    """What was audited."""

    GRAMMAR = "grammar"
    SAMPLER = "sampler"
    GGUF = "gguf"


class Kind(StrEnum):
    """What is wrong, seen from outside."""

    UNSOUND = "UNSOUND"
    """A token is allowed that no string of the grammar continues with."""
    OVER_RESTRICTIVE = "OVER_RESTRICTIVE"
    """A viable token is masked."""
    EOS_UNSOUND = "EOS_UNSOUND"
    """End of generation is allowed after something that is no string of the grammar."""
    EOS_MISSING = "EOS_MISSING"
    """End of generation is masked after a whole string of the grammar."""
    CRASH = "CRASH"
    HANG = "HANG"
    OOM = "OOM"
    GRAMMAR_REJECTED = "GRAMMAR_REJECTED"
    """The build refuses a grammar that has a meaning."""
    GRAMMAR_ACCEPTED = "GRAMMAR_ACCEPTED"
    """The build accepts a text that it should have refused."""
    SAMPLER_DEVIATION = "SAMPLER_DEVIATION"
    """The chain's outcome is not the reference's of any known generation."""
    ACCEPTS_IMPOSSIBLE = "ACCEPTS_IMPOSSIBLE"
    """A reader accepts a file that cannot hold what it says."""
    REFUSES_VALID = "REFUSES_VALID"
    """A reader refuses a valid file."""
    SANITIZER = "SANITIZER"
    """A sanitizer reported undefined behaviour or a bad access."""
    POLICY = "POLICY"
    """Both verdicts are defensible; recorded, never a reason for alarm."""


class Cause(StrEnum):
    """Why, for findings of the grammar audit."""

    OVERLONG = "overlong"
    SURROGATE = "surrogate"
    BEYOND_UNICODE = "beyond-unicode"
    INVALID_LEAD = "invalid-lead"
    STRAY_CONTINUATION = "stray-continuation"
    BROKEN_SEQUENCE = "broken-sequence"
    NOT_IN_LANGUAGE = "not-in-language"
    """The bytes are well-formed UTF-8 and still no string of the grammar begins so: the most serious one."""
    NUL = "nul"
    EOG_TEXT = "eog-text"
    NEGATED_PARTIAL = "negated-partial"
    TOKEN_TERMINAL = "token-terminal"
    """A token terminal refuses a token because its bytes are not whole code points, or takes one half-way."""
    UNEXPLAINED = "unexplained"
    DIED = "died"
    """The library crashed, hung or ran out of memory."""
    PARSER = "parser"
    """The grammar's text is read differently."""


NEWS: frozenset[str] = frozenset({Cause.NOT_IN_LANGUAGE, Cause.UNEXPLAINED})
"""Causes that lead every report when their count is above zero."""


class Atom(NamedTuple):
    """The smallest thing that can appear or go between two results."""

    subject: str
    subject_sha256: str
    where: str
    kind: str
    cause: str
    detail: str


class Finding(Model):
    """One thing that is wrong with one subject."""

    kind: Kind
    cause: str
    mid_code_point: bool = False
    """Whether it belongs to the matching of partial code points."""

    def where(self) -> str:
        """The place inside the subject, part of the finding's identity."""
        raise NotImplementedError

    def details(self) -> Sequence[str]:
        """What can appear or go one by one at that place; at least one entry."""
        raise NotImplementedError


class Escape(Model):
    """What following only what the build allows leads to, after an unsound token.

    ``bytes`` is the whole output in hex, ``path`` the token ids that emit it. ``explored`` counts the states
    asked for, ``bounded`` says that the search stopped at its limit before it had an answer.
    """

    outcome: Literal["end-of-generation", "dead-end", "viable-again", "bound"]
    bytes: str
    path: tuple[int, ...]
    well_formed: bool
    explored: int


class Deviation(Finding):
    """A finding of the grammar audit: one (grammar, prefix, kind, cause) with its tokens.

    ``prefix`` is the output so far in hex, ``path`` the token ids it was made of, ``tokens`` the tokens'
    bytes in hex (empty for findings that are not about tokens), ``token_ids`` their ids in the same order.
    """

    prefix: str
    path: tuple[int, ...] = ()
    tokens: tuple[str, ...] = ()
    token_ids: tuple[int, ...] = ()
    escape: Escape | None = None
    detail: str = ""
    """For a death or a parser finding: one line with what was seen. Not part of the identity."""

    def where(self) -> str:
        """The output so far, in hex."""
        return self.prefix

    def details(self) -> Sequence[str]:
        """The tokens' bytes in hex, or one empty entry."""
        return self.tokens or ("",)


class SubjectResult(Model):
    """What an audit found of one subject."""

    name: str
    sha256: str
    """Of the subject's definition (a grammar's text), hex: a changed subject is another subject."""
    status: Literal["complete", "untestable"] = "complete"
    reason: str | None = None
    """Why it is untestable, one line."""
    totals: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Atoms by kind and cause."""
    digests: dict[str, dict[str, str]] = Field(default_factory=dict)
    """sha256 over the sorted atoms, by kind and cause (and ``+mid`` when inside a code point)."""
    notes: tuple[str, ...] = ()

    def findings(self) -> Sequence[Finding]:
        """The subject's findings, in a fixed order."""
        raise NotImplementedError

    @property
    def asked(self) -> bool:
        """Whether the build was asked about it at all."""
        return True

    def places(self) -> frozenset[str] | None:
        """The places (``Finding.where``) that were looked at, or None when it was all there are.

        Where an audit's way depends on the build, a finding is gone only when its place was looked at again.
        """
        return None

    def atoms(self) -> Iterator[tuple[Finding, Atom]]:
        """Every finding taken apart."""
        for finding in self.findings():
            for detail in finding.details():
                yield (
                    finding,
                    Atom(self.name, self.sha256, finding.where(), finding.kind, finding.cause, detail),
                )


class Coverage(Model):
    """How much of the grammar the walk has reached."""

    positions: int
    """Dotted positions of the grammar with a terminal behind the dot."""
    reached: int
    """Those among them that were reached at a token boundary."""


class GrammarResult(SubjectResult):
    """What the grammar audit found of one grammar."""

    text: str
    origin: Literal["corpus", "source-tree", "file"]
    published: bool = False
    """One of the eight grammars of the published result."""
    states: int = 0
    """States compared, each over the whole vocabulary."""
    exhaustive: bool = False
    """Every state reachable at a token boundary was compared: a proof for this vocabulary and build."""
    left: int = 0
    """States that were seen and not compared."""
    bound: str | None = None
    """What stopped the walk, when it is not exhaustive."""
    start_tokens: int | None = None
    """Viable tokens at the start, by the oracle."""
    coverage: Coverage | None = None
    visited: tuple[str, ...] | None = None
    """The output before each state that was compared, hex, sorted; None where those are all there are."""
    deviations: tuple[Deviation, ...] = ()

    def findings(self) -> Sequence[Finding]:
        """The deviations."""
        return self.deviations

    @property
    def asked(self) -> bool:
        """False for a grammar that only the oracle is controlled with."""
        return bool(self.states or self.exhaustive or self.deviations)

    def places(self) -> frozenset[str] | None:
        """The outputs before the states that were compared; None for all of them, or when not kept."""
        if not self.states:
            return frozenset()
        return None if self.visited is None or self.exhaustive else frozenset(self.visited)


class BuildIdentity(Model):
    """What was built: the same for everybody who builds that release."""

    id: str
    """Safe as a file name, for example ``llama-cpp-python-0.3.36``."""
    channel: str
    version: str
    commit: str | None = None
    build_number: int | None = None
    date: str | None = None
    """ISO 8601 with zone: the upstream commit's date, or else the release's (``date_of`` says which)."""
    date_of: Literal["commit", "upload", "unknown"] = "unknown"
    source_sha256: str | None = None
    patch: str | None = None
    """Name of the patch that was applied to the source."""


class VocabularyIdentity(Model):
    """The vocabulary that masks were computed over."""

    name: str
    sha256: str
    tokens: int


class Control(Model):
    """One check of the tracker itself. A document with a failed control carries no verdicts."""

    name: str
    passed: bool
    detail: str
    figures: dict[str, float | int] = Field(default_factory=dict)


class Prediction(Model):
    """One row of the predictive table: a three-byte alternative next to a four-byte one, after F0."""

    code_point: str
    grammar: str
    prefix: str
    predicted: tuple[str, ...]
    observed: tuple[str, ...]
    exact: bool


class Document(Model):
    """The result of one audit of one build."""

    schema_version: int = SCHEMA
    audit: AuditName
    audit_version: str
    """Hash of everything on our side that decides the outcome. Only equal versions are comparable."""
    build: BuildIdentity
    vocabulary: VocabularyIdentity | None = None
    status: Literal["complete", "untestable"] = "complete"
    reason: str | None = None
    """Why there is no result, one line (build failed, control failed, interrupted)."""
    controls: tuple[Control, ...] = ()

    @property
    def subjects(self) -> Sequence[SubjectResult]:
        """The subjects, in a fixed order."""
        raise NotImplementedError

    @property
    def trustworthy(self) -> bool:
        """Whether verdicts may be drawn: a complete audit whose controls were run and passed."""
        return self.status == "complete" and bool(self.controls) and all(c.passed for c in self.controls)


class GrammarDocument(Document):
    """The result of the grammar audit of one build."""

    audit: Literal[AuditName.GRAMMAR] = AuditName.GRAMMAR
    grammars: tuple[GrammarResult, ...] = ()
    predictions: tuple[Prediction, ...] = ()

    @property
    def subjects(self) -> Sequence[SubjectResult]:
        """The grammars."""
        return self.grammars


def tally(
    name: str, sha256: str, findings: Iterable[Finding]
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, str]]]:
    """Totals and digests of a subject's findings, for ``SubjectResult``.

    Returns:
        ``(totals, digests)``: atoms counted by kind and cause, and the sha256 over their sorted identities.
        The digest's cause carries ``+mid`` for findings inside a code point, so that a watch on those can be
        compared without reading the findings.
    """
    totals: dict[str, dict[str, int]] = {}
    lines: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        details = finding.details()
        by_cause = totals.setdefault(str(finding.kind), {})
        by_cause[finding.cause] = by_cause.get(finding.cause, 0) + len(details)
        key = (str(finding.kind), finding.cause + ("+mid" if finding.mid_code_point else ""))
        lines.setdefault(key, []).extend(
            "\0".join((name, sha256, finding.where(), finding.kind, finding.cause, detail))
            for detail in details
        )
    digests: dict[str, dict[str, str]] = {}
    for (kind, cause), identities in lines.items():
        digest = hashlib.sha256("\n".join(sorted(identities)).encode()).hexdigest()
        digests.setdefault(kind, {})[cause] = digest
    return totals, digests
