"""A client whose library is the reference itself, of any generation and with any fault put in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oracle.sampling import GENERATIONS, Candidates, Generation, from_json
from oracle.sampling.chain import FACTORIES, Factory
from tracker.audits.sampler.case import Call, Case, Family
from tracker.audits.sampler.run import TOKEN_DATA, Drawn, Undefined, expect
from tracker.results import BuildIdentity

NEW, MID, OLD, ANCIENT = GENERATIONS


def identity(version: str) -> BuildIdentity:
    """A build that was never made."""
    return BuildIdentity(id=f"fake-{version}", channel="fake", version=version)


class ReferenceClient:
    """Answers the worker's requests about samplers from the reference.

    Where there is no right outcome it refuses, as a build should: nothing selected, probabilities untouched.
    """

    def __init__(
        self,
        generation: Generation,
        faults: Mapping[str, Factory] | None = None,
        without: frozenset[str] = frozenset({"infill"}),
    ) -> None:
        self.generation = generation
        self.factories = {**FACTORIES, **(faults or {})}
        self.without = without
        self.requests = 0

    def request(
        self, handler: str, header: dict[str, Any], payload: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """Answer."""
        if handler == "sampler.available":
            return {"samplers": [name for name in header["samplers"] if name not in self.without]}, b""
        self.requests += 1
        case = _decoded(header, payload)
        expected = expect(case, self.generation, factories=self.factories)
        outcomes: list[Any] = []
        output = b""
        for position, (call, *arguments) in enumerate(case.calls):
            wanted = expected[min(position, len(expected) - 1)]
            if call is Call.APPLY:
                if isinstance(wanted, Undefined):
                    wanted = Candidates.of(case.inputs[arguments[1]])
                assert isinstance(wanted, Candidates)
                rows = np.zeros(len(wanted), TOKEN_DATA)
                rows["id"], rows["logit"], rows["p"] = wanted.ids, wanted.logits, wanted.p
                output += rows.tobytes()
                outcomes.append({"size": len(rows), "selected": wanted.selected, "ordered": wanted.ordered})
            elif call is Call.DRAWS:
                assert isinstance(wanted, Drawn)
                output += wanted.tokens.tobytes()
                outcomes.append({"size": len(wanted.tokens)})
            else:
                outcomes.append(getattr(wanted, "value", None))
        return {"outcomes": outcomes}, output


def _decoded(header: dict[str, Any], payload: bytes) -> Case:
    inputs, start = [], 0
    for size in header["sizes"]:
        inputs.append(np.frombuffer(payload, "<f4", size, offset=start))
        start += 4 * size
    return Case(
        family=Family.ORDINARY,
        chain=tuple(from_json(description) for description in header["chain"]),
        inputs=tuple(inputs),
        calls=tuple((Call(name), *arguments) for name, *arguments in header["calls"]),
        bare=header["bare"],
    )
