"""A GGUF reader that no file can hurt, the only one that the project uses.

``read_gguf(path)`` maps a file and checks it; ``GGUFFile`` looks up metadata and tensors without copying;
``expert_map(file)`` finds each expert of a mixture; ``GGUFError`` is the only exception.
"""

from __future__ import annotations

from oracle.gguf.directory import GGUFFile, StringArray, TensorInfo, Value
from oracle.gguf.errors import GGUFError, Rule
from oracle.gguf.experts import ExpertBlock, ExpertTensor, expert_map
from oracle.gguf.formats import GGMLType, ValueType
from oracle.gguf.reader import parse_gguf, read_gguf

__all__ = [
    "ExpertBlock",
    "ExpertTensor",
    "GGMLType",
    "GGUFError",
    "GGUFFile",
    "Rule",
    "StringArray",
    "TensorInfo",
    "Value",
    "ValueType",
    "expert_map",
    "parse_gguf",
    "read_gguf",
]
