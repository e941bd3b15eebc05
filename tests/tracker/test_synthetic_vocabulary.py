"""The synthetic vocabulary: what is in it, that our file says so, and that a real build takes it."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest

from oracle import utf8
from oracle.utf8 import Offence
from oracle.vocabulary import byte_alphabet, read_vocabulary
from tracker.build import Build
from tracker.libllama.client import LibllamaClient
from tracker.synthetic_vocabulary import (
    CALL_TEXT,
    END_TEXT,
    synthetic_pieces,
    synthetic_vocabulary,
    write_synthetic_vocabulary,
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("synthetic") / "synthetic.gguf"
    write_synthetic_vocabulary(path)
    return path


def test_every_byte_is_a_token_of_its_own_and_no_text_comes_twice():
    pieces = synthetic_pieces()
    assert pieces[:256] == tuple(bytes([byte]) for byte in range(256))
    assert len(set(pieces)) == len(pieces) and all(pieces)
    assert 1500 < len(pieces) < 5000


@pytest.mark.parametrize(
    ("offence", "example"),
    [
        (Offence.OVERLONG, "f084b896"),
        (Offence.OVERLONG, "c080"),
        (Offence.OVERLONG, "e08080"),
        (Offence.SURROGATE, "eda080edb080"),
        (Offence.BEYOND_UNICODE, "f490"),
        (Offence.INVALID_LEAD, "f888808080"),
        (Offence.STRAY_CONTINUATION, "9f61"),
        (Offence.BROKEN_SEQUENCE, "e461"),
        (None, "610062"),
        (None, "f09f98"),
        (None, "e4b896e4"),
    ],
)
def test_each_kind_of_broken_text_has_tokens_of_several_bytes(offence, example):
    several = [piece for piece in synthetic_pieces() if len(piece) > 1]
    assert bytes.fromhex(example) in several
    assert sum(utf8.scan(piece).offence is offence for piece in several) >= 5


def test_the_file_reads_back_the_same_with_our_reader_and_with_the_gguf_package(file):
    ours, made = read_vocabulary(file), synthetic_vocabulary()
    assert ours.pieces == made.pieces
    assert ours.kinds.tolist() == made.kinds.tolist()
    assert ours.end_tokens == made.end_tokens == {len(made) - 2}
    fields = gguf.GGUFReader(file).fields
    alphabet = byte_alphabet()
    tokens = fields["tokenizer.ggml.tokens"].contents()
    assert tuple(bytes(alphabet[ord(c)] for c in text) for text in tokens[:-2]) == synthetic_pieces()
    assert tokens[-2:] == [END_TEXT, CALL_TEXT]


def test_the_file_is_always_the_same_bytes(file, tmp_path):
    write_synthetic_vocabulary(tmp_path / "again.gguf")
    assert (tmp_path / "again.gguf").read_bytes() == file.read_bytes()


@pytest.mark.build
def test_a_real_build_spells_its_tokens_as_we_do(file, build_0_3_36: Build):
    with LibllamaClient(build_0_3_36, file) as client:
        spelled = client.vocabulary()
    made = synthetic_vocabulary()
    assert spelled.pieces == made.pieces
    assert set(made.end_tokens) <= {int(token) for token in spelled.eog.nonzero()[0]}
