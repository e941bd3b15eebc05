"""The vocabulary of the publisher: what an issue is to us, what can be done to it, and our hidden marks.

A mark is an HTML comment that GitHub does not show. Marks fill the first lines of a text and count nowhere
else, so that a grammar quoted further down cannot carry one. Each is written and read back by functions that
stand next to each other, so that the two cannot drift apart. This module decides nothing and calls nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

LABEL = "llama-tracker"
"""Every issue of ours carries it; issues are found by listing it."""

IGNORE_LABEL = "llama-tracker:ignore"
"""A person's word that the bot is to leave an issue alone."""

HEALTH = "health"
"""The subject of the one issue about the tracker itself."""

_SUBJECT = re.compile(r"<!-- llama-tracker (watch=[A-Za-z0-9_.-]{1,64}|health) -->")
_TOLD = re.compile(r"<!-- llama-tracker told=(\{.{1,4000}\}) -->")
_EVENT = re.compile(r"<!-- llama-tracker event=([0-9a-f]{24}) -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An issue as it stands on GitHub; ``closed_as`` is GitHub's ``state_reason`` of a closed one."""

    number: int
    author: str
    title: str
    body: str
    open: bool
    closed_as: str | None
    labels: frozenset[str]


class Event(StrEnum):
    """What a comment tells about a watch."""

    CHANGED = "changed"
    FIXED = "fixed"
    REGRESSED = "regressed"
    STILL_PRESENT = "still present"
    """A person closed the issue as completed, and a newer build shows it."""
    RE_MEASURED = "present"
    """A closed issue's watch is present, and today's audit cannot be compared with what was told before."""


class Told(BaseModel):
    """What an issue's readers were told last; kept in its body, so that the issue is its own memory.

    ``build`` is the newest build whose verdict was told; ``verdict`` and ``fingerprint`` are that verdict,
    and ``audit_version`` says with which other verdicts it may be compared.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: Literal["present", "absent"]
    build: str
    audit_version: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Create:
    """A new issue. ``subject`` is ``watch=NAME`` or ``health``; the body carries the same as a mark."""

    subject: str
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Comment:
    """Something new, told to everybody who follows the issue. ``event`` names it, so that it is told once."""

    subject: str
    number: int
    event: str
    body: str


@dataclass(frozen=True, slots=True)
class Edit:
    """The issue's body, replaced silently."""

    subject: str
    number: int
    body: str


@dataclass(frozen=True, slots=True)
class Close:
    """The issue closed as completed, with a new body."""

    subject: str
    number: int
    body: str


@dataclass(frozen=True, slots=True)
class Reopen:
    """The issue opened again, with a new body."""

    subject: str
    number: int
    body: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """No call, and the reason for it."""

    subject: str
    number: int | None
    reason: str


Change = Create | Comment | Edit | Close | Reopen
Action = Change | Nothing


def watch_subject(name: str) -> str:
    """The subject of a watch's issue."""
    return f"watch={name}"


def subject_mark(subject: str) -> str:
    """The mark by which an issue of ours is known."""
    return f"<!-- llama-tracker {subject} -->"


def subject_of(body: str) -> str | None:
    """The subject that a body's first line names."""
    return _mark(_SUBJECT, body, 0)


def told_mark(told: Told) -> str:
    """The mark that remembers what was told."""
    text = json.dumps(told.model_dump(), sort_keys=True, separators=(",", ":"))
    # "--" would end the HTML comment for some parsers, and ">" for others.
    text = text.replace("--", "-\\u002d").replace(">", "\\u003e")
    return f"<!-- llama-tracker told={text} -->"


def told_in(body: str) -> Told | None:
    """What a body's second line remembers; None when a person has removed or damaged the mark."""
    found = _mark(_TOLD, body, 1)
    try:
        return Told.model_validate_json(found) if found else None
    except ValidationError:
        return None


def event_name(*parts: str) -> str:
    """A name for what a comment tells: equal parts give equal names."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def event_mark(event: str) -> str:
    """The mark by which a comment of ours is known."""
    return f"<!-- llama-tracker event={event} -->"


def event_of(body: str) -> str | None:
    """The event that a comment's first line names."""
    return _mark(_EVENT, body, 0)


def same_text(one: str, other: str) -> bool:
    """Whether GitHub would show the same: line ends and trailing space do not count."""
    return one.replace("\r\n", "\n").rstrip() == other.replace("\r\n", "\n").rstrip()


def _mark(pattern: re.Pattern[str], body: str, line: int) -> str | None:
    lines = body.split("\n", line + 1)
    # GitHub's own editor leaves carriage returns.
    match = pattern.fullmatch(lines[line].rstrip()) if len(lines) > line else None
    return match[1] if match else None
