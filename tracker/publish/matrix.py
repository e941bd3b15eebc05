"""The audit jobs of a night: which releases have no current result, as GitHub Actions' matrix, and back.

It knows the shape of the matrix and its limit. Whether a result is current is the store's word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tracker.cache import Cache
from tracker.config import Config, ReleaseEntry
from tracker.errors import TrackerError, UsageError
from tracker.pipeline import Run
from tracker.releases import Release, parse_release
from tracker.releases.channels import fetch
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
    run = Run(config, store, cache, jobs=1, tell=lambda line: None)
    for release, entry in run.releases():
        if job := _job(release, entry, run, cache):
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


def _job(release: Release, entry: ReleaseEntry, run: Run, cache: Cache) -> Job | None:
    try:
        source = fetch(release, cache)
        pending = run.pending(source, entry)
    except UsageError:
        raise
    except TrackerError:
        return Job(_UNSAFE.sub("-", str(release).replace("==", "-")).strip("-.+_")[:120], str(release))
    return Job(source.release.id, str(release)) if pending else None
