"""The sampler audit, of libraries that are the reference with or without faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from sampler_fakes import ANCIENT, MID, NEW, OLD, ReferenceClient, identity

from oracle.sampling import Candidates, Generation
from oracle.sampling.chain import Factory
from oracle.sampling.selection import DistSampler
from oracle.sampling.shaping import TempSampler
from oracle.sampling.truncation import TopKSampler
from tracker.audits.sampler import text
from tracker.audits.sampler.audit import SUBJECTS, audit_version, run_sampler_audit
from tracker.audits.sampler.cases import CHAIN, GRID, PARAMETERS, Budget
from tracker.audits.sampler.compare import Cause
from tracker.audits.sampler.controls import MUTANTS
from tracker.audits.sampler.draws import POINTS, THRESHOLD, distribution
from tracker.audits.sampler.logits import Random, ordinary
from tracker.audits.sampler.transitions import NotComparable, generation_changes
from tracker.results import Kind
from tracker.results.sampler import SamplerDocument

SMALL = Budget(vocabulary=300, ordinary=15, chains=60, draws=200, sequence=20, shrink=80)
TELLING = ("top_k", "dist", "top_n_sigma", "infill", CHAIN)
"""The samplers that generations differ in, and one that cannot be done."""


def audited(
    version: str,
    generation: Generation,
    faults: dict[str, Factory] | None = None,
    *,
    subjects: Sequence[str] = TELLING,
    budget: Budget = SMALL,
) -> SamplerDocument:
    client = ReferenceClient(generation, faults)
    return run_sampler_audit(client, identity(version), budget, subjects=subjects)


@pytest.fixture(scope="module")
def by_generation() -> dict[str, SamplerDocument]:
    return {generation.name: audited(generation.name, generation) for generation in (NEW, MID, OLD, ANCIENT)}


@pytest.mark.parametrize("name", ["new", "mid", "old", "ancient"])
def test_a_library_of_a_known_generation_has_no_findings(
    by_generation: dict[str, SamplerDocument], name: str
) -> None:
    document = by_generation[name]
    assert [finding for result in document.samplers for finding in result.deviations] == []
    assert document.trustworthy, [control for control in document.controls if not control.passed]


@pytest.mark.parametrize("name", ["new", "mid", "old", "ancient"])
def test_the_generation_is_recognised(by_generation: dict[str, SamplerDocument], name: str) -> None:
    results = {result.name: result for result in by_generation[name].samplers}
    assert results[CHAIN].fits == (name,)
    assert all(name in result.fits for result in results.values() if result.fits)


def test_every_sampler_has_a_row_and_one_that_cannot_be_done_says_why(
    by_generation: dict[str, SamplerDocument],
) -> None:
    results = {result.name: result for result in by_generation["new"].samplers}
    assert tuple(results) == TELLING
    assert set(SUBJECTS) >= {*PARAMETERS, "infill", CHAIN}
    assert results["infill"].status == "untestable"
    assert results["infill"].reason


def test_every_sampler_with_a_reference_has_a_mutant() -> None:
    assert {mutant.sampler for mutant in MUTANTS} == set(PARAMETERS)


def test_a_change_of_generation_names_the_samplers_and_shows_the_smallest_example(
    by_generation: dict[str, SamplerDocument],
) -> None:
    changes = {c.sampler: c for c in generation_changes(by_generation["mid"], by_generation["new"])}
    assert set(changes) == {"dist", "top_n_sigma", CHAIN}
    example = changes["dist"].example
    # A single candidate consumes a random number since: it takes two calls to see it.
    assert example is not None
    assert [step["sampler"] for step in example.chain] == ["dist"]
    assert len(example.calls) == 2
    assert any(len(runs) == 1 and runs[0][1] == 1 for runs in example.inputs)
    older = {c.sampler for c in generation_changes(by_generation["ancient"], by_generation["old"])}
    assert older == {"top_k", "top_n_sigma", CHAIN}


def test_the_changed_generation_is_a_difference_of_atoms(by_generation: dict[str, SamplerDocument]) -> None:
    def atoms(name: str) -> set[tuple[str, str]]:
        document = by_generation[name]
        return {(atom.subject, atom.detail) for r in document.samplers for _, atom in r.atoms()}

    assert atoms("new") - atoms("mid") == {("dist", "new"), ("top_n_sigma", "new"), (CHAIN, "new")}


def test_documents_of_different_questions_are_not_compared(by_generation: dict[str, SamplerDocument]) -> None:
    new = by_generation["new"]
    other = new.model_copy(update={"audit_version": audit_version(replace(SMALL, shrink=81), TELLING)})
    with pytest.raises(NotComparable, match="different versions"):
        generation_changes(new, other)
    assert audit_version(SMALL, TELLING) == new.audit_version
    assert audit_version(SMALL) != new.audit_version


def test_a_document_whose_controls_failed_is_not_compared(by_generation: dict[str, SamplerDocument]) -> None:
    new = by_generation["new"]
    broken = new.controls[0].model_copy(update={"passed": False})
    with pytest.raises(NotComparable, match="no verdict"):
        generation_changes(new, new.model_copy(update={"controls": (broken,)}))


class _LosesHighLogits(TopKSampler):
    """Takes a logit above 1000 for the lowest when more than 128 are wanted."""

    def apply(self, candidates):  # type: ignore[no-untyped-def]
        if self.k <= 128 or not (candidates.logits > 1000).any():
            return super().apply(candidates)
        shown = np.where(candidates.logits > 1000, -1e30, candidates.logits)
        order = np.argsort(-shown, kind="stable")[: self.k]
        return candidates.take(order, ordered=False)


def test_a_fault_is_found_and_shrunk_to_the_least_that_shows_it() -> None:
    budget = replace(SMALL, ordinary=60, shrink=600)
    faults: dict[str, Factory] = {"top_k": _LosesHighLogits}
    document = audited("faulty", NEW, faults, subjects=("top_k",), budget=budget)
    [found] = document.samplers
    [huge] = [f for f in found.deviations if f.cause == Cause.KEPT_SET and f.families == ("huge",)]
    example = huge.example
    assert example.chain == ({"sampler": "top_k", "k": 129},)
    numbers = {number for runs in example.inputs for number, _ in runs}
    assert sum(count for runs in example.inputs for _, count in runs) == 130
    assert len(numbers) == 2
    assert huge.kind is Kind.SAMPLER_DEVIATION
    assert found.totals["SAMPLER_DEVIATION"][Cause.KEPT_SET] >= 1


class _Sharper(DistSampler):
    """Draws from a distribution that is too sharp."""

    def running(self, e):  # type: ignore[no-untyped-def]
        return np.cumsum(e.astype(np.float64) ** 2)


def test_a_wrong_distribution_is_found_by_its_frequencies() -> None:
    budget = replace(SMALL, ordinary=5, draws=800, shrink=20)
    document = audited("sharper", NEW, {"dist": _Sharper}, subjects=("dist",), budget=budget)
    assert any(finding.cause == Cause.FREQUENCIES for finding in document.samplers[0].deviations)


def test_the_same_library_twice_gives_the_same_bytes() -> None:
    budget = replace(SMALL, ordinary=5, chains=3)
    faults: dict[str, Factory] = {"top_k": _LosesHighLogits}
    first, second = (audited("twice", OLD, faults, subjects=("top_k",), budget=budget) for _ in range(2))
    assert first.model_dump_json() == second.model_dump_json()


def test_a_document_survives_json(by_generation: dict[str, SamplerDocument]) -> None:
    document = by_generation["mid"]
    assert SamplerDocument.model_validate_json(document.model_dump_json()) == document


def test_numbers_that_json_has_no_name_for_are_written_out() -> None:
    class _Wrong(TempSampler):
        def apply(self, candidates: Candidates) -> Candidates:
            return candidates

    document = audited("wrong", NEW, {"temp": _Wrong}, subjects=("temp",), budget=replace(SMALL, shrink=0))
    written = {step["t"] for finding in document.samplers[0].deviations for step in finding.example.chain}
    assert all(isinstance(t, str) or np.isfinite(t) for t in written)
    assert SamplerDocument.model_validate_json(document.model_dump_json()) == document


def test_a_sampler_the_library_lacks_is_untestable_and_the_rest_is_done() -> None:
    client = ReferenceClient(NEW, without=frozenset({"adaptive_p"}))
    document = run_sampler_audit(client, identity("without"), SMALL, subjects=("adaptive_p", "greedy"))
    lacking, done = document.samplers
    assert lacking.reason == "this build has no such sampler"
    assert done.status == "complete"
    assert done.cases > 0


def test_the_table_has_a_row_a_sampler_and_a_column_a_release(
    by_generation: dict[str, SamplerDocument],
) -> None:
    header, rows = text.table([by_generation["mid"], by_generation["new"]])
    assert header == ["sampler", "mid", "new"]
    assert [row[0] for row in rows] == list(TELLING)
    assert {row[0]: row[1:] for row in rows}["dist"] == ["mid, exact", "new, exact"]


@pytest.mark.parametrize("point", POINTS)
def test_the_distribution_for_the_statistics_is_one(point: tuple[int, float, float, float]) -> None:
    logits = ordinary(Random(1), 50)
    probabilities = distribution(logits, *point)
    assert probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert np.argmax(probabilities) == np.argmax(logits)


def test_the_distribution_for_the_statistics_by_hand() -> None:
    # 1/2, 1/4, 1/8, 1/8: p = 0.7 keeps two; T = 1/2 squares their ratio to 4 : 1.
    logits = np.log(np.array([4, 2, 1, 1], np.float32))
    assert distribution(logits, 0, 0.7, 0.0, 0.5).tolist() == pytest.approx([0.8, 0.2, 0, 0], rel=1e-6)
    assert distribution(logits, 1, 1.0, 0.0, 1.0).tolist() == [1, 0, 0, 0]
    assert distribution(logits, 0, 1.0, 0.4, 1.0).tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0], rel=1e-6)
    assert distribution(logits, 0, 1.0, 0.0, 0.0).tolist() == [1, 0, 0, 0]


def test_the_family_wise_error_is_shared_out_over_all_tests() -> None:
    assert THRESHOLD * 2 * len(POINTS) == pytest.approx(1e-4)
    assert len(GRID) == 8
