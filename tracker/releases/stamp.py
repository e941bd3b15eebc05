"""The stamp of an unpacked source: its identity, written last, so that a folder with one is whole.

Its file time is that of the last use.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from tracker.atomic import write_atomic
from tracker.releases import ChannelName, DateKind, ResolvedRelease

_STAMP = "release.json"


def write_stamp(folder: Path, release: ResolvedRelease) -> None:
    """Put the stamp into a folder whose other files are complete."""
    content = json.dumps(asdict(release), indent=2, sort_keys=True) + "\n"
    write_atomic(folder / _STAMP, content.encode())


def read_stamp(folder: Path) -> ResolvedRelease | None:
    """The identity that a folder's stamp states, or None when it has no readable one."""
    try:
        data = json.loads((folder / _STAMP).read_text(encoding="utf-8"))
        os.utime(folder / _STAMP)
        data["channel"] = ChannelName(data["channel"])
        data["date_kind"] = DateKind(data["date_kind"])
        return ResolvedRelease(**data)
    except (OSError, ValueError, TypeError, KeyError):
        return None
