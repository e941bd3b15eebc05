"""The Qwen2.5 vocabulary: Qwen2's with nineteen names, and the same bytes everywhere."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from oracle.gguf import read_gguf
from tracker.build import Build
from tracker.cache import Cache
from tracker.vocabulary import QWEN2_SHA256, QWEN25_SHA256, qwen25_vocabulary, write_qwen25

pytestmark = pytest.mark.build

NAMES = (
    "<|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> <|quad_start|> <|quad_end|> "
    "<|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> <tool_call> </tool_call> "
    "<|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|>"
).split()


def test_only_the_nineteen_names_and_the_models_name_differ(build_0_3_36: Build, tmp_path: Path) -> None:
    origin = build_0_3_36.tree / "models" / "ggml-vocab-qwen2.gguf"
    assert hashlib.sha256(origin.read_bytes()).hexdigest() == QWEN2_SHA256
    write_qwen25(origin, tmp_path / "made.gguf")
    assert hashlib.sha256((tmp_path / "made.gguf").read_bytes()).hexdigest() == QWEN25_SHA256
    before, after = read_gguf(origin), read_gguf(tmp_path / "made.gguf")
    assert list(before.metadata) == list(after.metadata)
    for name in set(before.metadata) - {"general.name", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"}:
        old, new = before.value(name), after.value(name)
        assert (old.type, old.element) == (new.type, new.element)
        assert list(np.atleast_1d(old.content)) == list(np.atleast_1d(new.content)), name
    old_texts, new_texts = (list(file.strings("tokenizer.ggml.tokens")) for file in (before, after))
    changed = [i for i, (a, b) in enumerate(zip(old_texts, new_texts, strict=True)) if a != b]
    assert changed == [*range(151646, 151665)]
    assert [text.decode() for text in new_texts[151646:151665]] == NAMES
    assert after.array("tokenizer.ggml.token_type")[151646:151665].tolist() == [3] * 11 + [4] * 8


def test_a_damaged_file_in_the_cache_is_made_again(build_0_3_36: Build, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    (cache.folder("vocabularies") / "qwen2.5.gguf").write_bytes(b"half")
    made = qwen25_vocabulary(cache, [tmp_path / "nowhere", build_0_3_36.tree])
    assert hashlib.sha256(made.read_bytes()).hexdigest() == QWEN25_SHA256
