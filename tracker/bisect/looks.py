"""Looking at one release: fetch, build, ask; and the log of what was seen, to go on from.

Knows which troubles are the release's own (a verdict: untestable) and which are this machine's (an error that
stops the search: no compiler, a full disk, no network). A log is one file a question, one line a look,
appended and flushed as it comes; a line cut off by a kill is skipped. Only present and absent are taken from
it: what was untestable is asked again, and builds that do not compile are remembered by the cache of builds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Protocol

from tracker import bisect, libllama
from tracker.bisect.questions import Question, digest, one_line
from tracker.bisect.search import Verdict
from tracker.build import BuildError, build_release
from tracker.cache import Cache
from tracker.libllama import handlers
from tracker.recipe import RECIPE
from tracker.releases import Release, ReleaseError, ResolvedRelease
from tracker.releases.channels import fetch
from tracker.tasks import code_sha256
from tracker.toolchain import toolchain


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of one release.

    ``seconds`` is what fetching, building and asking took together, ``build_seconds`` the building alone;
    ``remembered`` says that it comes from the log of an earlier run. ``shown``, ``looked`` and ``unread`` are
    the reply's.
    """

    release: str
    verdict: Verdict
    detail: str = ""
    build_id: str = ""
    commit: str = ""
    build_number: int | None = None
    date: str = ""
    seconds: float = 0.0
    build_seconds: float = 0.0
    remembered: bool = False
    shown: Sequence[Sequence[str]] = ()
    looked: Sequence[str] = ()
    unread: str = ""


def held_against(older: Look, look: Look) -> Look:
    """A look at a newer build, untestable where it is absent for want of looking.

    What an older build has shown is mended only where it was looked for again. The other way round, a build
    that does not come to the place, or does not read the grammar, has not shown it yet.
    """
    if older.verdict is not Verdict.PRESENT or look.verdict is not Verdict.ABSENT:
        return look
    if look.unread:
        return replace(look, verdict=Verdict.UNTESTABLE, detail=look.unread)
    if all(set(look.looked).intersection(places) for places in older.shown):
        return look
    reason = f"its walk has not come to places that showed it on {older.release}"
    return replace(look, verdict=Verdict.UNTESTABLE, detail=reason)


class Examine(Protocol):
    """From a release to what is seen of it; picklable."""

    def __call__(self, release: Release) -> Look:
        """Look at a release."""
        ...


@dataclass(frozen=True)
class BuildAndAsk:
    """The way to look at a release: fetch its source, build it, ask.

    ``jobs`` is the number of compile processes; ``retry`` builds again what did not build before.
    """

    question: Question
    cache: Cache
    jobs: int
    retry: bool = False

    def __call__(self, release: Release) -> Look:
        """See ``Examine``. Raises TrackerError and OSError where no release is to blame."""
        begun = time.perf_counter()
        look = Look(release=str(release), verdict=Verdict.UNTESTABLE)
        built = 0.0
        try:
            source = fetch(release, self.cache)
            look = _identified(look, source.release)
            before = time.perf_counter()
            try:
                build = build_release(source, cache=self.cache, jobs=self.jobs, retry_failed=self.retry)
            finally:
                built = time.perf_counter() - before
            reply = self.question.ask(build)
            look = replace(look, **{each.name: getattr(reply, each.name) for each in fields(reply)})
        except (BuildError, ReleaseError) as error:
            if error.passing:
                raise
            look = replace(look, detail=one_line(str(error)))
        return replace(look, seconds=time.perf_counter() - begun, build_seconds=built)


def _identified(look: Look, release: ResolvedRelease) -> Look:
    return replace(
        look,
        build_id=release.id,
        commit=release.commit,
        build_number=release.build_number,
        date=release.date,
    )


@dataclass(frozen=True, slots=True)
class Log:
    """The looks at releases that one question has led to, in a file."""

    path: Path

    @classmethod
    def of(cls, question: Question, cache: Cache) -> Log:
        """The log of a question in the cache, one for each toolchain and version of what asks.

        Raises ToolchainError.
        """
        ours = code_sha256(bisect, libllama, handlers)
        name = digest(question.identity, toolchain().identity, RECIPE, ours)
        return cls(cache.folder("bisect") / f"{name}.jsonl")

    def read(self) -> Mapping[str, Look]:
        """The last verdict of each release; empty when there is no log."""
        found: dict[str, Look] = {}
        for line in self._lines():
            try:
                raw = json.loads(line)
                look = Look(**{**raw, "verdict": Verdict(raw["verdict"]), "remembered": True})
            except (ValueError, TypeError, KeyError):
                continue
            if look.verdict is not Verdict.UNTESTABLE:
                found[look.release] = look
        return found

    def _lines(self) -> list[str]:
        try:
            return self.path.read_text("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return []

    def append(self, look: Look) -> None:
        """Add a look; it is on disk when this returns."""
        line = json.dumps(asdict(look), sort_keys=True) + "\n"
        with open(self.path, "a+b") as file:
            # A line that a kill has cut off must not swallow this one.
            if file.tell() and not _ends_a_line(self.path):
                line = "\n" + line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def forget(self) -> None:
        """Begin anew."""
        self.path.unlink(missing_ok=True)


def _ends_a_line(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
