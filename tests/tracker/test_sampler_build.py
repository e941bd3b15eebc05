"""The sampler audit of real builds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from oracle.sampling import SPECIFICATIONS, to_json
from oracle.sampling import specification as s
from tracker.audits.grammar.audit import build_identity
from tracker.audits.sampler.audit import run_sampler_audit
from tracker.audits.sampler.case import Call, Case, Family
from tracker.audits.sampler.cases import CHAIN, INTERFACE, Budget
from tracker.audits.sampler.compare import Cause
from tracker.audits.sampler.run import Applied, Death, Refusal, observe
from tracker.audits.sampler.transitions import generation_changes
from tracker.build import Build
from tracker.libllama.client import LibllamaClient, RequestRefused, WorkerDied
from tracker.results import Kind
from tracker.results.sampler import SamplerDocument, SamplerFinding

pytestmark = pytest.mark.build

BUDGET = Budget(vocabulary=5000, ordinary=40, chains=40, draws=500, sequence=50, shrink=120)
LOOKED_AT = (
    "top_k", "top_p", "min_p", "temp", "dist", "top_n_sigma", "mirostat", "adaptive_p", CHAIN, INTERFACE,
)  # fmt: skip
"""The rows that the tests are about; all of them take three times as long."""


@pytest.fixture(scope="module")
def newest(build_0_3_36: Build) -> Iterator[LibllamaClient]:
    with LibllamaClient(build_0_3_36, None) as client:
        yield client


def audited(build: Build, subjects: Sequence[str] = LOOKED_AT) -> SamplerDocument:
    with LibllamaClient(build, None) as client:
        identity = build_identity(build.release, build.id)
        return run_sampler_audit(client, identity, BUDGET, subjects=subjects)


@pytest.fixture(scope="module")
def document_0_3_36(build_0_3_36: Build) -> SamplerDocument:
    return audited(build_0_3_36)


@pytest.fixture(scope="module")
def document_0_3_16(build_0_3_16: Build) -> SamplerDocument:
    return audited(build_0_3_16)


def found(
    document: SamplerDocument, subject: str, cause: Cause, family: Family | None = None
) -> list[SamplerFinding]:
    [result] = [result for result in document.samplers if result.name == subject]
    return [
        finding
        for finding in result.deviations
        if finding.cause == cause and (family is None or family in finding.families)
    ]


def test_the_controls_pass(document_0_3_36: SamplerDocument, document_0_3_16: SamplerDocument) -> None:
    for document in (document_0_3_36, document_0_3_16):
        assert [control for control in document.controls if not control.passed] == []


def test_ordinary_logits_deviate_nowhere_in_the_audited_chain(document_0_3_36: SamplerDocument) -> None:
    for name in ("top_k", "top_p", "min_p", "temp", "dist"):
        [result] = [result for result in document_0_3_36.samplers if result.name == name]
        usual = {Family.ORDINARY, Family.TIES, Family.GRID, Family.DRAWS, Family.REPEATED, Family.WIDE}
        assert [f for f in result.deviations if usual & set(f.families)] == []


def test_the_generations_are_recognised_and_the_change_is_named(
    document_0_3_16: SamplerDocument, document_0_3_36: SamplerDocument
) -> None:
    generations = {
        document.build.version: next(r.fits for r in document.samplers if r.name == CHAIN)
        for document in (document_0_3_16, document_0_3_36)
    }
    assert generations == {"0.3.16": ("old",), "0.3.36": ("new",)}
    changes = {change.sampler for change in generation_changes(document_0_3_16, document_0_3_36)}
    assert changes == {"top_p", "dist", "top_n_sigma", CHAIN}


# What is publicly known of 0.3.36; the search is not told.
@pytest.mark.parametrize(
    ("subject", "cause", "family"),
    [
        ("top_k", Cause.KEPT_SET, Family.INFINITE),
        ("top_k", Cause.KEPT_SET, Family.HUGE),
        ("top_k", Cause.KEPT_SET, Family.NAN),
        ("dist", Cause.UNDEFINED, Family.MASKED),
        (CHAIN, Cause.OVERFLOW, Family.EXTREME_PARAMETER),
        ("adaptive_p", Cause.STATE, Family.CLONE),
        ("adaptive_p", Cause.DIED, Family.CLONE),
        ("top_p", Cause.DIED, Family.EMPTY),
        (INTERFACE, Cause.DIED, Family.NOTHING),
    ],
)
def test_what_is_known_of_0_3_36_is_found(
    document_0_3_36: SamplerDocument, subject: str, cause: Cause, family: Family
) -> None:
    assert found(document_0_3_36, subject, cause, family)


def test_the_clone_of_mirostat_is_found_to_share_state_in_0_3_16_alone(
    document_0_3_16: SamplerDocument, document_0_3_36: SamplerDocument
) -> None:
    [finding] = found(document_0_3_16, "mirostat", Cause.STATE, Family.CLONE)
    assert any(call.startswith("clone") for call in finding.example.calls)
    assert not found(document_0_3_36, "mirostat", Cause.STATE)


def test_a_high_logit_is_lost_from_129_candidates_on(document_0_3_36: SamplerDocument) -> None:
    [finding] = found(document_0_3_36, "top_k", Cause.KEPT_SET, Family.HUGE)
    assert finding.example.chain == ({"sampler": "top_k", "k": 129},)


def test_deaths_carry_the_assertion_and_no_path(document_0_3_36: SamplerDocument) -> None:
    findings = [finding for result in document_0_3_36.samplers for finding in result.deviations]
    deaths = [finding for finding in findings if finding.kind is Kind.CRASH]
    assert any("GGML_ASSERT(cur_p->size > 0) failed" in finding.example.detail for finding in deaths)
    assert not any("/" in finding.example.detail for finding in deaths)


def test_the_same_build_twice_gives_the_same_bytes(build_0_3_36: Build) -> None:
    first, second = (audited(build_0_3_36, ("adaptive_p", INTERFACE)) for _ in range(2))
    assert first.model_dump_json() == second.model_dump_json()


def one(*chain: s.Specification, family: Family = Family.ORDINARY, logits: list[float]) -> Case:
    inputs = (np.array(logits, np.float32),)
    return Case(family=family, chain=chain, inputs=inputs, calls=((Call.APPLY, 0, 0),))


def test_every_sampler_of_the_header_is_there(newest: LibllamaClient) -> None:
    answer, _ = newest.request("sampler.available", {"samplers": list(SPECIFICATIONS)})
    assert answer["samplers"] == list(SPECIFICATIONS)


def test_candidates_come_back_from_where_the_sampler_put_them(newest: LibllamaClient) -> None:
    # xtc moves the start of the array.
    answer = observe(newest, one(s.Xtc(1.0, 0.3, 0, 1), logits=[1.0, 1.0, -9.0]))
    assert not isinstance(answer, Death | Refusal)
    [after] = answer
    assert isinstance(after, Applied)
    assert len(after.ids) == 2
    assert after.ids[1] == 2


@pytest.mark.parametrize("family", [Family.ORDINARY, Family.EMPTY], ids=["worker", "fork"])
def test_a_death_is_told_whether_or_not_it_was_foreseen(newest: LibllamaClient, family: Family) -> None:
    answer = observe(newest, one(s.TopP(0.5, 1), family=family, logits=[]))
    assert answer == Death(kind=answer.kind, how="SIGABRT: GGML_ASSERT(cur_p->size > 0) failed")  # type: ignore[union-attr]
    assert isinstance(observe(newest, one(s.TopP(0.5, 1), family=family, logits=[1.0])), list)


def test_a_death_in_a_fork_leaves_the_worker_alone(newest: LibllamaClient) -> None:
    observe(newest, one(s.Greedy(), logits=[1.0]))
    before = newest.pid
    observe(newest, one(s.TopP(0.5, 1), family=Family.EMPTY, logits=[]))
    assert newest.pid == before


def test_what_is_no_script_is_refused(newest: LibllamaClient) -> None:
    header, payload = one(s.Greedy(), logits=[1.0]).request()
    for handler in ("sampler.run", "sampler.isolated"):
        with pytest.raises(RequestRefused, match="no call"):
            newest.request(handler, {**header, "calls": [["shutdown", 0]]}, payload)
        with pytest.raises(RequestRefused, match="has no sampler"):
            newest.request(handler, {**header, "chain": [{"sampler": "psychic"}]}, payload)
        with pytest.raises(RequestRefused, match="without a chain"):
            twice = [to_json(s.Greedy())] * 2
            newest.request(handler, {**header, "bare": True, "chain": twice}, payload)


def test_a_sampler_that_an_older_release_lacks_is_a_refusal(build_0_3_16: Build) -> None:
    with LibllamaClient(build_0_3_16, None) as client:
        answer = observe(client, one(s.AdaptiveP(0.5, 0.9, 1), logits=[1.0]))
    assert answer == Refusal("the library has no sampler adaptive_p")


def test_a_death_without_a_fork_is_the_workers(newest: LibllamaClient) -> None:
    header, payload = one(s.TopP(0.5, 1), logits=[]).request()
    with pytest.raises(WorkerDied):
        newest.request("sampler.run", header, payload)
