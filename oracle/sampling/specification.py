"""The samplers of ``llama.h`` and their parameters, as plain values that can be written down as JSON.

It knows which samplers there are and what they are called; not what they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from oracle import OracleError


class SpecificationError(OracleError):
    """Something is no description of a sampler."""


@dataclass(frozen=True)
class Specification:
    """Base of the descriptions. ``name`` is the sampler's, as in ``llama_sampler_init_NAME``."""

    name: ClassVar[str] = ""


@dataclass(frozen=True)
class Greedy(Specification):
    """Selects the first strict maximum."""

    name: ClassVar[str] = "greedy"


@dataclass(frozen=True)
class Dist(Specification):
    """Draws from the distribution."""

    name: ClassVar[str] = "dist"
    seed: int


@dataclass(frozen=True)
class TopK(Specification):
    """Keeps the k best."""

    name: ClassVar[str] = "top_k"
    k: int


@dataclass(frozen=True)
class TopP(Specification):
    """Keeps the best until their probabilities sum to p."""

    name: ClassVar[str] = "top_p"
    p: float
    min_keep: int


@dataclass(frozen=True)
class MinP(Specification):
    """Keeps what has at least p times the best one's probability."""

    name: ClassVar[str] = "min_p"
    p: float
    min_keep: int


@dataclass(frozen=True)
class Typical(Specification):
    """Keeps what is nearest to the entropy until the probabilities sum to p."""

    name: ClassVar[str] = "typical"
    p: float
    min_keep: int


@dataclass(frozen=True)
class Temp(Specification):
    """Divides the logits by t."""

    name: ClassVar[str] = "temp"
    t: float


@dataclass(frozen=True)
class TempExt(Specification):
    """Divides by a temperature between t − delta and t + delta that depends on the entropy."""

    name: ClassVar[str] = "temp_ext"
    t: float
    delta: float
    exponent: float


@dataclass(frozen=True)
class Xtc(Specification):
    """With probability p drops all but the last token above the threshold t."""

    name: ClassVar[str] = "xtc"
    p: float
    t: float
    min_keep: int
    seed: int


@dataclass(frozen=True)
class TopNSigma(Specification):
    """Masks what lies more than n standard deviations below the best."""

    name: ClassVar[str] = "top_n_sigma"
    n: float


@dataclass(frozen=True)
class Mirostat(Specification):
    """Mirostat 1.0: steers the surprise towards tau by a top-k cut, and draws."""

    name: ClassVar[str] = "mirostat"
    n_vocab: int
    seed: int
    tau: float
    eta: float
    m: int


@dataclass(frozen=True)
class MirostatV2(Specification):
    """Mirostat 2.0: steers the surprise towards tau by cutting at it, and draws."""

    name: ClassVar[str] = "mirostat_v2"
    seed: int
    tau: float
    eta: float


@dataclass(frozen=True)
class Penalties(Specification):
    """Makes tokens among the last ones accepted less likely."""

    name: ClassVar[str] = "penalties"
    last_n: int
    repeat: float
    freq: float
    present: float


@dataclass(frozen=True)
class Dry(Specification):
    """Makes tokens less likely that would continue a repetition. Without sequence breakers."""

    name: ClassVar[str] = "dry"
    multiplier: float
    base: float
    allowed_length: int
    last_n: int


@dataclass(frozen=True)
class AdaptiveP(Specification):
    """Favours tokens near a target probability, and draws."""

    name: ClassVar[str] = "adaptive_p"
    target: float
    decay: float
    seed: int


@dataclass(frozen=True)
class LogitBias(Specification):
    """Adds a bias to the logits of some tokens."""

    name: ClassVar[str] = "logit_bias"
    biases: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Infill(Specification):
    """Joins tokens with a common prefix for fill-in-the-middle."""

    name: ClassVar[str] = "infill"


SPECIFICATIONS: dict[str, type[Specification]] = {
    kind.name: kind
    for kind in (
        TopK, TopP, MinP, Temp, Dist, Greedy, Typical, TempExt, Xtc, TopNSigma, Mirostat, MirostatV2,
        Penalties, Dry, AdaptiveP, LogitBias, Infill,
    )
}  # fmt: skip
"""All samplers by name: first the audited chain in its order, then the others."""


def to_json(specification: Specification) -> dict[str, Any]:
    """The description as a JSON object with the sampler's name under ``sampler``."""
    return {"sampler": specification.name, **asdict(specification)}


def from_json(value: Mapping[str, Any]) -> Specification:
    """The reverse of `to_json`.

    Raises:
        SpecificationError: an unknown sampler, or other parameters than it has.
    """
    parameters = {key: item for key, item in value.items() if key != "sampler"}
    name = value.get("sampler")
    kind = SPECIFICATIONS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise SpecificationError(f"unknown sampler {name!r}; known are {', '.join(SPECIFICATIONS)}")
    if kind is LogitBias and isinstance(parameters.get("biases"), list | tuple):
        parameters["biases"] = tuple((int(token), float(bias)) for token, bias in parameters["biases"])
    try:
        return kind(**parameters)
    except TypeError as error:
        raise SpecificationError(f"sampler {name}: {error}; give its parameters as in llama.h") from None
