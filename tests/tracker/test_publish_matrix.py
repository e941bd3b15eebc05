"""Which releases are audited tonight: those that a run would not call current."""

from __future__ import annotations

from pathlib import Path

import builders
import pytest

from tracker import pipeline
from tracker.build import BuildError
from tracker.cache import Cache
from tracker.config import load_config, parse_config
from tracker.publish.matrix import Job, pending
from tracker.results import AuditName
from tracker.store import Store

RELEASE = "llama-cpp-python==0.3.36"
JOB = Job("llama-cpp-python-0.3.36", RELEASE)


@pytest.mark.build
def test_what_a_run_calls_current_is_not_planned_again(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan and the run must agree on the audit version, or every night would audit everything again."""
    root = load_config(Path(__file__).parents[2] / "builds.yaml")
    only = {"releases": parse_config(f"releases: [{RELEASE}]").releases, "audits": (AuditName.GRAMMAR,)}
    config = root.model_copy(update=only)
    store = Store(tmp_path)
    assert list(pending(config, store, cache)) == [JOB]

    def no_build(*_: object, **__: object) -> None:
        raise BuildError("no compiler")

    monkeypatch.setattr(pipeline, "make_build", no_build)
    run = pipeline.Run(config, store, cache, jobs=1, tell=lambda line: None)
    [(release, entry)] = run.releases()
    assert run.one(release, entry).state == "failed"
    assert list(pending(config, store, cache)) == [JOB], "a build that failed is tried again"

    written = store.read(JOB.id, AuditName.GRAMMAR)
    complete = builders.document(written.build, audit_version=written.audit_version)
    store.write(complete.model_copy(update={"vocabulary": written.vocabulary}))
    assert run.one(release, entry).state == "current"
    assert list(pending(config, store, cache)) == []


def test_a_release_that_cannot_be_had_is_planned_so_that_its_job_says_why(tmp_path: Path) -> None:
    config = parse_config(f"releases: ['path:{tmp_path}/no/such/tree']")
    [job] = pending(config, Store(tmp_path / "data"), Cache(tmp_path / "cache"))
    assert job.release == f"path:{tmp_path}/no/such/tree"
    assert job.id.startswith("path-")
