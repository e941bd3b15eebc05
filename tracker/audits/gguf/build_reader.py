"""Asks a build what it makes of files; its answers are outcomes, whatever happened to the process.

It knows the request and its limits, and turns a dying process's last words into a cause that is the same on
every machine. It does not know which outcome is right.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tracker.libllama.client import LibllamaClient, WorkerDied


class Reader(StrEnum):
    """The ways in which a build reads a file."""

    DIRECTORY = "directory"
    """gguf_init_from_file without the tensors' data, as a model load begins."""
    DATA = "data"
    """gguf_init_from_file with the tensors' data."""
    VOCABULARY = "vocabulary"
    """A vocabulary-only load."""


class OutcomeKind(StrEnum):
    """What came of a file."""

    REFUSED = "refused"
    ACCEPTED = "accepted"
    CRASH = "crash"
    HANG = "hang"
    MEMORY = "memory"
    """The limit of address space was hit, whether or not the process survived it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a build did with one file: ``said`` is what it wrote, ``notes`` what is off although accepted."""

    kind: OutcomeKind
    signal: int | None = None
    said: str = ""
    notes: tuple[str, ...] = ()


CPU_SECONDS = 1.0
WALL_SECONDS = 20.0
MEMORY = 96 << 20
"""What a file of 1 KiB may take, in bytes. No power of two, so that files do not come to lie on the limit."""
_BATCH = 400

CONTROLS = {
    "control-crash": OutcomeKind.CRASH,
    "control-hang": OutcomeKind.HANG,
    "control-memory": OutcomeKind.MEMORY,
}
"""Readers that are none: what the audit has to see of each."""


def outcomes(client: LibllamaClient, reader: str, files: Sequence[bytes]) -> Iterator[Outcome]:
    """One outcome for each file, in order. ``reader`` is a ``Reader`` or one of ``CONTROLS``."""
    for start in range(0, len(files), _BATCH):
        yield from _ask(client, reader, files[start : start + _BATCH])


def _ask(client: LibllamaClient, reader: str, files: Sequence[bytes]) -> list[Outcome]:
    asked = {
        "side": str(reader),
        "sizes": [len(data) for data in files],
        "each": {"cpu_seconds": CPU_SECONDS, "wall_seconds": WALL_SECONDS, "memory": MEMORY},
    }
    try:
        header, _ = client.request("gguf.examine", asked, b"".join(files))
    except WorkerDied:
        # The process that survives others' deaths died or ran out of its own time: smaller steps tell where.
        if len(files) == 1:
            raise
        middle = len(files) // 2
        return _ask(client, reader, files[:middle]) + _ask(client, reader, files[middle:])
    return [
        Outcome(OutcomeKind(kind), number, str(said), tuple(notes))
        for kind, number, said, notes in header["outcomes"]
    ]


_ASSERTION = re.compile(r"^\S+:\d+: (GGML_ASSERT\(.*\) failed)$", re.MULTILINE)
_ABORT = re.compile(r"^\S+\.(?:c|cpp|h|hpp):\d+: (.+)$", re.MULTILINE)
_UNCAUGHT = re.compile(r"terminate called after throwing an instance of '([^']+)'")


def cause_of_death(outcome: Outcome) -> str:
    """Why a process died or ran out of memory, without anything that differs between machines."""
    name = "no signal" if outcome.signal is None else signal.Signals(outcome.signal).name
    if match := _ASSERTION.search(outcome.said):
        return f"{name}: {match[1]}"
    if match := _UNCAUGHT.search(outcome.said):
        return f"{name}: uncaught {match[1]}"
    if outcome.kind is OutcomeKind.MEMORY and outcome.signal is None:
        return "caught: std::bad_alloc" if "bad_alloc" in outcome.said else "caught: no memory"
    if match := _ABORT.search(outcome.said):
        return f"{name}: {match[1]}"
    return name


def last_words(outcome: Outcome) -> str:
    """The first line that a build wrote about a file, without names, numbers and paths that vary."""
    lines = [line for line in outcome.said.splitlines() if line.strip()]
    if not lines:
        return ""
    text = re.sub(r"/\S*/", "", lines[0])
    text = re.sub(r"'[^']*'?", "'...'", text)
    return re.sub(r"[^\x20-\x7e]", "?", re.sub(r"-?\d+", "N", text))[:200]
