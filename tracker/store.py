"""``reports/data/<build id>/<audit>.json``: documents on disk.

It knows where a document lies, how it is written so that equal results are equal bytes, and which files it
can read. It does not know what is in a document beyond what says which one it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

from pydantic import ValidationError

from tracker.atomic import sweep, write_atomic
from tracker.errors import TrackerError
from tracker.results import SCHEMA, AuditName, Document, GrammarDocument
from tracker.results.gguf import GgufDocument
from tracker.results.sampler import SamplerDocument

Raw = dict[str, Any]

MIGRATIONS: Mapping[int, Callable[[Raw], Raw]] = {}
"""By schema version: what makes a raw document of that version one of the next."""

_BUILD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,119}")


class StoreError(TrackerError):
    """A stored document cannot be read, or cannot be stored under its name."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which document: one build, one audit."""

    build_id: str
    audit: AuditName


def document_type(audit: AuditName) -> type[Document]:
    """The model of an audit's documents."""
    match audit:
        case AuditName.GRAMMAR:
            return GrammarDocument
        case AuditName.SAMPLER:
            return SamplerDocument
        case AuditName.GGUF:
            return GgufDocument
        case _:
            assert_never(audit)


@dataclass(frozen=True, slots=True)
class Store:
    """The documents below a folder; the folder need not exist before the first write."""

    root: Path

    def path(self, build_id: str, audit: AuditName) -> Path:
        """Where a document lies. Raises StoreError for an id that is no file name."""
        if not _BUILD_ID.fullmatch(build_id):
            raise StoreError(
                f"build id {build_id[:80]!r}: is no safe file name: letters, digits, '._+-' only"
            )
        return self.root / build_id / f"{audit}.json"

    def write(self, document: Document) -> bool:
        """Store a document; False when the very same bytes were there already. Raises StoreError, OSError."""
        return write_atomic(self.path(document.build.id, document.audit), encode(document))

    def read(self, build_id: str, audit: AuditName) -> Document:
        """A stored document. Raises StoreError when it is missing, corrupt or of a newer schema."""
        path = self.path(build_id, audit)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise StoreError(f"{path}: there is no such result: audit {build_id} first") from None
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}: cannot be read") from None
        document = decode(content, audit, str(path))
        if document.build.id != build_id:
            raise StoreError(
                f"{path}: is the result of {document.build.id[:80]!r}: remove it, and audit again"
            )
        return document

    def keys(self, audit: AuditName | None = None) -> list[Key]:
        """What there is, by build id and audit; files that no document is called by are left out."""
        wanted = list(AuditName) if audit is None else [audit]
        return sorted(
            Key(folder.name, name)
            for folder in (self.root.iterdir() if self.root.is_dir() else ())
            if _BUILD_ID.fullmatch(folder.name)
            for name in wanted
            if (folder / f"{name}.json").is_file()
        )

    def documents(self, audit: AuditName | None = None) -> Iterator[Document]:
        """All documents, one at a time, in the order of ``keys``. Raises StoreError at the first bad one."""
        for key in self.keys(audit):
            yield self.read(key.build_id, key.audit)

    def current(
        self, build_id: str, audit: AuditName, audit_version: str, vocabulary_sha256: str | None
    ) -> bool:
        """Whether there is a result that another audit of the same kind would only repeat.

        A result without verdicts (untestable, a control failed) is none, nor is a file that cannot be read.
        """
        try:
            document = self.read(build_id, audit)
        except StoreError:
            return False
        vocabulary = document.vocabulary.sha256 if document.vocabulary else None
        same = document.audit_version == audit_version and vocabulary == vocabulary_sha256
        return same and document.trustworthy

    def remove(self, key: Key) -> None:
        """Forget a document, and its build's folder with the last one."""
        path = self.path(key.build_id, key.audit)
        path.unlink(missing_ok=True)
        if path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()

    def sweep(self) -> list[Path]:
        """Remove what killed writers have left; says which files."""
        folders = [folder for folder in self.root.iterdir() if folder.is_dir()] if self.root.is_dir() else []
        return [path for folder in sorted(folders) for path in sweep(folder)]


def encode(document: Document) -> bytes:
    """The bytes of a document: JSON, keys sorted, one value a line except for lists of plain values."""
    lines: list[str] = []
    _lay_out(document.model_dump(mode="json"), "", "", "", lines)
    return ("\n".join(lines) + "\n").encode("ascii")


def _lay_out(value: Any, indent: str, before: str, after: str, lines: list[str]) -> None:
    # One line for each value that can change by itself: diffs of committed results stay readable. Lists of
    # plain values (tokens) stay on one, or the files would be mostly line ends.
    inner = indent + " "
    if isinstance(value, dict) and value:
        lines.append(f"{indent}{before}{{")
        last = len(value) - 1
        for position, key in enumerate(sorted(value)):
            _lay_out(value[key], inner, f"{json.dumps(key)}: ", "," if position < last else "", lines)
        lines.append(f"{indent}}}{after}")
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        lines.append(f"{indent}{before}[")
        last = len(value) - 1
        for position, item in enumerate(value):
            _lay_out(item, inner, "", "," if position < last else "", lines)
        lines.append(f"{indent}]{after}")
    else:
        lines.append(f"{indent}{before}{json.dumps(value)}{after}")


def decode(
    content: bytes,
    audit: AuditName,
    name: str,
    migrations: Mapping[int, Callable[[Raw], Raw]] = MIGRATIONS,
) -> Document:
    """The document that bytes hold; ``name`` is what errors call the file. Raises StoreError."""
    model = document_type(audit)
    try:
        document = model.model_validate_json(content)
        if document.schema_version == SCHEMA:
            return document
    except ValidationError:
        pass
    # The straight way failed: find out why, or bring an older document up to date.
    raw = _raw(content, name)
    version = raw.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise StoreError(f"{name}: has no schema_version: not a result of llama-tracker; remove it")
    if version > SCHEMA:
        raise StoreError(
            f"{name}: written with schema {version}, this program knows {SCHEMA}: use a newer llama-tracker"
        )
    while version < SCHEMA:
        if version not in migrations:
            raise StoreError(f"{name}: schema {version} is too old to read: remove it, and audit again")
        raw = migrations[version](raw)
        version += 1
        raw["schema_version"] = version
    try:
        return model.model_validate_json(json.dumps(raw))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "document"
        problem = " ".join(first["msg"].split())
        raise StoreError(f"{name}: {key}: {problem}: corrupt; remove it, and audit again") from None


def _raw(content: bytes, name: str) -> Raw:
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise StoreError(f"{name}: is not JSON ({problem}): corrupt; remove it, and audit again") from None
    if not isinstance(raw, dict):
        raise StoreError(f"{name}: is no document: corrupt; remove it, and audit again")
    return raw
