"""Files of public reports and of our own findings, each with a name of its own.

Every case is a small description with some fields overwritten, so that it can say which fields make it. What
a case must come to is written in the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from oracle.gguf import GGMLType, ValueType
from tracker.audits.gguf.seeds import DIRECTORY
from tracker.audits.gguf.writer import Description, KeyValue, Layout, Tensor, write_gguf


@dataclass(frozen=True)
class Case:
    """A description, and the fields that are overwritten in it."""

    description: Description
    overwritten: Mapping[str, int | bytes] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """The honest file."""
        return write_gguf(self.description)

    @property
    def data(self) -> bytes:
        """The file of the case."""
        return self.layout.patched(self.overwritten)


_NO_VOCABULARY = (
    KeyValue("general.architecture", ValueType.STRING, "llama"),
    KeyValue("tokenizer.ggml.model", ValueType.STRING, "none"),
)
_ONE = Description(_NO_VOCABULARY, (Tensor("t", (8,)),))
_THREE_DIMENSIONS = Description(_NO_VOCABULARY, (Tensor("t", (2, 2, 2)),))
_TWO = Description(_NO_VOCABULARY, (Tensor("t", (8,)), Tensor("t.x", (8,))))
_TWO_AS_LONG = Description(_NO_VOCABULARY, (Tensor("t", (8,)), Tensor("u", (8,))))


def _with(description: Description, *key_values: KeyValue) -> Description:
    return replace(description, key_values=(*description.key_values, *key_values))


_ALIGNED = _with(_ONE, KeyValue("general.alignment", ValueType.UINT32, 32))


@cache
def cases() -> dict[str, Case]:
    """All cases by name, in a fixed order."""
    return {
        "dimensions-2^62-0-2^62": Case(
            _THREE_DIMENSIONS, {"t:0:dimension": 2**62, "t:1:dimension": 0, "t:2:dimension": 2**62}
        ),
        "dimension-0": Case(_THREE_DIMENSIONS, {"t:1:dimension": 0}),
        "dimension-0-first": Case(_ONE, {"t:0:dimension": 0}),
        "dimensions-product-2^64": Case(
            _THREE_DIMENSIONS, {"t:0:dimension": 2**32, "t:1:dimension": 2**32, "t:2:dimension": 1}
        ),
        "names-equal-up-to-nul": Case(_TWO, {"t.x:name": b"t\0x"}),
        "names-equal": Case(_TWO_AS_LONG, {"u:name": b"t"}),
        "key-alignment-nul": Case(
            _with(_ONE, KeyValue("general.alignment.x", ValueType.UINT32, 8)),
            {"general.alignment.x:key": b"general.alignment\0x"},
        ),
        "keys-equal": Case(
            _with(_ONE, KeyValue("a", ValueType.BOOL, 1), KeyValue("b", ValueType.BOOL, 1)), {"b:key": b"a"}
        ),
        "key-empty": Case(_with(_ONE, KeyValue("", ValueType.STRING, "x"))),
        "alignment-24": Case(_ALIGNED, {"general.alignment:number": 24}),
        "alignment-1": Case(
            replace(_with(_ONE, KeyValue("general.alignment", ValueType.UINT32, 1)), alignment=1)
        ),
        "alignment-0": Case(_ALIGNED, {"general.alignment:number": 0}),
        "alignment-2^31": Case(_ALIGNED, {"general.alignment:number": 2**31}),
        "alignment-as-int32": Case(_ALIGNED, {"general.alignment:value-type": ValueType.INT32}),
        "token-twice": Case(DIRECTORY, {"tokenizer.ggml.tokens:7:string": b"a"}),
        "token-types-as-int8": Case(DIRECTORY, {"tokenizer.ggml.token_type:element-type": ValueType.INT8}),
        "token-types-2^62": Case(DIRECTORY, {"tokenizer.ggml.token_type:array-count": 2**62}),
        "tokens-2^32": Case(DIRECTORY, {"tokenizer.ggml.tokens:array-count": 2**32}),
        "token-2^40-bytes": Case(DIRECTORY, {"tokenizer.ggml.tokens:3:string-length": 2**40}),
        "end-token-beyond-vocabulary": Case(DIRECTORY, {"tokenizer.ggml.eos_token_id:number": 2**31}),
        "tensors-2^24": Case(_ONE, {"header:tensor-count": 2**24}),
        "tensors-2^56": Case(_ONE, {"header:tensor-count": 2**56}),
        "key-values-2^24": Case(_ONE, {"header:kv-count": 2**24}),
        "offset-near-2^64": Case(_ONE, {"t:offset": 2**64 - 32}),
        "offsets-near-2^64": Case(_TWO_AS_LONG, {"t:offset": 2**64 - 64, "u:offset": 2**64 - 32}),
        "rank-0": Case(_ONE, {"t:rank": 0, "t:0:dimension": GGMLType.I8, "t:tensor-type": 0}),
        "rank-5": Case(_ONE, {"t:rank": 5}),
        "type-removed": Case(_ONE, {"t:tensor-type": 4}),
        "type-2^31": Case(_ONE, {"t:tensor-type": 2**31}),
        "bool-2": Case(_with(_ONE, KeyValue("b", ValueType.BOOL, 1)), {"b:number": 2}),
        "nested-array": Case(DIRECTORY, {"tokenizer.ggml.scores:element-type": ValueType.ARRAY}),
    }
