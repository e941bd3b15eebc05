"""The two valid files that all mutants come from, small enough that each byte can be broken in turn.

``directory`` is a vocabulary with a chat template and a few tensors, ``experts`` a routed triplet with its
router. Both load in llama.cpp as a vocabulary; both end in tensor data, so that every truncation is one.
"""

from __future__ import annotations

from functools import cache

from oracle.gguf import GGMLType, ValueType
from tracker.audits.gguf.writer import Description, KeyValue, Layout, Tensor, write_gguf

_TOKENS = ("<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "a", "\u2581a", "b")
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6

DIRECTORY = Description(
    key_values=(
        KeyValue("general.architecture", ValueType.STRING, "llama"),
        KeyValue("general.alignment", ValueType.UINT32, 32),
        KeyValue("tokenizer.ggml.model", ValueType.STRING, "llama"),
        KeyValue("tokenizer.ggml.tokens", ValueType.ARRAY, _TOKENS, ValueType.STRING),
        KeyValue(
            "tokenizer.ggml.scores",
            ValueType.ARRAY,
            (0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0),
            ValueType.FLOAT32,
        ),
        KeyValue(
            "tokenizer.ggml.token_type",
            ValueType.ARRAY,
            (_UNKNOWN, _CONTROL, _CONTROL, _BYTE, _NORMAL, _NORMAL, _NORMAL, _NORMAL),
            ValueType.INT32,
        ),
        KeyValue("tokenizer.ggml.eos_token_id", ValueType.UINT32, 2),
        KeyValue("tokenizer.ggml.add_bos_token", ValueType.BOOL, 1),
        KeyValue("tokenizer.chat_template", ValueType.STRING, "{{ messages }}"),
    ),
    tensors=(
        Tensor("token_embd.weight", (2, 4)),
        Tensor("output.weight", (32, 1), GGMLType.Q8_0),
        Tensor("output_norm.weight", (4, 2, 2), GGMLType.F16),
    ),
)

EXPERTS = Description(
    key_values=(
        KeyValue("general.architecture", ValueType.STRING, "llama"),
        KeyValue("tokenizer.ggml.model", ValueType.STRING, "none"),
        KeyValue("llama.expert_count", ValueType.UINT32, 2),
    ),
    tensors=(
        Tensor("blk.0.ffn_gate_inp.weight", (4, 2)),
        Tensor("blk.0.ffn_gate_exps.weight", (4, 2, 2)),
        Tensor("blk.0.ffn_up_exps.weight", (4, 2, 2)),
        Tensor("blk.0.ffn_down_exps.weight", (2, 4, 2)),
    ),
)


@cache
def seeds() -> dict[str, Layout]:
    """The seeds by name, with the offset of every field."""
    return {"directory": write_gguf(DIRECTORY), "experts": write_gguf(EXPERTS)}
