"""Takes over what the audit jobs hand over, and nothing else.

The jobs that made these files ran upstream code, so the files are taken as written by an enemy: names, links,
sizes and structure are checked here, what a document says by ``inspection``.

Layout: ``<folder>/audit-<build id>/<build id>/<audit>.json``: a store of one build in each artifact.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tracker.publish.inspection import ArtifactError, inspect
from tracker.results import SCHEMA, AuditName, Document
from tracker.store import StoreError, document_type

MAX_FILE = 64 * 2**20
"""Bytes of one document. The largest real ones are a few megabytes."""
MAX_TOTAL = 512 * 2**20


@dataclass(frozen=True, slots=True)
class Accepted:
    """What came from one audit job: its documents, or why all of it was refused."""

    build_id: str
    documents: tuple[Document, ...] = ()
    refused: str | None = None


def take_over(folder: Path, build_ids: Sequence[str]) -> Iterator[Accepted]:
    """What the expected audit jobs handed over, in the order of ``build_ids``; some may have nothing.

    A job's files are accepted together or not at all. Raises ArtifactError when the folder itself is not as
    ``download-artifact`` leaves it, for example when there is an artifact that nobody planned.
    """
    expected = {f"audit-{build_id}": build_id for build_id in build_ids}
    if not folder.is_dir() or folder.is_symlink():
        return
    entries = {entry.name: entry for entry in sorted(folder.iterdir())}
    if strange := next((name for name in entries if name not in expected), None):
        raise ArtifactError(
            f"{folder.name}: unplanned artifact {strange[:80]!r}; nothing of this run was taken over"
        )
    if sum(_size(path) for entry in entries.values() for path in _below(entry)) > MAX_TOTAL:
        raise ArtifactError(f"{folder.name}: more than {MAX_TOTAL} bytes; nothing of this run was taken over")
    for name, build_id in expected.items():
        if name not in entries:
            continue
        try:
            yield Accepted(build_id, tuple(_documents(entries[name], build_id)))
        except ArtifactError as error:
            yield Accepted(build_id, refused=str(error))


def check_document(raw: bytes, audit: AuditName, build_id: str) -> Document:
    """The document in ``raw``. Raises ArtifactError, one line, when it is not one of that build and audit."""
    try:
        document = document_type(audit).model_validate_json(raw)
    except StoreError as error:
        raise ArtifactError(str(error)) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:80] or "document"
        raise ArtifactError(f"{where}: {first['msg'][:120]}".replace("\n", " ")) from None
    if document.schema_version != SCHEMA:
        raise ArtifactError(f"schema_version is {document.schema_version}, expected {SCHEMA}")
    if document.build.id != build_id:
        raise ArtifactError(f"it is about {document.build.id[:80]!r}")
    inspect(document)
    return document


def _documents(artifact: Path, build_id: str) -> Iterator[Document]:
    folder = artifact / build_id
    for path in (artifact, *([folder] if folder.exists() else [])):
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise ArtifactError(f"{path.name} is no folder")
    if strange := next((path.name for path in sorted(artifact.iterdir()) if path.name != build_id), None):
        raise ArtifactError(f"{artifact.name}/{strange[:80]!r}: not the name of its build")
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        where = f"{artifact.name}/{path.name[:80]}"
        if path.name not in {f"{audit}.json" for audit in AuditName}:
            raise ArtifactError(f"{where!r}: not the name of an audit's result")
        if not stat.S_ISREG(path.lstat().st_mode):
            raise ArtifactError(f"{where}: not a regular file")
        if path.lstat().st_size > MAX_FILE:
            raise ArtifactError(f"{where}: {path.lstat().st_size} bytes, at most {MAX_FILE} are accepted")
        try:
            yield check_document(path.read_bytes(), AuditName(path.stem), build_id)
        except ArtifactError as error:
            raise ArtifactError(f"{where}: {error}") from None


def _below(path: Path) -> Iterator[Path]:
    if path.is_symlink() or not path.is_dir():
        yield path
        return
    for child in path.iterdir():
        yield from _below(child)


def _size(path: Path) -> int:
    return path.lstat().st_size
