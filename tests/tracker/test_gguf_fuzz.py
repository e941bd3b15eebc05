"""The quick fuzz of our GGUF reader, and what the fuzz itself promises."""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice

import pytest

from oracle.gguf import GGUFFile, expert_map, parse_gguf
from tracker.audits.gguf.cases import cases
from tracker.audits.gguf.minimise import broken_fields, minimised, restored
from tracker.audits.gguf.mutants import (
    Family,
    boundaries,
    mutants,
    randoms,
    truncations,
    untouched,
    written_cases,
)
from tracker.audits.gguf.own_reader import complaint_about, fuzz, own_verdict
from tracker.audits.gguf.seeds import seeds
from tracker.audits.gguf.writer import FieldKind

QUICK = 2000


def test_no_file_of_the_quick_run_hurts_our_reader() -> None:
    report = fuzz(chain(untouched(), written_cases(), truncations(), randoms(QUICK)))
    assert report.violations == []
    assert report.files == 2 + len(cases()) + sum(len(layout.data) for layout in seeds().values()) + QUICK
    assert report.outcomes[Family.SEED, "accepted"] == 2
    assert report.outcomes[Family.TRUNCATION, "accepted"] == 0


def test_no_boundary_value_at_any_offset_of_the_directory_hurts_our_reader() -> None:
    assert [(mutant.name, what) for mutant in boundaries() if (what := complaint_about(mutant))] == []


@pytest.mark.extended
def test_no_file_of_the_full_run_hurts_our_reader() -> None:
    assert fuzz(mutants(20_000)).violations == []


def test_seeds_say_what_they_were_described_to_say() -> None:
    directory = parse_gguf(seeds()["directory"].data)
    assert directory.contiguous
    assert directory.strings("tokenizer.ggml.tokens")[3] == b"<0x0A>"
    assert directory.array("tokenizer.ggml.token_type").tolist() == [2, 3, 3, 6, 1, 1, 1, 1]
    (block,) = expert_map(parse_gguf(seeds()["experts"].data))
    assert (block.count, block.router is not None) == (2, True)


def test_fields_cover_each_byte_of_a_seed_once_and_hold_what_their_name_says() -> None:
    for layout in seeds().values():
        following = 0
        for field in layout.fields:
            assert field.offset == following
            following += field.size
        assert following == len(layout.data)
        file = parse_gguf(layout.data)
        for tensor in file.tensors.values():
            assert layout.field(f"{tensor.name}:data").offset == tensor.offset
        for key, value in file.metadata.items():
            type_field = layout.field(f"{key}:value-type")
            assert type_field.offset + type_field.size == value.offset


def test_boundary_values_are_those_asked_for_at_every_offset() -> None:
    layout = seeds()["experts"]
    count_at = layout.field("header:kv-count").offset
    assert layout.field("header:kv-count").kind is FieldKind.KV_COUNT
    values = {
        int.from_bytes(mutant.data[count_at : count_at + 8], "little")
        for mutant in boundaries()
        if mutant.name.startswith(f"experts/boundary/{count_at}/8/")
    }
    assert values == {0, 1, 2, 4, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1}
    offsets = {
        (mutant.seed, int(mutant.name.split("/")[2])) for mutant in boundaries() if "/4/" in mutant.name
    }
    assert offsets == {(seed, at) for seed, layout in seeds().items() for at in range(layout.data_offset)}


def test_a_name_stands_for_the_same_bytes_whatever_was_made_before() -> None:
    first = {mutant.name: mutant.data for mutant in randoms(60)}
    again = {mutant.name: mutant.data for mutant in randoms(30, start=30)}
    assert again.items() <= first.items()
    assert len(set(first.values())) > 50


def test_random_mutants_get_past_the_header() -> None:
    outcomes: Counter[str] = Counter()
    for mutant in randoms(QUICK):
        verdict = own_verdict(mutant.data)
        outcomes["accepted" if verdict.rule is None else verdict.rule] += 1
    assert len(outcomes) > 15
    assert outcomes["accepted"] > QUICK // 50


def test_memory_out_of_proportion_is_a_violation() -> None:
    def greedy(data: bytes) -> GGUFFile:
        _ = bytearray(1 << 20)
        return parse_gguf(data)

    report = fuzz(islice(untouched(), 1), greedy)
    assert ["allocated" in violation.what for violation in report.violations] == [True]


def test_an_accepted_file_is_minimised_to_the_bytes_that_matter() -> None:
    layout = seeds()["directory"]
    broken = layout.patched(
        {"header:version": 2, "token_embd.weight:data": bytes(32), "output.weight:rank": 7}
    )

    def first_true(candidates: object) -> int | None:
        assert isinstance(candidates, list)
        holds = [i for i, data in enumerate(candidates) if data[:4] == b"GGUF" and b"\7\0\0\0" in data[4:]]
        return holds[0] if holds else None

    small = minimised(restored(broken, layout, first_true), layout, first_true)
    assert small[:4] == b"GGUF"
    assert b"\7\0\0\0" in small
    assert len(small) == 8


def test_broken_fields_are_named() -> None:
    layout = seeds()["directory"]
    broken = layout.patched({"header:tensor-count": 9, "output.weight:rank": 7})
    assert [field.name for field in broken_fields(broken, layout)] == [
        "header:tensor-count",
        "output.weight:rank",
    ]
    assert [field.name for field in broken_fields(layout.data[:10], layout)] == ["header:tensor-count"]
    assert broken_fields(layout.data, layout) == ()
