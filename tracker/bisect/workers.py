"""Looks at several releases at once, each in a process of its own that can be stopped.

A look in a thread could not be: the compilers it has started would go on. A worker that is told to stop gets
the signal of Ctrl-C and ends what it has started. Knows nothing of searches.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import threading
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Self

from tracker.bisect.looks import Examine, Look
from tracker.errors import TrackerError
from tracker.releases import Release

_GRACE_SECONDS = 20.0


@dataclass
class Workers:
    """Running looks by index; a context manager that leaves none behind."""

    examine: Examine
    running: dict[int, tuple[BaseProcess, Connection]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for index in list(self.running):
            self._signal(index)
        for index in list(self.running):
            self._join(index)

    def start(self, index: int, release: Release) -> None:
        """Begin to look at a release."""
        # Forked from a server of their own: this process may have threads.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tracker.bisect.deviations", "tracker.bisect.looks"])
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, self.examine, release), daemon=False)
        process.start()
        theirs.close()
        self.running[index] = (process, ours)

    def stop(self, index: int) -> None:
        """Give up a look that is not needed any more."""
        self._signal(index)
        self._join(index)

    def next(self) -> tuple[int, Look | TrackerError]:
        """Wait for the next look, or for an error that no release is to blame for.

        Raises OSError where the machine fails, and a bug of ours.
        """
        by_pipe = {id(pipe): index for index, (_, pipe) in self.running.items()}
        ready = wait([pipe for _, pipe in self.running.values()])[0]
        index = by_pipe[id(ready)]
        pipe = self.running[index][1]
        try:
            answer = pipe.recv()
        except EOFError:
            answer = TrackerError("a process that looked at a release was killed; run again to go on")
        self._join(index)
        if isinstance(answer, BaseException) and not isinstance(answer, TrackerError):
            raise answer
        return index, answer

    def _signal(self, index: int) -> None:
        process = self.running[index][0]
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGINT)

    def _join(self, index: int) -> None:
        process, pipe = self.running.pop(index)
        process.join(_GRACE_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        pipe.close()


def _stop_without_parent(pipe: int) -> None:
    """Stop as after Ctrl-C when nobody is left to take the answer: the process that asked was killed."""
    poll = select.poll()
    poll.register(pipe, 0)  # an error on the pipe is told unasked
    poll.poll()
    os.kill(os.getpid(), signal.SIGINT)


def _work(pipe: Connection, examine: Examine, release: Release) -> None:
    """The body of a worker."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_stop_without_parent, args=(pipe.fileno(),), daemon=True).start()
    answer: Look | Exception
    try:
        answer = examine(release)
    except KeyboardInterrupt:
        return
    except (TrackerError, OSError) as error:
        error.add_note(traceback.format_exc())
        answer = error
    except Exception:
        answer = RuntimeError(traceback.format_exc())
    try:
        pipe.send(answer)
    except (BrokenPipeError, KeyboardInterrupt):
        return
