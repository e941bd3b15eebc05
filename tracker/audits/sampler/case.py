"""One case: samplers, logits, and calls, as it is put to a build and to the reference.

It knows what can be asked and how large a question is; not how it is answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from oracle.sampling import Specification, to_json
from tracker.libllama.handlers.sampler import NULL_CALLS

Logits = npt.NDArray[np.float32]

_WRITTEN = 4000
EXAMPLE_RUNS = 64
"""An example whose logits need more runs than this is described, not listed."""


class Family(StrEnum):
    """Why a case was made."""

    GRID = "grid"
    """The audited chain over a whole vocabulary."""
    ORDINARY = "ordinary"
    """Random finite logits."""
    TIES = "ties"
    """Many equal logits."""
    MASKED = "masked"
    """Some or all logits −∞, as after a grammar."""
    INFINITE = "infinite"
    """A logit of +∞."""
    NAN = "nan"
    HUGE = "huge"
    """Finite logits of a magnitude at which arithmetic overflows."""
    WIDE = "wide"
    """Finite logits so far apart that exponentials vanish."""
    EXTREME_PARAMETER = "extreme parameter"
    EMPTY = "empty"
    """No candidates."""
    REPEATED = "repeated"
    """Apply and accept by turns."""
    CLONE = "clone"
    RESET = "reset"
    DRAWS = "draws"
    """Many draws from one seed."""
    NOTHING = "nothing"
    """NULL and indices out of range in place of a sampler."""


class Call(StrEnum):
    """A call of the C API. ``draws`` is many applies."""

    APPLY = "apply"
    ACCEPT = "accept"
    RESET = "reset"
    CLONE = "clone"
    DRAWS = "draws"
    NULL = "null"
    ADD_NULL = "add_null"
    GET = "get"
    REMOVE = "remove"


Invocation = tuple[Call, *tuple[int, ...]]
"""A call and its arguments: ``apply(object, input)``, ``accept(object, token)``, ``draws(object, input, n)``.

Objects are numbered from 0, the sampler or chain itself; ``clone`` makes the next one. Token −1 is the one
that the object selected last.
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A question; ``chain`` without ``bare`` is put into a chain, with it is the only sampler."""

    family: Family
    chain: tuple[Specification, ...]
    inputs: tuple[Logits, ...]
    calls: tuple[Invocation, ...]
    bare: bool = False

    @cached_property
    def size(self) -> tuple[int, ...]:
        """How large it is: what shrinking makes smaller, the most telling first."""
        count = sum(map(len, self.inputs))
        # What is written out tells small cases apart; large ones differ enough in the rest.
        written = sum(len(repr(value)) for logits in self.inputs for value in logits[:_WRITTEN].tolist())
        parameters = [value for step in self.chain for value in vars(step).values()]
        return (
            len(self.chain),
            len(self.calls),
            sum(argument for call, *arguments in self.calls for argument in arguments[2:]),
            count,
            written,
            len(repr(parameters)),
            sum(abs(value) for value in parameters if isinstance(value, int)),
        )

    def request(self) -> tuple[dict[str, Any], bytes]:
        """Header and payload of the worker's request ``sampler.run``."""
        header = {
            "chain": [to_json(specification) for specification in self.chain],
            "bare": self.bare,
            "sizes": [len(logits) for logits in self.inputs],
            "calls": [list(invocation) for invocation in self.calls],
        }
        return header, b"".join(logits.astype("<f4").tobytes() for logits in self.inputs)


def runs(logits: Logits) -> list[tuple[str, int]]:
    """The logits as (number, how many of it in a row), numbers as Python writes them."""
    texts = [repr(value) for value in logits.tolist()]
    listed: list[tuple[str, int]] = []
    for text in texts:
        if listed and listed[-1][0] == text:
            listed[-1] = (text, listed[-1][1] + 1)
        else:
            listed.append((text, 1))
    return listed


def in_words(invocations: Sequence[Invocation]) -> list[str]:
    """Calls as ``apply(0, 0)``, those without a sampler as ``apply(NULL)``."""
    return [
        f"{NULL_CALLS[arguments[0]]}(NULL)"
        if call is Call.NULL
        else f"{call}({', '.join(map(str, arguments))})"
        for call, *arguments in invocations
    ]
