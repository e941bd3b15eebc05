"""Findings as files of text: each file's bytes in hex, so that it can be read, kept and replayed.

It knows the form of the YAML and its bounds; it does not know how findings are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tracker.atomic import write_atomic
from tracker.errors import UsageError

MAXIMUM_BYTES = 1024
"""Largest file that is kept."""


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file that once was a finding: what it was made from, what it is about, its bytes."""

    name: str
    why: str
    data: bytes


def save_files(path: Path, files: Sequence[SavedFile]) -> None:
    """Write files to ``path``, by name. UsageError when it cannot be written or one is too large."""
    entries = []
    for file in sorted(files, key=lambda file: file.name):
        if len(file.data) > MAXIMUM_BYTES:
            raise UsageError(
                f"{path}: {file.name} has {len(file.data)} bytes: at most {MAXIMUM_BYTES} are kept"
            )
        entries.append({"name": file.name, "why": file.why, "hex": file.data.hex()})
    # Escaped: YAML folds line separators such as U+0085 that stand as themselves.
    text = yaml.safe_dump(entries, sort_keys=False, width=110)
    try:
        write_atomic(path, text.encode())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: give a file that can be written") from None


def load_files(path: Path) -> tuple[SavedFile, ...]:
    """The files saved at ``path``. UsageError with the entry that is wrong."""
    try:
        entries = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: give a file of saved findings") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError(f"{path}: is no YAML: give a file of saved findings") from None
    if not isinstance(entries, list):
        raise UsageError(f"{path}: is no list of findings: give a file of saved findings")
    return tuple(_file(path, number, entry) for number, entry in enumerate(entries))


def _file(path: Path, number: int, entry: object) -> SavedFile:
    try:
        if not isinstance(entry, dict):
            raise TypeError
        file = SavedFile(str(entry["name"]), str(entry["why"]), bytes.fromhex(entry["hex"]))
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{path}: entry {number}: needs name, why and hex") from None
    if len(file.data) > MAXIMUM_BYTES:
        raise UsageError(f"{path}: entry {number}: has more than {MAXIMUM_BYTES} bytes")
    return file
