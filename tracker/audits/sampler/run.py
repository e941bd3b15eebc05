"""A case put to a build, and the same case put to the reference.

Both give a list with one entry a call. It knows how to ask; it does not judge.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from oracle.sampling import Candidates, Chain, Generation, UndefinedDistribution
from oracle.sampling.chain import FACTORIES, Factory
from tracker.audits.sampler.case import Call, Case, Family
from tracker.libllama.client import DeathKind, RequestRefused, WorkerDied

TOKEN_DATA = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])

RISKY = frozenset({Family.NAN, Family.EMPTY, Family.CLONE, Family.NOTHING, Family.EXTREME_PARAMETER})
"""Families that run in a fork of the worker: they may well kill it, or damage its memory."""


class Client(Protocol):
    """What is needed of `tracker.libllama.client.LibllamaClient`."""

    def request(
        self, handler: str, header: dict[str, Any], payload: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """The worker's answer."""
        ...


@dataclass(frozen=True, eq=False)
class Applied:
    """The candidates after an apply, as the build left them."""

    ids: npt.NDArray[np.int32]
    logits: npt.NDArray[np.float32]
    p: npt.NDArray[np.float32]
    selected: int
    ordered: bool


@dataclass(frozen=True, eq=False)
class Drawn:
    """The tokens of many applies; int32, −1 for none."""

    tokens: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Returned:
    """What another call returned."""

    value: bool | None


@dataclass(frozen=True)
class Undefined:
    """There is no right outcome but a refusal; nothing after it is compared."""

    reason: str


Observed = Applied | Drawn | Returned
Expected = Candidates | Drawn | Returned | Undefined


@dataclass(frozen=True)
class Death:
    """The library killed its process."""

    kind: DeathKind
    how: str
    """One line: the signal, and the assertion if one was written."""


@dataclass(frozen=True)
class Refusal:
    """The build has no such sampler, or another signature than is known."""

    reason: str


Answer = Sequence[Observed] | Death | Refusal


def observe(client: Client, case: Case) -> Answer:
    """What a build makes of a case."""
    header, payload = case.request()
    try:
        answer, output = client.request(
            "sampler.isolated" if case.family in RISKY else "sampler.run", header, payload
        )
    except WorkerDied as death:
        return Death(death.kind, _how(death.signal, death.detail))
    except RequestRefused as refusal:
        return Refusal(str(refusal).rpartition("LibraryError: ")[2])
    if "died" in answer:
        kind = DeathKind.HANG if answer["died"] == signal.SIGXCPU else DeathKind.CRASH
        return Death(kind, _how(answer["died"], answer["detail"]))
    return _read(case, answer["outcomes"], output)


def _how(number: int | None, detail: str) -> str:
    name = signal.Signals(number).name if number else "exit"
    assertion = re.search(r"GGML_ASSERT\(.*\) failed|Assertion [`'].*' failed|GGML_ABORT.*", detail)
    return f"{name}: {assertion.group()}" if assertion else name


def _read(case: Case, outcomes: Sequence[Any], output: bytes) -> list[Observed]:
    observed: list[Observed] = []
    start = 0
    for (call, *_), outcome in zip(case.calls, outcomes, strict=True):
        if call is Call.APPLY:
            rows = np.frombuffer(output, TOKEN_DATA, outcome["size"], offset=start)
            start += rows.nbytes
            observed.append(
                Applied(
                    rows["id"].copy(),
                    rows["logit"].copy(),
                    rows["p"].copy(),
                    outcome["selected"],
                    outcome["ordered"],
                )
            )
        elif call is Call.DRAWS:
            tokens = np.frombuffer(output, "<i4", outcome["size"], offset=start)
            start += tokens.nbytes
            observed.append(Drawn(tokens.astype(np.int32)))
        else:
            observed.append(Returned(outcome))
    return observed


def expect(
    case: Case,
    generation: Generation,
    ties: Sequence[npt.NDArray[np.int64] | None] | None = None,
    factories: Mapping[str, Factory] = FACTORIES,
) -> list[Expected]:
    """What the reference makes of a case; the list ends with the first undefined outcome.

    Args:
        case: the question.
        generation: whose arithmetic.
        ties: for each call the order of equal scores, int64 by token id; None leaves them as they are.
        factories: the reference samplers, or wrong ones for a control.
    """
    objects = [Chain(case.chain, generation, factories)]
    last: dict[int, int] = {}
    expected: list[Expected] = []
    for position, (call, *arguments) in enumerate(case.calls):
        rank = ties[position] if ties is not None else None
        if call is Call.APPLY:
            which, source = arguments
            try:
                after = objects[which].apply(Candidates.of(case.inputs[source], rank))
            except UndefinedDistribution as reason:
                return [*expected, Undefined(str(reason))]
            last.pop(which, None)
            if after.selected >= 0:
                last[which] = int(after.ids[after.selected])
            expected.append(after)
        elif call is Call.DRAWS:
            which, source, count = arguments
            expected.append(Drawn(_draws(objects[which], Candidates.of(case.inputs[source]), count)))
        else:
            expected.append(Returned(_other(call, arguments, objects, last, len(case.chain))))
    return expected


def _draws(chain: Chain, candidates: Candidates, count: int) -> npt.NDArray[np.int32]:
    drawn = (
        after.ids[after.selected] if after.selected >= 0 else -1 for after in chain.draws(candidates, count)
    )
    return np.fromiter(drawn, np.int32, count)


def _other(
    call: Call, arguments: Sequence[int], objects: list[Chain], last: dict[int, int], length: int
) -> bool | None:
    """Carry out a call on the reference and say what it returns."""
    match call:
        case Call.ACCEPT:
            which, token = arguments
            token = last.get(which, -1) if token < 0 else token
            if token >= 0:
                objects[which].accept(token)
            return token >= 0
        case Call.CLONE:
            objects.append(objects[arguments[0]].clone())
            if arguments[0] in last:
                last[len(objects) - 1] = last[arguments[0]]
            return True
        case Call.RESET:
            objects[arguments[0]].reset()
            return None
        case Call.GET | Call.REMOVE:
            # Only indices out of range are asked for: they name no sampler.
            return 0 <= arguments[1] < length
        case Call.NULL | Call.ADD_NULL | Call.APPLY | Call.DRAWS:
            return None
