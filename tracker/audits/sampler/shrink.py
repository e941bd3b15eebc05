"""From a case that shows something to a smaller one that still shows it.

Greedy: try smaller variants until none shows it or the allowance is used up. It does not know what is shown.
Each pass is a generator that yields variants and is sent whether the variant shows it, so that it can go on
from there instead of beginning again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import fields, replace

import numpy as np

from oracle.sampling import Specification
from tracker.audits.sampler.case import Call, Case, Invocation, Logits

Pass = Callable[[Case], Generator[Case, bool, None]]

_COARSE = 16
"""The coarse passes over logits end at a sixteenth of them; single ones come last."""


def shrink(case: Case, shows: Callable[[Case], bool], allowance: int) -> Case:
    """The smallest variant found of a case that shows something.

    Args:
        case: shows it.
        shows: whether a case shows it; deterministic.
        allowance: how often ``shows`` may be asked.
    """
    before: tuple[int, ...] = ()
    while case.size != before:
        before = case.size
        for step in _PASSES:
            variants = step(case)
            variant = next(variants, None)
            while variant is not None:
                accepted = False
                if variant.size < case.size:
                    if allowance <= 0:
                        return case
                    allowance -= 1
                    accepted = shows(variant)
                if accepted:
                    case = variant
                try:
                    variant = variants.send(accepted)
                except StopIteration:
                    variant = None
    return case


def _chunks(length: int, smallest: int) -> Iterator[int]:
    """Sizes of chunks: all, a half, a quarter, … down to the smallest."""
    size = length
    while size >= max(smallest, 1):
        yield size
        size //= 2


def _without_sampler(case: Case) -> Generator[Case, bool, None]:
    i = 0
    while len(case.chain) > 1 and i < len(case.chain):
        variant = replace(case, chain=case.chain[:i] + case.chain[i + 1 :])
        if (yield variant):
            case = variant
        else:
            i += 1


def _without_calls(case: Case) -> Generator[Case, bool, None]:
    for size in _chunks(len(case.calls), 1):
        start = 0
        while start < len(case.calls):
            calls = case.calls[:start] + case.calls[start + size :]
            variant = replace(case, calls=calls)
            if calls and _is_valid(calls) and (yield variant):
                case = variant
            else:
                start += size


def _is_valid(calls: Sequence[Invocation]) -> bool:
    """Whether each call names an object that has been made."""
    objects = 1
    for call, *arguments in calls:
        if call is not Call.NULL and arguments[0] >= objects:
            return False
        objects += call is Call.CLONE
    return True


def _fewer_draws(case: Case) -> Generator[Case, bool, None]:
    for i, (call, *arguments) in enumerate(case.calls):
        if call is Call.DRAWS:
            count = arguments[2]
            for step in _chunks(count, 1):
                while count > step:
                    shorter: Invocation = (call, arguments[0], arguments[1], count - step)
                    variant = replace(case, calls=(*case.calls[:i], shorter, *case.calls[i + 1 :]))
                    if not (yield variant):
                        break
                    case, count = variant, count - step


def _without_inputs(case: Case) -> Generator[Case, bool, None]:
    """Inputs that no call mentions."""
    for i in reversed(range(len(case.inputs))):
        takes = (Call.APPLY, Call.DRAWS)
        used = any(call in takes and arguments[1] == i for call, *arguments in case.calls)
        if len(case.inputs) > 1 and not used:
            calls = tuple(_renumbered(invocation, i) for invocation in case.calls)
            variant = replace(case, inputs=case.inputs[:i] + case.inputs[i + 1 :], calls=calls)
            if (yield variant):
                case = variant


def _renumbered(invocation: Invocation, dropped: int) -> Invocation:
    call, *arguments = invocation
    if call in (Call.APPLY, Call.DRAWS) and arguments[1] > dropped:
        arguments[1] -= 1
    return (call, *arguments)


def _without_logits(case: Case, smallest: int | None = None) -> Generator[Case, bool, None]:
    """Leaves at least one: nothing to choose from is another matter than a choice."""
    for i in range(len(case.inputs)):
        length = len(case.inputs[i])
        for size in _chunks(length // 2, length // _COARSE if smallest is None else smallest):
            start = 0
            while start < len(case.inputs[i]):
                fewer = np.delete(case.inputs[i], slice(start, start + size))
                variant = _with_input(case, i, fewer)
                if len(fewer) and (yield variant):
                    case = variant
                else:
                    start += size


def _without_single_logits(case: Case) -> Generator[Case, bool, None]:
    yield from _without_logits(case, 1)


def _zeroed(case: Case) -> Generator[Case, bool, None]:
    for i in range(len(case.inputs)):
        for size in _chunks(len(case.inputs[i]), 1):
            start = 0
            while start < len(case.inputs[i]):
                changed = case.inputs[i].copy()
                changed[start : start + size] = 0
                variant = _with_input(case, i, changed)
                if variant.size < case.size and (yield variant):
                    case = variant
                start += size


def _simpler_numbers(case: Case) -> Generator[Case, bool, None]:
    for i in range(len(case.inputs)):
        variant = _with_input(case, i, np.round(case.inputs[i]))
        if (yield variant):
            case = variant
        for value in np.unique(case.inputs[i])[:16].tolist():
            if value == 0 or not np.isfinite(value):
                continue
            for simpler in (1.0, 2.0, -1.0, float(f"{value:.0e}"), float(np.round(value))):
                changed = case.inputs[i].copy()
                changed[changed == np.float32(value)] = simpler
                variant = _with_input(case, i, changed)
                if (yield variant):
                    case = variant
                    break


def _simpler_parameters(case: Case) -> Generator[Case, bool, None]:
    for i in range(len(case.chain)):
        for field in fields(case.chain[i]):
            value = getattr(case.chain[i], field.name)
            if isinstance(value, int):
                for step in _chunks(abs(value), 1):
                    smaller = value - step if value > 0 else value + step
                    variant = _with_parameter(case, i, replace(case.chain[i], **{field.name: smaller}))
                    if (yield variant):
                        case, value = variant, smaller
                continue
            for simpler in _simpler(case.chain[i], field.name):
                variant = _with_parameter(case, i, simpler)
                if (yield variant):
                    case = variant
                    break


def _with_parameter(case: Case, index: int, specification: Specification) -> Case:
    return replace(case, chain=(*case.chain[:index], specification, *case.chain[index + 1 :]))


def _simpler(specification: Specification, name: str) -> Iterator[Specification]:
    value = getattr(specification, name)
    if isinstance(value, float) and np.isfinite(value):
        for simple in (0.0, 1.0, 0.5, float(f"{value:.0e}")):
            yield replace(specification, **{name: simple})
    elif isinstance(value, tuple):
        for k in range(len(value)):
            yield replace(specification, **{name: value[:k] + value[k + 1 :]})


def _with_input(case: Case, index: int, logits: Logits) -> Case:
    changed = logits.astype(np.float32)
    return replace(case, inputs=(*case.inputs[:index], changed, *case.inputs[index + 1 :]))


_PASSES: tuple[Pass, ...] = (
    _without_sampler,
    _without_calls,
    _without_inputs,
    _fewer_draws,
    _without_logits,
    _zeroed,
    _simpler_numbers,
    _simpler_parameters,
    _without_single_logits,
)
