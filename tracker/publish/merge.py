"""The results of a night put together: what was handed over goes into the store, what went wrong into the
log.

A result that says less than what is stored (untestable, a control failed) never replaces one that was
complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracker.publish.artifacts import Accepted, take_over
from tracker.publish.health import Problem
from tracker.publish.inspection import ArtifactError
from tracker.publish.matrix import Job
from tracker.results import Document
from tracker.store import Store, StoreError

PLAN = "plan"
"""Key of the problem that a night's plan was not made."""
HANDOVER = "handover"
"""Key of the problem that the folder of artifacts was refused as a whole."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of a night: the documents that are stored now, and the problems."""

    stored: tuple[Document, ...]
    problems: tuple[Problem, ...]


def merge(folder: Path, jobs: Sequence[Job], store: Store) -> Merged:
    """Stores what the jobs handed over in ``folder``. Raises OSError when the store cannot be written."""
    try:
        accepted = {item.build_id: item for item in take_over(folder, [job.id for job in jobs])}
    except ArtifactError as error:
        return Merged((), (Problem(HANDOVER, str(error), grave=True),))
    stored: list[Document] = []
    problems: list[Problem] = []
    for job in jobs:
        item = accepted.get(job.id, Accepted(job.id))
        for document in item.documents:
            if document.trustworthy or not _is_trustworthy(store, document):
                store.write(document)
                stored.append(document)
        if problem := _problem(job, item):
            problems.append(problem)
    return Merged(tuple(stored), tuple(problems))


def _problem(job: Job, item: Accepted) -> Problem | None:
    if item.refused is not None:
        return Problem(job.id, f"what the audit job handed over was refused: {item.refused}", grave=True)
    if not item.documents:
        return Problem(job.id, f"the audit job of {job.release} ended without a result; see its log")
    for document in item.documents:
        failed = next((control for control in document.controls if not control.passed), None)
        if failed is not None:
            return Problem(job.id, f"control {failed.name} failed: {failed.detail}", grave=True)
        if not document.trustworthy:
            return Problem(job.id, document.reason or "no control was run")
    return None


def _is_trustworthy(store: Store, document: Document) -> bool:
    try:
        return store.read(document.build.id, document.audit).trustworthy
    except StoreError:
        return False
