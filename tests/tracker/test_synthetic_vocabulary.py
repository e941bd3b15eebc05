"""The synthetic vocabulary: what is in it, that our file says so, and that a real build takes it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import gguf
import pytest

from oracle import utf8
from oracle.utf8 import Offence
from oracle.vocabulary import byte_alphabet, read_vocabulary
from tracker.audits.grammar.audit import VocabularyFile, audit_build
from tracker.audits.grammar.corpus import CorpusEntry
from tracker.build import Build
from tracker.libllama.client import LibllamaClient
from tracker.pipeline import Selection, select_grammars
from tracker.results import Cause, Kind
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


LENGTHS = (1,) * 12 + (2, 2, 3, 4)
"""Bytes of a character by the high half of its first byte, as upstream has them."""


def letters_as_upstream_decodes(piece: bytes) -> bool:
    """Whether upstream lets a token pass at the start of ``[a-z]+``, by its own way of decoding whole tokens.

    Written after what is known of it (no byte but the first is looked at for what it is; a code point of zero
    ends the token; what is left of a character is compared by the range that it can still become).
    """
    if not piece or piece[0] == 0:
        return False
    piece = piece.split(b"\0")[0]
    at = 0
    while at < len(piece):
        size = LENGTHS[piece[at] >> 4]
        if size == 1 and piece[at] >= 0x80:
            # A continuation byte in front makes the whole token invalid.
            return False
        value = piece[at] & (0xFF >> (size + 1) if size > 1 else 0x7F)
        have = piece[at + 1 : at + size]
        for byte in have:
            value = (value << 6) + (byte & 0x3F)
        left = size - 1 - len(have)
        if left:
            return partial_may_be_a_letter(value, left)
        if value == 0:
            return True
        if not 0x61 <= value <= 0x7A:
            return False
        at += size
    return True


def partial_may_be_a_letter(value: int, left: int) -> bool:
    if left == 1 and value < 2:
        return False
    low = value << (6 * left)
    high = low | ((1 << (6 * left)) - 1)
    if low == 0:
        low = {1: 0, 2: 1 << 11, 3: 1 << 16}[left]
    return low <= 0x7A and high >= 0x61


@pytest.mark.build
def test_an_audit_over_it_sees_every_token_that_the_build_decodes_wrongly(file, build_0_3_36: Build):
    made = VocabularyFile(
        "synthetic", file, hashlib.sha256(file.read_bytes()).hexdigest(), read_vocabulary(file)
    )
    text = "root ::= [a-z]+"
    entry = CorpusEntry.model_validate(
        {"name": "x", "why": "test", "inline": text, "text": text, "states": 9}
    )
    document, _ = audit_build(build_0_3_36, made, [entry], jobs=1)
    assert document.trustworthy, document.reason
    (result,) = document.grammars
    assert result.exhaustive
    letters = frozenset(b"abcdefghijklmnopqrstuvwxyz")
    wrong = {
        piece
        for piece in synthetic_pieces()
        if letters_as_upstream_decodes(piece) and not letters >= {*piece}
    }
    assert {b"\xc0\x80", b"a\0", b"\xc1\xa1", b"\xe0\x81\xa1"} <= wrong
    for prefix in ("", "61"):
        unsound = [d for d in result.deviations if d.kind is Kind.UNSOUND and d.prefix == prefix]
        assert {bytes.fromhex(token) for found in unsound for token in found.tokens} == wrong
    assert not any(found.kind is Kind.OVER_RESTRICTIVE for found in result.deviations)
    # A token of which nothing is left after decoding empties the grammar when it is accepted.
    assert [d.kind for d in result.deviations if d.cause == Cause.DIED] == [Kind.CRASH]


def test_walks_over_it_go_further_than_the_corpus_asks_for():
    bounds = [
        {
            entry.name: entry.states
            for entry in select_grammars(Selection(states=states, vocabulary=name), None)
        }
        for states, name in ((None, "qwen2.5"), (None, "synthetic"), (50, "synthetic"))
    ]
    assert bounds[0]["json-full"] < 1_000 == bounds[1]["json-full"]
    assert bounds[0]["two-thousand"] == bounds[1]["two-thousand"]
    assert set(bounds[2].values()) == {50}
