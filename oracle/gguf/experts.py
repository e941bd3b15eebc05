"""Where each expert of a mixture-of-experts model lies inside its three-dimensional tensors.

llama.cpp stores the experts of a block together: ``blk.N.ffn_{gate,up,down}_exps.weight`` with the expert as
the slowest dimension, next to the router ``blk.N.ffn_gate_inp.weight`` with a row an expert. It knows names
and shapes of those four; other layouts (a fused gate and up, shared experts) are left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from oracle.gguf.directory import GGUFFile, TensorInfo
from oracle.gguf.errors import GGUFError, Rule

_EXPERTS = re.compile(r"blk\.(0|[1-9][0-9]{0,8})\.ffn_(gate|up|down)_exps\.weight")


@dataclass(frozen=True, slots=True)
class ExpertTensor:
    """One of the three projections, of all experts of a block."""

    tensor: TensorInfo
    count: int
    """Number of experts."""
    stride: int
    """Bytes of one expert."""

    def slice(self, expert: int) -> tuple[int, int]:
        """``(offset in the file, bytes)`` of an expert. IndexError outside ``0 <= expert < count``."""
        if not 0 <= expert < self.count:
            raise IndexError(f"expert {expert} of {self.count}")
        return self.tensor.offset + expert * self.stride, self.stride


@dataclass(frozen=True, slots=True)
class ExpertBlock:
    """The experts of block ``index``; a part is None where this file has none."""

    index: int
    count: int
    gate: ExpertTensor | None
    up: ExpertTensor | None
    down: ExpertTensor | None
    router: TensorInfo | None


def expert_map(file: GGUFFile) -> tuple[ExpertBlock, ...]:
    """The blocks with experts, by index; empty for a dense model.

    Raises:
        GGUFError: an experts' tensor has not three dimensions, or shapes do not fit each other.
    """
    found: dict[int, dict[str, TensorInfo]] = {}
    for name, tensor in file.tensors.items():
        match = _EXPERTS.fullmatch(name)
        if match:
            found.setdefault(int(match[1]), {})[match[2]] = tensor
    return tuple(_block(file, index, parts) for index, parts in sorted(found.items()))


def _block(file: GGUFFile, index: int, parts: dict[str, TensorInfo]) -> ExpertBlock:
    laid_out = {part: _experts(file, tensor) for part, tensor in parts.items()}
    router = file.tensors.get(f"blk.{index}.ffn_gate_inp.weight")
    counts = {experts.count for experts in laid_out.values()}
    if router is not None:
        if len(router.shape) > 2:
            raise _misfit(file, router, "the router has more than two dimensions")
        counts.add(router.shape[1] if len(router.shape) == 2 else 1)
    if len(counts) != 1:
        raise _misfit(file, next(iter(parts.values())), f"block {index} has {sorted(counts)} experts")
    # (width of the model, width of the expert), as each part says it.
    widths = {_widths(part, tensor) for part, tensor in parts.items()}
    if len(widths) != 1:
        raise _misfit(file, next(iter(parts.values())), f"the experts of block {index} differ in shape")
    if router is not None and router.shape[0] != next(iter(widths))[0]:
        raise _misfit(file, router, f"the router of block {index} has another width than its experts")
    return ExpertBlock(
        index=index,
        count=counts.pop(),
        gate=laid_out.get("gate"),
        up=laid_out.get("up"),
        down=laid_out.get("down"),
        router=router,
    )


def _experts(file: GGUFFile, tensor: TensorInfo) -> ExpertTensor:
    if len(tensor.shape) != 3:
        raise _misfit(file, tensor, f"{len(tensor.shape)} dimensions instead of three")
    # Rows are whole blocks and dimensions at least 1, so experts are whole numbers of bytes.
    return ExpertTensor(tensor, tensor.shape[2], tensor.nbytes // tensor.shape[2])


def _widths(part: str, tensor: TensorInfo) -> tuple[int, int]:
    return (tensor.shape[1], tensor.shape[0]) if part == "down" else (tensor.shape[0], tensor.shape[1])


def _misfit(file: GGUFFile, tensor: TensorInfo, what: str) -> GGUFError:
    return GGUFError(Rule.EXPERTS, f"{tensor.name}: {what}", offset=tensor.offset, source=file.source)
