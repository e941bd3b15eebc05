"""A search over releases: asks ``search`` what to look at, looks, and keeps the log.

It can be killed at any moment and run again: everything seen is in the log, and the search goes on from
there. It prints nothing; whoever runs it is told of each step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tracker.bisect.looks import Examine, Log, Look, held_against
from tracker.bisect.search import DEFAULT_PATIENCE, Answer, Outcome, Probe, plan
from tracker.bisect.workers import Workers
from tracker.errors import TrackerError, UsageError
from tracker.releases import ChannelName, Release


class Listener(Protocol):
    """Is told how a search goes."""

    def next_step(self, release: Release, probe: Probe, seconds_left: float | None) -> None:
        """A release is going to be looked at; ``seconds_left`` is a guess at all that is left."""
        ...

    def seen(self, look: Look) -> None:
        """A release was looked at, now or (``look.remembered``) in an earlier run."""
        ...

    def dropped(self, release: Release) -> None:
        """A look ahead was given up, since another verdict has made it needless."""
        ...


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a search over releases found.

    Attributes:
        releases: the whole range, oldest first; the answer's indices point into it.
        looks: what was seen, by index.
        order: the indices in the order in which they were seen.
        answer: the search's.
    """

    releases: tuple[Release, ...]
    looks: Mapping[int, Look]
    order: tuple[int, ...]
    answer: Answer

    @property
    def last(self) -> Look:
        """The last release that answers like the older end; only when FOUND."""
        return self.looks[self.answer.last]

    @property
    def first(self) -> Look:
        """The first release that answers like the newer end; only when FOUND."""
        return self.looks[self.answer.first]

    @property
    def found(self) -> bool:
        """Whether there is a last and a first one."""
        return self.answer.outcome is Outcome.FOUND


@dataclass
class Session:
    """One search.

    Attributes:
        releases: the range, oldest first.
        examine: looks at one of them.
        log: where looks are kept.
        listener: is told.
        jobs: looks at once; with more than one, the likely next ones are begun ahead.
        patience: see ``search``.
    """

    releases: Sequence[Release]
    examine: Examine
    log: Log
    listener: Listener
    jobs: int = 1
    patience: int = DEFAULT_PATIENCE
    _looks: dict[int, Look] = field(default_factory=dict)
    _order: list[int] = field(default_factory=list)

    def run(self) -> Result:
        """Search until there is an answer. Raises UsageError for a range of one, and what looking raises."""
        if len(self.releases) < 2:
            raise UsageError(f"{self.releases[0]}: a range needs two different ends")
        self._recall()
        answer = self._alone() if self.jobs <= 1 else self._ahead()
        return Result(
            releases=tuple(self.releases), looks=self._judged(), order=tuple(self._order), answer=answer
        )

    def _recall(self) -> None:
        remembered = self.log.read()
        for index, release in enumerate(self.releases):
            if (look := remembered.get(str(release))) is not None:
                self._note(index, look)

    def _alone(self) -> Answer:
        while not isinstance(probes := self._plan(), Answer):
            self._tell(probes[0])
            look = self.examine(self.releases[probes[0].index])
            self.log.append(look)
            self._note(probes[0].index, look)
        return probes

    def _ahead(self) -> Answer:
        failed: dict[int, TrackerError] = {}
        with Workers(self.examine) as workers:
            while not isinstance(probes := self._plan(), Answer):
                # An error counts where the search has to look next, as it would without looking ahead.
                if probes[0].index in failed:
                    raise failed[probes[0].index]
                wanted = {probe.index: probe for probe in probes if probe.index not in failed}
                for index in set(workers.running) - set(wanted):
                    workers.stop(index)
                    self.listener.dropped(self.releases[index])
                for index, probe in wanted.items():
                    if index not in workers.running:
                        self._tell(probe)
                        workers.start(index, self.releases[index])
                index, look = workers.next()
                if isinstance(look, TrackerError):
                    failed[index] = look
                    continue
                self.log.append(look)
                self._note(index, look)
        return probes

    def _plan(self) -> tuple[Probe, ...] | Answer:
        verdicts = {index: look.verdict for index, look in self._judged().items()}
        return plan(
            verdicts,
            len(self.releases),
            self.jobs,
            priorities=[priority(release) for release in self.releases],
            patience=self.patience,
        )

    def _note(self, index: int, look: Look) -> None:
        self._looks[index] = look
        self._order.append(index)
        self.listener.seen(self._judged()[index])

    def _judged(self) -> Mapping[int, Look]:
        """The looks, those of newer builds held against the oldest one's."""
        oldest = self._looks.get(0)
        if oldest is None:
            return dict(self._looks)
        return {index: held_against(oldest, look) for index, look in self._looks.items()}

    def _tell(self, probe: Probe) -> None:
        times = [look.seconds for look in self._looks.values() if not look.remembered]
        each = sum(times) / len(times) if times else None
        left = None if each is None else each * probe.steps_left
        self.listener.next_step(self.releases[probe.index], probe, left)


def priority(release: Release) -> int:
    """A number that belongs to a release, whatever range it is searched in."""
    name = release.version if release.channel is ChannelName.GIT else str(release)
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
