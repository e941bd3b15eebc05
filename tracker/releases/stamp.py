"""The stamp of an unpacked source: its identity, written last, so that a folder with one is whole."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from tracker.releases import ChannelName, DateKind, ResolvedRelease

_STAMP = "release.json"


def write_stamp(folder: Path, release: ResolvedRelease) -> None:
    """Put the stamp into a folder whose other files are complete."""
    with open(folder / _STAMP, "w", encoding="utf-8") as file:
        file.write(json.dumps(asdict(release), indent=2, sort_keys=True) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_stamp(folder: Path) -> ResolvedRelease | None:
    """The identity that a folder's stamp states, or None when it has no readable one."""
    try:
        data = json.loads((folder / _STAMP).read_text(encoding="utf-8"))
        data["channel"] = ChannelName(data["channel"])
        data["date_kind"] = DateKind(data["date_kind"])
        return ResolvedRelease(**data)
    except (OSError, ValueError, TypeError, KeyError):
        return None
