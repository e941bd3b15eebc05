"""Archives made to order: what a release looks like, and what an attacker would send."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_archive(path: Path, files: Mapping[str, bytes], *extra: tarfile.TarInfo) -> Path:
    """A .tar.gz with these regular files, and members without content after them."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in extra:
            tar.addfile(member)
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    """A link as a member of an archive."""
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    return member


LLAMA_TREE: dict[str, bytes] = {
    "CMakeLists.txt": b"project(llama)\n",
    "include/llama.h": b"int llama_n_vocab(void);\n",
    "ggml/include/ggml.h": b"",
    "ggml/src/ggml.c": b"int x;\n",
    "ggml/src/ggml-cpu/cpu.c": b"",
    "ggml/src/ggml-cuda/big.cu": b"not needed",
    "grammars/json.gbnf": b'root ::= "{}"\n',
    "tests/test-llama-grammar.cpp": b"// grammar\n",
    "tests/test-backend-ops.cpp": b"not needed",
    "models/ggml-vocab-qwen2.gguf": b"not really",
    "models/ggml-vocab-phi-3.gguf": b"not needed",
    "docs/manual.md": b"not needed",
}
"""A tree in llama.cpp's layout; what says so is not needed to build."""

NEEDED = frozenset(name for name, content in LLAMA_TREE.items() if content != b"not needed")
