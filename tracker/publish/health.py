"""What has gone wrong with the tracker itself, and for how many nights in a row.

Results hold no time, so this memory is a small file of its own beside the reports, written once a night. A
night has a name (the run's number): counting the same one twice does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tracker.atomic import write_atomic
from tracker.errors import TrackerError
from tracker.publish.facts import Trouble

FILE = "trouble.json"
SCHEMA = 1
MAX_WHAT = 500


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that went wrong tonight. ``grave`` ones are told at once, others when they persist."""

    key: str
    what: str
    grave: bool = False


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Item(_Model):
    """A problem that lasts: what it is now, since which night, for how many."""

    what: str
    since: str
    nights: int = Field(ge=1)
    grave: bool = False


class Log(_Model):
    """Every problem of the last night that was counted."""

    schema_version: int = SCHEMA
    night: str = ""
    items: dict[str, Item] = Field(default_factory=dict)


def count_night(log: Log, problems: Iterable[Problem], night: str, *, unknown: bool = False) -> Log:
    """The log after a night.

    What did not recur is over, unless the night was too broken to tell (``unknown``).
    """
    items: dict[str, Item] = dict(log.items) if unknown else {}
    for problem in problems:
        before = log.items.get(problem.key)
        items[problem.key] = Item(
            what=" ".join(problem.what.split())[:MAX_WHAT],
            since=before.since if before else night,
            nights=before.nights + (night != log.night) if before else 1,
            grave=problem.grave,
        )
    return Log(night=night, items=items)


def troubles_in(log: Log, after_nights: int) -> list[Trouble]:
    """What is to be told: grave problems, and those that have lasted, by key."""
    return [
        Trouble(key=key, what=item.what, since=item.since, nights=item.nights)
        for key, item in sorted(log.items.items())
        if item.grave or item.nights >= after_nights
    ]


def read_log(folder: Path) -> Log | None:
    """The log beside the reports; None when no night was counted yet.

    Raises TrackerError when it cannot be read.
    """
    path = folder / FILE
    try:
        log = Log.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        problem = " ".join(error.errors()[0]["msg"].split())
        raise TrackerError(f"{path}: {problem}: corrupt; remove it, nights are then counted anew") from None
    if log.schema_version != SCHEMA:
        raise TrackerError(f"{path}: schema {log.schema_version} is not {SCHEMA}: use another llama-tracker")
    return log


def write_log(folder: Path, log: Log) -> None:
    """Writes the log whole or not at all."""
    content: Mapping[str, object] = log.model_dump(mode="json")
    write_atomic(folder / FILE, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode())
