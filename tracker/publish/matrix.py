"""The audit jobs of a night: which releases have no current result, as GitHub Actions' matrix, and back.

It knows the shape of the matrix and its limit. Whether a result is current is the store's word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tracker.audits.grammar.version import audit_version
from tracker.cache import Cache
from tracker.config import Config, ReleaseEntry
from tracker.errors import TrackerError, UsageError
from tracker.pipeline import Selection, load_vocabulary, select_grammars
from tracker.releases import Release, parse_release
from tracker.releases.channels import expand, fetch
from tracker.results import AuditName
from tracker.store import Store

MAX_JOBS = 256
"""What GitHub Actions allows in one matrix."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]+")


@dataclass(frozen=True, slots=True)
class Job:
    """One audit job: an exact release, and the id that its build will have."""

    id: str
    release: str


class _Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,119}$")
    release: str = Field(max_length=500)


class _Matrix(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    include: tuple[_Job, ...] = Field(max_length=MAX_JOBS)


def pending(config: Config, store: Store, cache: Cache) -> Iterator[Job]:
    """A job for every listed release without a current result, in the configuration's order.

    A release whose source cannot be had is a job as well: the job will say why. Raises UsageError and
    ReleaseError when it cannot even be said which releases there are.
    """
    seen: set[str] = set()
    for entry in config.releases:
        for release in expand(entry.release, cache):
            if str(release) not in seen:
                seen.add(str(release))
                if job := _job(release, entry, config, store, cache):
                    yield job


def encode_matrix(jobs: Iterable[Job]) -> tuple[str, int]:
    """The matrix as one line of JSON, and the number of its jobs.

    What exceeds the limit waits for a later night.
    """
    include = [{"id": job.id, "release": job.release} for job in jobs][:MAX_JOBS]
    return json.dumps({"include": include}, separators=(",", ":")), len(include)


def decode_matrix(text: str) -> list[Job]:
    """The jobs in a matrix. Raises UsageError when it is none."""
    try:
        matrix = _Matrix.model_validate_json(text)
        jobs = [Job(job.id, str(parse_release(job.release))) for job in matrix.include]
    except (ValidationError, UsageError) as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"--planned: {problem}: give what `llama-tracker plan` has printed") from None
    if len({job.id for job in jobs}) != len(jobs):
        raise UsageError("--planned: two jobs have the same id: give what `llama-tracker plan` has printed")
    return jobs


def _job(release: Release, entry: ReleaseEntry, config: Config, store: Store, cache: Cache) -> Job | None:
    try:
        source = fetch(release, cache)
        states = entry.states or config.bounds.states
        selection = Selection(entry.grammars, states, config.corpus_folder)
        vocabulary = load_vocabulary(cache, [source.tree])
        version = audit_version(select_grammars(selection, source.tree), vocabulary.sha256)
    except UsageError:
        raise
    except TrackerError:
        return Job(_UNSAFE.sub("-", str(release).replace("==", "-")).strip("-.+_")[:120], str(release))
    if store.current(source.release.id, AuditName.GRAMMAR, version, vocabulary.sha256):
        return None
    return Job(source.release.id, str(release))
