"""Puts files through our own reader and says what went wrong, if anything.

It knows what may be expected of any reader (only its own error, memory and time in proportion, payload where
it says, refusal before work when a count cannot be) and derives it from the bytes, never from the reader.
"""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from oracle.gguf import GGUFError, GGUFFile, Rule, StringArray, expert_map, parse_gguf
from tracker.audits.gguf.mutants import Family, Mutant

Parse: TypeAlias = Callable[[bytes], GGUFFile]

PEAK_BASE = 8 << 10
PEAK_FACTOR = 24
"""A file may cost ``PEAK_BASE + PEAK_FACTOR * size`` bytes at most; 21.5 is the densest directory."""
CPU_SECONDS = 2.0

_HEADER = struct.Struct("<4sIQQ")
_LEAST_TENSOR, _LEAST_KEY_VALUE = 24, 13


@dataclass(frozen=True, slots=True)
class OwnVerdict:
    """What our reader made of a file: accepted, or refused by a rule at an offset."""

    rule: Rule | None
    offset: int | None = None
    contiguous: bool = True

    @property
    def accepted(self) -> bool:
        """Whether the file was accepted."""
        return self.rule is None

    @property
    def impossible(self) -> bool:
        """Whether the file cannot be what it says."""
        return self.rule is not None and GGUFError(self.rule, "", offset=None, source="").impossible


@dataclass(frozen=True, slots=True)
class Violation:
    """A file that our reader did not handle as any reader must: one line says how."""

    mutant: Mutant
    what: str


@dataclass
class FuzzReport:
    """What a run of our reader over many files came to."""

    files: int = 0
    peak: int = 0
    """Most bytes that one file cost."""
    seconds: float = 0.0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Files by family and verdict (``accepted`` or the rule)."""
    violations: list[Violation] = field(default_factory=list)


def own_verdict(data: bytes, parse: Parse = parse_gguf) -> OwnVerdict:
    """The reader's verdict; whatever else than GGUFError it raises comes through."""
    try:
        file = parse(data)
    except GGUFError as error:
        return OwnVerdict(error.rule, error.offset)
    return OwnVerdict(None, contiguous=file.contiguous)


def fuzz(mutants: Iterable[Mutant], parse: Parse = parse_gguf) -> FuzzReport:
    """Each file through the reader, and each accepted one read to its last byte. Never raises."""
    report = FuzzReport()
    started = time.perf_counter()
    tracemalloc.start()
    try:
        for mutant in mutants:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            cpu = time.process_time()
            verdict, complaint = _examine(mutant, parse)
            cpu = time.process_time() - cpu
            peak = tracemalloc.get_traced_memory()[1] - before
            report.files += 1
            report.peak = max(report.peak, peak)
            report.outcomes[mutant.family, verdict] += 1
            if complaint is None and peak > PEAK_BASE + PEAK_FACTOR * len(mutant.data):
                complaint = f"{peak} bytes allocated for a file of {len(mutant.data)}"
            if complaint is None and cpu > CPU_SECONDS:
                complaint = f"more than {CPU_SECONDS:g} s of processor time"
            if complaint is not None:
                report.violations.append(Violation(mutant, complaint))
    finally:
        tracemalloc.stop()
    report.seconds = time.perf_counter() - started
    return report


def complaint_about(mutant: Mutant, parse: Parse = parse_gguf) -> str | None:
    """What our reader does wrong with one file, or None. Memory and time are not looked at."""
    return _examine(mutant, parse)[1]


def _examine(mutant: Mutant, parse: Parse) -> tuple[str, str | None]:
    """``(verdict, complaint)`` for one file."""
    try:
        file = parse(mutant.data)
    except GGUFError as error:
        return str(error.rule), _wrong_refusal(mutant, error)
    except Exception as error:
        return "escaped", f"{type(error).__name__} escaped from the reader"
    try:
        wrong = _read_everything(file, len(mutant.data))
    except Exception as error:
        return "escaped", f"{type(error).__name__} escaped while the accepted file was read"
    return "accepted", wrong or _wrong_acceptance(mutant)


def _wrong_refusal(mutant: Mutant, error: GGUFError) -> str | None:
    if mutant.family is Family.SEED:
        return f"a valid seed is refused: {error}"
    if "\n" in str(error):
        return "the error's message has more than one line"
    if error.offset is None or not 0 <= error.offset <= len(mutant.data):
        return f"the error's offset {error.offset} is not in the file"
    due = _impossible_count_at(mutant.data)
    if due is not None and error.offset != due:
        return f"an impossible count at byte {due} is refused only at byte {error.offset}"
    return None


def _wrong_acceptance(mutant: Mutant) -> str | None:
    if mutant.family is Family.TRUNCATION:
        return "a truncated file is accepted"
    if _impossible_count_at(mutant.data) is not None:
        return "an impossible count is accepted"
    return None


def _impossible_count_at(data: bytes) -> int | None:
    """Where the header counts more than the rest of the file can hold, by the format's least sizes."""
    if len(data) < _HEADER.size:
        return None
    magic, version, tensors, key_values = _HEADER.unpack_from(data)
    if magic != b"GGUF" or version not in (2, 3):
        return None
    left = len(data) - _HEADER.size
    if tensors * _LEAST_TENSOR > left:
        return 8
    return 16 if key_values * _LEAST_KEY_VALUE > left else None


def _read_everything(file: GGUFFile, size: int) -> str | None:
    """First and last byte of every tensor and expert, every string, every number."""
    for tensor in file.tensors.values():
        view = file.data(tensor)
        if len(view) != tensor.nbytes or not 0 < tensor.offset + tensor.nbytes <= size:
            return f"tensor {tensor.name!a} is said to have {tensor.nbytes} bytes, {len(view)} are there"
        _ = view[0], view[-1]
    for value in file.metadata.values():
        content = value.content
        if isinstance(content, StringArray):
            if sum(map(len, content)) > size:
                return "the strings of an array are longer than the file"
        elif isinstance(content, np.ndarray) and content.nbytes > size:
            return "an array is longer than the file"
    try:
        blocks = expert_map(file)
    except GGUFError:
        return None
    for block in blocks:
        for experts in (block.gate, block.up, block.down):
            if experts is None:
                continue
            view = file.data(experts.tensor)
            for expert in range(experts.count):
                offset, nbytes = experts.slice(expert)
                start = offset - experts.tensor.offset
                if nbytes < 1 or start + nbytes > len(view):
                    return f"expert {expert} of {experts.tensor.name!a} lies outside its tensor"
                _ = view[start], view[start + nbytes - 1]
    return None
