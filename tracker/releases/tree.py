"""Which files of llama.cpp's tree are needed: to build, to read its grammars, and to find the vocabulary.

A third of the tree's files, and a tenth of its bytes. Backends other than the processor's are left out:
they are never built here.
"""

from __future__ import annotations

from pathlib import PurePosixPath

_FILES = {"CMakeLists.txt", "LICENSE", "AUTHORS"}
_FOLDERS = {"cmake", "common", "ggml", "grammars", "include", "licenses", "scripts", "src", "vendor"}
_MODELS = {"ggml-vocab-qwen2.gguf"}


def is_wanted(path: PurePosixPath) -> bool:
    """Whether a file, given by its path below the tree's root, is kept."""
    match path.parts:
        case (name,):
            return name in _FILES
        case ("models", name):
            return name in _MODELS
        case ("tests", name):
            return "grammar" in name
        case ("ggml", "src", folder, _, *_):
            return not folder.startswith("ggml-") or folder == "ggml-cpu"
        case (folder, *_):
            return folder in _FOLDERS
    return False
