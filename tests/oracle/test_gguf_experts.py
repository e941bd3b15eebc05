"""Where the experts of a mixture lie, against shapes worked out by hand and the numpy view of the tensor."""

from __future__ import annotations

import numpy as np
import pytest
from gguf_cases import gguf_file, tensor
from hypothesis import given
from hypothesis import strategies as st

from oracle.gguf import GGUFError, Rule, expert_map, parse_gguf

GATE, UP, DOWN = (f"blk.3.ffn_{part}_exps.weight".encode() for part in ("gate", "up", "down"))
ROUTER = b"blk.3.ffn_gate_inp.weight"


def model(*tensors: tuple[bytes, tuple[int, ...]]) -> bytes:
    """float32 tensors one after the other, numbered through."""
    written, data = [], b""
    for name, shape in tensors:
        written.append(tensor(name, shape, 0, len(data)))
        count = int(np.prod(shape))
        data += np.arange(len(data), len(data) + count, dtype=np.float32).tobytes()
        data += bytes(-len(data) % 32)
    return gguf_file([], written, data)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))
def test_each_slice_is_the_expert_s_matrix(embedding: int, hidden: int, experts: int) -> None:
    data = model(
        (ROUTER, (embedding, experts)),
        (GATE, (embedding, hidden, experts)),
        (UP, (embedding, hidden, experts)),
        (DOWN, (hidden, embedding, experts)),
    )
    file = parse_gguf(data)
    (block,) = expert_map(file)
    assert (block.index, block.count) == (3, experts)
    for part in (block.gate, block.up, block.down):
        assert part is not None
        whole = np.frombuffer(file.data(part.tensor), "<f4").reshape(part.tensor.shape[::-1])
        for expert in range(experts):
            offset, nbytes = part.slice(expert)
            assert (
                np.frombuffer(data[offset : offset + nbytes], "<f4").tolist()
                == whole[expert].ravel().tolist()
            )
        for outside in (-1, experts):
            with pytest.raises(IndexError):
                part.slice(outside)


def test_a_dense_model_has_no_experts() -> None:
    assert expert_map(parse_gguf(model((b"blk.0.ffn_up.weight", (4, 4))))) == ()


def test_parts_may_be_in_another_file_of_a_split_model() -> None:
    (block,) = expert_map(parse_gguf(model((UP, (4, 2, 3)))))
    assert (block.count, block.gate, block.router) == (3, None, None)


@pytest.mark.parametrize(
    "tensors",
    [
        [(UP, (4, 6))],
        [(UP, (4, 2, 3)), (DOWN, (2, 4, 2))],
        [(UP, (4, 2, 3)), (DOWN, (4, 2, 3))],
        [(UP, (4, 2, 3)), (GATE, (4, 3, 3))],
        [(UP, (4, 2, 3)), (ROUTER, (4, 2))],
        [(UP, (4, 2, 3)), (ROUTER, (2, 3))],
        [(UP, (4, 2, 3)), (ROUTER, (4, 3, 1))],
    ],
    ids=[
        "flat",
        "counts differ",
        "down not transposed",
        "widths differ",
        "router count",
        "router width",
        "router 3-D",
    ],
)
def test_experts_that_do_not_fit_are_refused(tensors: list[tuple[bytes, tuple[int, ...]]]) -> None:
    file = parse_gguf(model(*tensors))
    with pytest.raises(GGUFError) as caught:
        expert_map(file)
    assert caught.value.rule is Rule.EXPERTS
