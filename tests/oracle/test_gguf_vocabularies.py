"""Our GGUF reader on the vocabularies that come with llama.cpp, against the ``gguf`` package."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from gguf_package import assert_same_as_package

from oracle.gguf import read_gguf
from tracker.build import Build
from tracker.cache import Cache

NAMES = (
    "aquila",
    "baichuan",
    "bert-bge",
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "gpt-neox",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "nomic-bert-moe",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
)


@pytest.fixture(scope="module")
def vocabularies(
    build_0_3_36: Build, cache: Cache, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Path]]:
    """The vocabularies of 0.3.36's source distribution; its unpacked tree keeps but one of them."""
    folder = tmp_path_factory.mktemp("vocabularies")
    archives = list(cache.folder("downloads").glob("*0.3.36.tar.gz"))
    if not archives:
        pytest.skip("the source distribution of 0.3.36 was pruned from the cache")
    with tarfile.open(archives[0]) as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if path.parent.name == "models" and path.match("ggml-vocab-*.gguf"):
                content = archive.extractfile(member)
                assert content is not None
                (folder / path.name).write_bytes(content.read())
    yield sorted(folder.iterdir())


def same_as_package(vocabularies: list[Path], name: str) -> None:
    (path,) = (path for path in vocabularies if path.name == f"ggml-vocab-{name}.gguf")
    assert_same_as_package(path)


@pytest.mark.build
def test_accepts_all_vocabularies_and_finds_as_many_types_as_tokens(vocabularies: list[Path]) -> None:
    assert [path.stem.removeprefix("ggml-vocab-") for path in vocabularies] == list(NAMES)
    for path in vocabularies:
        file = read_gguf(path)
        tokens = file.strings("tokenizer.ggml.tokens")
        assert len(tokens) == len(file.array("tokenizer.ggml.token_type")) > 30_000
        assert sum(map(len, tokens)) < file.nbytes


@pytest.mark.build
def test_reads_the_smallest_vocabulary_as_the_package_does(vocabularies: list[Path]) -> None:
    same_as_package(vocabularies, "bert-bge")


@pytest.mark.extended
@pytest.mark.parametrize("name", NAMES)
def test_reads_every_vocabulary_as_the_package_does(vocabularies: list[Path], name: str) -> None:
    same_as_package(vocabularies, name)
