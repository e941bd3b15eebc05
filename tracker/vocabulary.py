"""The audit's vocabulary as a file: Qwen2.5, made once from llama.cpp's own vocabulary file.

llama.cpp ships Qwen2's tokenizer as a GGUF file without tensors in which nineteen tokens have placeholder
names. Qwen2.5 is the same vocabulary and the same merges with these names filled in. The file is written by
the ``gguf`` package and pinned by its sha256, so that every audit anywhere reads the same bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFValueType, GGUFWriter, TokenType

from oracle.gguf import StringArray, read_gguf
from tracker.cache import Cache
from tracker.errors import TrackerError
from tracker.releases import ChannelName, Release
from tracker.releases.channels import fetch

QWEN2_SHA256 = "44c2f46b715f585c6ab513970e8a006bfa5badd6108560054921cf598d154d8c"
"""models/ggml-vocab-qwen2.gguf, the same in all releases under audit."""

QWEN25_SHA256 = "6ce30d5ca504245abd4f96a0c03c99d16d7c9f4af9bf2e37ab6f12ade2b6526a"
"""The file that is made here."""

FIRST_NAMED = 151646
CONTROL_NAMES = (
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
USER_DEFINED_NAMES = (
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
)
"""The names of tokens 151646 to 151664, in order: control tokens, then user-defined ones."""

_NAME = "qwen2.5.gguf"
_ORIGIN = Release(ChannelName.PYTHON, "0.3.36")
_INSIDE_TREE = Path("models") / "ggml-vocab-qwen2.gguf"


class VocabularyError(TrackerError):
    """The vocabulary cannot be made."""


def qwen25_vocabulary(cache: Cache, trees: Iterable[Path] = ()) -> Path:
    """The Qwen2.5 vocabulary in the cache, made on first use.

    The file it is made from is taken from the first of the source trees that has it, else from those in the
    cache, else from a pinned release on the package index. Raises VocabularyError and ReleaseError.
    """
    target = cache.folder("vocabularies") / _NAME
    with cache.lock("vocabulary-qwen2.5"):
        if not target.is_file() or _sha256(target) != QWEN25_SHA256:
            origin = _origin(cache, trees)
            with cache.working_folder() as folder:
                made = folder / _NAME
                write_qwen25(origin, made)
                if _sha256(made) != QWEN25_SHA256:
                    raise VocabularyError(
                        f"{_NAME}: the installed gguf package writes other bytes than the pinned ones "
                        f"({_sha256(made)}); install the version in pyproject.toml"
                    )
                os.replace(made, target)
    return target


def write_qwen25(origin: Path, target: Path) -> None:
    """Write the vocabulary: all fields of ``origin`` in their order, with the nineteen names filled in."""
    file = read_gguf(origin)
    writer = GGUFWriter(target, file.text("general.architecture"))
    for name, value in file.metadata.items():
        if name == "general.architecture":
            continue
        content = _python(value.content)
        if name == "general.name":
            content = "Qwen2.5"
        elif name == "tokenizer.ggml.tokens":
            content[FIRST_NAMED : FIRST_NAMED + len(_NAMES)] = _NAMES
        elif name == "tokenizer.ggml.token_type":
            content[FIRST_NAMED : FIRST_NAMED + len(_NAMES)] = _TYPES
        element = None if value.element is None else GGUFValueType(value.element)
        writer.add_key_value(name, content, GGUFValueType(value.type), sub_type=element)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


_NAMES = [*CONTROL_NAMES, *USER_DEFINED_NAMES]
_TYPES = [TokenType.CONTROL] * len(CONTROL_NAMES) + [TokenType.USER_DEFINED] * len(USER_DEFINED_NAMES)


def _python(content: Any) -> Any:
    """Metadata as the writer takes it: strings decoded, arrays as lists."""
    if isinstance(content, StringArray):
        return [text.decode() for text in content]
    if isinstance(content, np.ndarray):
        return content.tolist()
    return content.decode() if isinstance(content, bytes) else content


def _origin(cache: Cache, trees: Iterable[Path]) -> Path:
    cached = sorted(cache.folder("sources").glob("*/tree"))
    for tree in (*trees, *cached):
        candidate = tree / _INSIDE_TREE
        if candidate.is_file() and _sha256(candidate) == QWEN2_SHA256:
            return candidate
    candidate = fetch(_ORIGIN, cache).tree / _INSIDE_TREE
    if not candidate.is_file() or _sha256(candidate) != QWEN2_SHA256:
        raise VocabularyError(f"{_ORIGIN}: {_INSIDE_TREE} is not the file whose sha256 is pinned")
    return candidate


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
