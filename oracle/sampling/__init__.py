"""Reference samplers: what llama.cpp's sampler chain should compute, down to the last bit.

Written from the papers behind the samplers and from the arithmetic that releases of llama.cpp show from
outside. The package knows which operation is done in which precision and in which order, and which of the
known generations of that arithmetic a release belongs to; it does not know how to run a real build.
"""

from __future__ import annotations

from oracle.sampling.candidates import Candidates, UndefinedDistribution
from oracle.sampling.chain import Chain
from oracle.sampling.generation import GENERATIONS, NEWEST, Generation
from oracle.sampling.specification import (
    SPECIFICATIONS,
    Specification,
    SpecificationError,
    from_json,
    to_json,
)

__all__ = [
    "GENERATIONS",
    "NEWEST",
    "SPECIFICATIONS",
    "Candidates",
    "Chain",
    "Generation",
    "Specification",
    "SpecificationError",
    "UndefinedDistribution",
    "from_json",
    "to_json",
]
