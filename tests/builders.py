"""Builders of documents for tests of history, watches, reports and the publisher.

They make what an audit makes, with totals and digests computed by the same rule, from as few words as a test
needs to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from tracker.results import (
    BuildIdentity,
    Cause,
    Control,
    Coverage,
    Deviation,
    Escape,
    GrammarDocument,
    GrammarResult,
    Kind,
    Prediction,
    VocabularyIdentity,
    tally,
)

AUDIT_VERSION = hashlib.sha256(b"audit version of the builders").hexdigest()
VOCABULARY = VocabularyIdentity(
    name="qwen2.5", sha256=hashlib.sha256(b"vocabulary").hexdigest(), tokens=151_936
)
PASSED = (
    Control(name="positive", passed=True, detail="432 of 432 both ways", figures={"recall": 1.0}),
    Control(name="null", passed=True, detail="45 of 360 states asked again: identical"),
)

MINIMAL = 'root ::= ("\\u4e16" | "\\U0001F600")\n'
"""The smallest grammar that shows the hole after F0."""

_FIRST_DAY = datetime(2025, 1, 1, tzinfo=UTC)


def build(
    version: str = "0.3.36",
    *,
    day: int | None = 0,
    number: int | None = None,
    channel: str = "llama-cpp-python",
    patch: str | None = None,
) -> BuildIdentity:
    """A build of a release; ``day`` counts from the first of January 2025, None is no date."""
    name = f"{channel}-{version}"
    return BuildIdentity(
        id=name,
        channel=channel,
        version=version,
        commit=hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest(),
        build_number=number,
        date=None if day is None else (_FIRST_DAY + timedelta(days=day)).isoformat(),
        date_of="unknown" if day is None else "commit",
        source_sha256=hashlib.sha256(name.encode()).hexdigest(),
        patch=patch,
    )


def deviation(
    prefix: str = "f0",
    tokens: Sequence[str] = ("84",),
    *,
    kind: Kind = Kind.UNSOUND,
    cause: Cause = Cause.OVERLONG,
    mid: bool = True,
    escape: Escape | None = None,
    detail: str = "",
) -> Deviation:
    """A deviation of the grammar audit; prefix and tokens in hex. Ids of tokens are made up."""
    return Deviation(
        kind=kind,
        cause=cause,
        mid_code_point=mid,
        prefix=prefix,
        path=tuple(bytes.fromhex(prefix)),
        tokens=tuple(tokens),
        token_ids=tuple(1000 + index for index in range(len(tokens))),
        escape=escape,
        detail=detail,
    )


def escape(
    output: str = "f084b896", *, outcome: str = "end-of-generation", well_formed: bool = False
) -> Escape:
    """What following a hole led to; the output in hex, one token a byte."""
    return Escape.model_validate(
        {
            "outcome": outcome,
            "bytes": output,
            "path": tuple(bytes.fromhex(output)),
            "well_formed": well_formed,
            "explored": 3,
        }
    )


def grammar(
    name: str = "minimal",
    *deviations: Deviation,
    text: str = MINIMAL,
    states: int = 12,
    exhaustive: bool = True,
    visited: Sequence[str] | None = None,
    published: bool = False,
    untestable: str | None = None,
    origin: Literal["corpus", "source-tree", "file"] = "corpus",
    notes: Sequence[str] = (),
) -> GrammarResult:
    """What an audit found of one grammar; ``untestable`` is the reason for it."""
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    totals, digests = tally(name, sha256, deviations)
    return GrammarResult(
        name=name,
        sha256=sha256,
        status="untestable" if untestable else "complete",
        reason=untestable,
        totals=totals,
        digests=digests,
        notes=tuple(notes),
        text=text,
        origin=origin,
        published=published,
        states=states,
        exhaustive=exhaustive,
        left=0 if exhaustive else 40,
        bound=None if exhaustive else f"{states} states",
        start_tokens=2,
        coverage=Coverage(positions=4, reached=4),
        visited=None if visited is None else tuple(sorted(visited)),
        deviations=deviations,
    )


def prediction(code_point: int = 0x4E16, *, observed: Sequence[str] | None = None) -> Prediction:
    """A row of the predictive table, exact unless other tokens are said to have been observed."""
    predicted = (f"{0x80 | code_point >> 12:02x}",)
    seen = predicted if observed is None else tuple(observed)
    return Prediction(
        code_point=f"U+{code_point:04X}",
        grammar=f'root ::= ("\\u{code_point:04x}" | "\\U0001F600")',
        prefix="f0",
        predicted=predicted,
        observed=seen,
        exact=predicted == seen,
    )


def document(
    identity: BuildIdentity | None = None,
    *grammars: GrammarResult,
    audit_version: str = AUDIT_VERSION,
    controls: Sequence[Control] = PASSED,
    predictions: Sequence[Prediction] = (),
) -> GrammarDocument:
    """A complete document; with no grammar given, one with the minimal grammar and its hole."""
    return GrammarDocument(
        audit_version=audit_version,
        build=identity or build(),
        vocabulary=VOCABULARY,
        controls=tuple(controls),
        grammars=grammars or (grammar("minimal", deviation()),),
        predictions=tuple(predictions),
    )


def untestable(
    identity: BuildIdentity | None = None,
    reason: str = "the build failed: error: no member named 'x'",
    *,
    audit_version: str = AUDIT_VERSION,
) -> GrammarDocument:
    """A document without a result."""
    return GrammarDocument(
        audit_version=audit_version,
        build=identity or build(),
        vocabulary=VOCABULARY,
        status="untestable",
        reason=reason,
    )
