"""Whether a document says only what an audit can say. Pure: a document in, an error or nothing out.

The document has the right structure already; here its identifiers, its texts and the arithmetic between its
parts are checked. Free text (a reason, a note, a grammar) may hold anything that fits in its length: that it
stays text is the renderers' part.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator

from pydantic import BaseModel

from tracker.errors import TrackerError
from tracker.results import Deviation, Document, GrammarDocument, GrammarResult, SubjectResult, tally

MAX_TEXT = 1_000_000
"""Characters of one text: a grammar of a source tree at the most."""
MAX_LINE = 2_000

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,119}")
_NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9_.+/-]{0,119}")
_SLUG = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,39}")
_VERSION = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_DATE = re.compile(r"[0-9T:Z.+-]{8,40}")
_CODE_POINT = re.compile(r"U\+[0-9A-F]{4,6}")
_ABRIDGED = re.compile(r".{200}\.\.\. \([0-9]+ characters\)", re.DOTALL)
"""A grammar too large to be kept whole; its digest cannot be checked here."""
_HEX = re.compile(r"(?:[0-9a-f]{2})*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ArtifactError(TrackerError):
    """What was handed over is not what an audit writes."""


def inspect(document: Document) -> None:
    """Raises ArtifactError, one line, for the first thing in the document that no audit would write."""
    for text, where in _texts(document, ""):
        if len(text) > MAX_TEXT:
            raise ArtifactError(f"{where}: {len(text)} characters, at most {MAX_TEXT} are accepted")
    build = document.build
    _must(_ID, build.id, "build.id")
    _must(_ID, build.channel, "build.channel")
    _must(_NAME, build.version, "build.version")
    _must(_HEX, build.commit or "", "build.commit")
    _must(_HEX, build.source_sha256 or "", "build.source_sha256")
    _must(_NAME, build.patch or "none", "build.patch")
    _must(_DATE, build.date or "0000-00-00", "build.date")
    _must(_VERSION, document.audit_version, "audit_version")
    _line(document.reason or "", "reason")
    if document.vocabulary:
        _must(_NAME, document.vocabulary.name, "vocabulary.name")
        _must(_SHA256, document.vocabulary.sha256, "vocabulary.sha256")
    for control in document.controls:
        _line(control.name, "controls.name")
        _line(control.detail, "controls.detail")
        for name, figure in control.figures.items():
            _line(name, "controls.figures")
            if not math.isfinite(figure):
                raise ArtifactError(f"controls.figures.{name}: not a finite number")
    names = [subject.name for subject in document.subjects]
    if len(names) != len(set(names)):
        raise ArtifactError("two subjects have the same name")
    for subject in document.subjects:
        _inspect_subject(subject)
    if isinstance(document, GrammarDocument):
        _inspect_predictions(document)


def _inspect_subject(subject: SubjectResult) -> None:
    """A subject's name and digest are well-formed, and its sums are those of its findings."""
    where = f"subject {subject.name[:60]!r}"
    _must(_NAME, subject.name, where)
    _must(_SHA256, subject.sha256, f"{where}: sha256")
    _line(subject.reason or "", f"{where}: reason")
    for note in subject.notes:
        _line(note, f"{where}: notes")
    if isinstance(subject, GrammarResult):
        digest = hashlib.sha256(subject.text.encode("utf-8", "surrogatepass")).hexdigest()
        if digest != subject.sha256 and not _ABRIDGED.fullmatch(subject.text):
            raise ArtifactError(f"{where}: sha256 is not that of its text")
        _line(subject.bound or "", f"{where}: bound")
        for place in subject.visited or ():
            _must(_HEX, place, f"{where}: visited")
    for finding in subject.findings():
        _must(_SLUG, finding.cause, f"{where}: cause")
        if isinstance(finding, Deviation):
            for value in (finding.prefix, *finding.tokens, finding.escape.bytes if finding.escape else ""):
                _must(_HEX, value, f"{where}: bytes in hex")
            _line(finding.detail, f"{where}: detail")
    totals, digests = tally(subject.name, subject.sha256, subject.findings())
    if subject.totals != totals or subject.digests != digests:
        raise ArtifactError(f"{where}: totals or digests are not those of its findings")


def _inspect_predictions(document: GrammarDocument) -> None:
    for prediction in document.predictions:
        _must(_CODE_POINT, prediction.code_point, "predictions.code_point")
        _line(prediction.grammar, "predictions.grammar")
        for value in (prediction.prefix, *prediction.predicted, *prediction.observed):
            _must(_HEX, value, "predictions")


def _texts(value: object, where: str) -> Iterator[tuple[str, str]]:
    """Every text in a model, with its place."""
    if isinstance(value, str):
        yield value, where
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _texts(getattr(value, name), f"{where}.{name}".lstrip("."))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{where}.{str(key)[:40]!r}")
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _texts(item, f"{where}.{index}")


def _must(pattern: re.Pattern[str], value: str, where: str) -> None:
    if not pattern.fullmatch(value):
        raise ArtifactError(f"{where}: {value[:60]!r} is not well-formed")


def _line(value: str, where: str) -> None:
    if len(value) > MAX_LINE or not value.isprintable():
        raise ArtifactError(f"{where}: not one line of at most {MAX_LINE} printable characters")
