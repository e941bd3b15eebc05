"""The GGUF audit on real builds: what is known of them is found, and the same build gives the same bytes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from oracle.gguf import GGUFError, parse_gguf
from tracker.audits.gguf.audit import LIMITS, Budget, files_of, run_gguf_audit
from tracker.audits.gguf.build_reader import CONTROLS, Outcome, OutcomeKind, Reader, outcomes
from tracker.audits.gguf.cases import cases
from tracker.audits.gguf.mutants import Family
from tracker.audits.gguf.own_reader import own_verdict
from tracker.audits.gguf.sanitized import sanitizer_options
from tracker.audits.gguf.sanitized_audit import run_sanitizer_audit
from tracker.audits.gguf.seeds import EXPERTS, seeds
from tracker.audits.gguf.writer import Description, write_gguf
from tracker.build import Build, BuildError, build_release
from tracker.cache import Cache
from tracker.libllama.client import LibllamaClient, RequestRefused
from tracker.releases import parse_release
from tracker.releases.channels import fetch
from tracker.results import Kind

SMALL = Budget(randoms=60, step=400, readers=(Reader.VOCABULARY,))


@pytest.fixture(scope="module")
def client_0_3_36(build_0_3_36: Build) -> Iterator[LibllamaClient]:
    with LibllamaClient(build_0_3_36, None, LIMITS) as client:
        yield client


@pytest.fixture(scope="module")
def client_0_3_16(build_0_3_16: Build) -> Iterator[LibllamaClient]:
    with LibllamaClient(build_0_3_16, None, LIMITS) as client:
        yield client


def outcome(client: LibllamaClient, reader: Reader, case: str) -> Outcome:
    return next(outcomes(client, reader, [cases()[case].data]))


def test_a_budget_s_step_thins_what_is_complete_otherwise() -> None:
    files = files_of(SMALL)
    families = [mutant.family for mutant in files]
    assert families.count(Family.SEED) == len(seeds())
    assert families.count(Family.CASE) == len(cases())
    assert families.count(Family.RANDOM) == 60
    length = sum(len(layout.data) for layout in seeds().values())
    assert families.count(Family.TRUNCATION) == -(-length // 400)


def test_our_reader_refuses_every_case_but_the_defensible_ones() -> None:
    accepted = [name for name, case in cases().items() if own_verdict(case.data).accepted]
    assert accepted == ["alignment-1", "token-twice", "end-token-beyond-vocabulary"]


def test_alignment_24_is_a_matter_of_policy() -> None:
    with pytest.raises(GGUFError) as caught:
        parse_gguf(cases()["alignment-24"].data)
    assert not caught.value.impossible


@pytest.mark.build
def test_deaths_of_all_kinds_are_survived_and_seen(client_0_3_36: LibllamaClient) -> None:
    for control, kind in CONTROLS.items():
        answers = list(outcomes(client_0_3_36, control, [b"GGUF"] * (1 if kind is OutcomeKind.HANG else 3)))
        assert {answer.kind for answer in answers} == {kind}
    seed = seeds()["directory"].data
    assert next(outcomes(client_0_3_36, Reader.DATA, [seed])).kind is OutcomeKind.ACCEPTED


@pytest.mark.build
def test_a_function_that_the_library_lacks_is_an_error_and_no_crash(client_0_3_36: LibllamaClient) -> None:
    with pytest.raises(RequestRefused):
        next(outcomes(client_0_3_36, "control-lack", [b"GGUF"]))


@pytest.mark.build
@pytest.mark.parametrize("reader", Reader)
def test_valid_seeds_are_accepted(
    client_0_3_36: LibllamaClient, client_0_3_16: LibllamaClient, reader: Reader
) -> None:
    files = [layout.data for layout in seeds().values()]
    for client in (client_0_3_36, client_0_3_16):
        assert {answer.kind for answer in outcomes(client, reader, files)} == {OutcomeKind.ACCEPTED}


@pytest.mark.build
@pytest.mark.parametrize(
    ("case", "reader", "kind"),
    [
        ("dimensions-2^62-0-2^62", Reader.DIRECTORY, OutcomeKind.CRASH),
        ("names-equal-up-to-nul", Reader.DATA, OutcomeKind.ACCEPTED),
        ("key-alignment-nul", Reader.DATA, OutcomeKind.ACCEPTED),
        ("alignment-24", Reader.DIRECTORY, OutcomeKind.REFUSED),
        ("alignment-1", Reader.DIRECTORY, OutcomeKind.ACCEPTED),
        ("token-twice", Reader.VOCABULARY, OutcomeKind.CRASH),
        ("token-twice", Reader.DATA, OutcomeKind.ACCEPTED),
        ("tensors-2^24", Reader.DIRECTORY, OutcomeKind.REFUSED),
        ("dimension-0", Reader.DIRECTORY, OutcomeKind.ACCEPTED),
        ("rank-0", Reader.DIRECTORY, OutcomeKind.ACCEPTED),
        ("nested-array", Reader.DIRECTORY, OutcomeKind.REFUSED),
        ("offsets-near-2^64", Reader.DIRECTORY, OutcomeKind.REFUSED),
    ],
)
def test_what_is_known_of_0_3_36(
    client_0_3_36: LibllamaClient, case: str, reader: Reader, kind: OutcomeKind
) -> None:
    assert outcome(client_0_3_36, reader, case).kind is kind


@pytest.mark.build
def test_what_is_known_of_0_3_16(client_0_3_16: LibllamaClient) -> None:
    division = outcome(client_0_3_16, Reader.DIRECTORY, "dimension-0")
    assert (division.kind, division.signal) == (OutcomeKind.CRASH, signal.SIGFPE)
    alignment = outcome(client_0_3_16, Reader.DIRECTORY, "alignment-as-int32")
    assert (alignment.kind, alignment.signal) == (OutcomeKind.CRASH, signal.SIGABRT)
    assert outcome(client_0_3_16, Reader.DIRECTORY, "tokens-2^32").kind is OutcomeKind.MEMORY


@pytest.mark.build
def test_the_audit_is_deterministic_and_its_smallest_files_show_their_finding(
    build_0_3_36: Build, client_0_3_36: LibllamaClient
) -> None:
    document, _ = run_gguf_audit(client_0_3_36, build_0_3_36, SMALL)
    with LibllamaClient(build_0_3_36, None, LIMITS) as fresh:
        again, _ = run_gguf_audit(fresh, build_0_3_36, SMALL)
    assert document.model_dump_json() == again.model_dump_json()
    assert document.trustworthy
    crashes = 0
    for result in document.readers:
        assert result.files == sum(sum(counts.values()) for counts in result.outcomes.values())
        for finding in result.deviations:
            data = bytes.fromhex(finding.file)
            assert len(data) <= 1024
            if finding.kind is Kind.CRASH:
                crashes += 1
                answer = next(outcomes(client_0_3_36, result.reader, [data]))
                assert answer.kind is OutcomeKind.CRASH
    assert crashes >= 2
    text = document.model_dump_json()
    assert str(build_0_3_36.folder) not in text
    assert "/proc/" not in text


@pytest.mark.build
def test_a_vocabulary_that_the_build_does_not_load_is_untestable_and_no_finding(
    build_0_3_36: Build, client_0_3_36: LibllamaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = write_gguf(Description((), EXPERTS.tensors))
    monkeypatch.setitem(seeds(), "experts", broken)
    document, _ = run_gguf_audit(client_0_3_36, build_0_3_36, replace(SMALL, randoms=7, step=900))
    (result,) = (result for result in document.readers if result.seed == "experts")
    assert (result.status, result.deviations) == ("untestable", ())
    assert result.reason is not None
    assert "error loading model" in result.reason


@pytest.mark.build
def test_a_build_without_sanitizers_is_refused(build_0_3_36: Build) -> None:
    with pytest.raises(BuildError):
        run_sanitizer_audit(build_0_3_36, SMALL)


@pytest.mark.extended
def test_sanitizers_report_the_same_twice(cache: Cache) -> None:
    source = fetch(parse_release("llama-cpp-python==0.3.36"), cache)
    build = build_release(source, cache=cache, options=sanitizer_options())
    document, _ = run_sanitizer_audit(build, SMALL)
    again, _ = run_sanitizer_audit(build, SMALL)
    assert document.model_dump_json() == again.model_dump_json()
    assert document.trustworthy
    causes = {f.cause for result in document.readers for f in result.deviations if f.kind is Kind.SANITIZER}
    assert any(cause.startswith("undefined: load of value N") for cause in causes)
