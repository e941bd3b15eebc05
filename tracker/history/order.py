"""Which build is newer. Pure.

Upstream's build number decides between two builds that have one; the upstream commit's date decides the
rest. The two may disagree (a commit can be dated before its parent), and then "number if both have one, else
date" would run in circles; so dates give the places, and builds with numbers share theirs out by number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

from tracker.results import BuildIdentity

Item = TypeVar("Item")

_PARTS = re.compile(r"(\d+)")


def order_key(build: BuildIdentity) -> tuple[float, str, list[tuple[int, str]], str]:
    """Sorts builds by date; equal dates by channel and version, numbers in a version as numbers."""
    moment = moment_of(build)
    assert moment is not None, "only dated builds have a place"
    version = [(int(part), "") if part.isdigit() else (-1, part) for part in _PARTS.split(build.version)]
    return moment.timestamp(), build.channel, version, build.id


def moment_of(build: BuildIdentity) -> datetime | None:
    """The date of a build, in UTC when it names no zone; None when it has none that can be read."""
    try:
        moment = datetime.fromisoformat(build.date or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def in_order(
    items: Iterable[Item], build_of: Callable[[Item], BuildIdentity]
) -> tuple[list[Item], list[Item]]:
    """Items by the age of their builds, oldest first, and those that have no place, by id.

    No place have patched builds (they are no release) and builds without a date. The result does not depend
    on the order of ``items``, as long as no two builds share an id.
    """
    placed: list[Item] = []
    aside: list[Item] = []
    for item in items:
        build = build_of(item)
        (aside if build.patch or moment_of(build) is None else placed).append(item)
    placed.sort(key=lambda item: order_key(build_of(item)))
    slots = [index for index, item in enumerate(placed) if build_of(item).build_number is not None]
    numbered = sorted(
        (placed[index] for index in slots),
        key=lambda item: (build_of(item).build_number or 0, order_key(build_of(item))),
    )
    for index, item in zip(slots, numbered, strict=True):
        placed[index] = item
    return placed, sorted(aside, key=lambda item: build_of(item).id)
