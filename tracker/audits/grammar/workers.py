"""Threads that each have children of one build: tasks in, results out, in the order given.

Knows which child a task may use, and what the time of all of them went into; it does not know what a task is.
The results do not depend on how many workers there are or which came first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tracker.build import Build
from tracker.libllama.client import LibllamaClient, Limits

Result = TypeVar("Result")


@dataclass(frozen=True)
class Shares:
    """Where the workers' time went, in seconds over all workers; ``whole`` is wall time × workers.

    Attributes:
        whole: what is shared out.
        apply: inside llama.cpp's apply, as the children's clock shows it.
        died: at requests at which the library died or ran into a deadline.
        starting: starting children: Python, the library, its vocabulary.
        child: the rest of the children's answers (parsing grammars, accepting paths, packing masks, pipes).
        own: between requests: the oracle, comparisons, the walk; waiting for the interpreter is in it.
        idle: without a task.
    """

    whole: float
    apply: float
    died: float
    starting: float
    child: float
    own: float
    idle: float


class Workers:
    """``jobs`` threads and their children; a context manager that ends them all.

    Args:
        build: a built libllama.
        vocabulary: the file that children load.
        jobs: threads.
    """

    def __init__(self, build: Build, vocabulary: Path, jobs: int):
        self._build = build
        self._vocabulary = vocabulary
        self._jobs = jobs
        self._local = threading.local()
        self._clients: list[LibllamaClient] = []
        self._busy: list[float] = []
        self._begun = time.perf_counter()
        self._pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="audit")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for client in self._clients:
            client.close()

    def client(self, limits: Limits) -> LibllamaClient:
        """The client of the thread that asks, for these limits."""
        own: dict[Limits, LibllamaClient] = self._local.__dict__.setdefault("clients", {})
        if limits not in own:
            own[limits] = self.fresh(limits)
        return own[limits]

    def fresh(self, limits: Limits) -> LibllamaClient:
        """A client whose child has answered nothing; to be used by one thread."""
        client = LibllamaClient(self._build, self._vocabulary, limits)
        self._clients.append(client)
        return client

    def submit(self, task: Callable[[], Result]) -> Future[Result]:
        """Run a task as soon as a worker is free."""
        return self._pool.submit(self._timed, task)

    def run(self, tasks: Sequence[Callable[[], Result]], order: Sequence[int]) -> list[Result]:
        """Run tasks, begun in this order of their indices; the results are in the order of ``tasks``."""
        futures = {index: self.submit(tasks[index]) for index in order}
        return [futures[index].result() for index in range(len(tasks))]

    def _timed(self, task: Callable[[], Result]) -> Result:
        begun = time.perf_counter()
        try:
            return task()
        finally:
            self._busy.append(time.perf_counter() - begun)

    def shares(self) -> Shares:
        """Where the time went since the workers were made."""
        spent = [client.spent for client in self._clients]
        apply = sum(each.apply for each in spent)
        answered = sum(each.answered for each in spent)
        died = sum(each.died for each in spent)
        starting = sum(each.starting for each in spent)
        whole = (time.perf_counter() - self._begun) * self._jobs
        busy = sum(self._busy)
        return Shares(
            whole=whole,
            apply=apply,
            died=died,
            starting=starting,
            child=answered - apply,
            own=busy - answered - died - starting,
            idle=whole - busy,
        )
