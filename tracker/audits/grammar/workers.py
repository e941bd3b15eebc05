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
from tracker.libllama.stage import Stage

Result = TypeVar("Result")


@dataclass(frozen=True)
class Shares:
    """What the children spent their time on, in seconds over all workers; the parts add up to ``whole``.

    Attributes:
        whole: wall time × workers.
        apply: inside llama.cpp's apply, of masks that it gave.
        died_in_apply: inside apply until the library died there, or ran into a deadline.
        died: at other requests at which it did.
        starting: starting children: Python, the library, its vocabulary.
        child: the rest of their answers (parsing grammars, accepting paths, packing masks).
        waiting: for us, or for a processor.
        apply_cpu, own: CPU time inside apply, and of this process meanwhile (oracle, comparison, walk); no
            parts of the whole.
    """

    whole: float
    apply: float
    died_in_apply: float
    died: float
    starting: float
    child: float
    waiting: float
    apply_cpu: float
    own: float


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
        self._begun, self._begun_cpu = time.perf_counter(), time.process_time()
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
        return self._pool.submit(task)

    def run(self, tasks: Sequence[Callable[[], Result]], order: Sequence[int]) -> list[Result]:
        """Run tasks, begun in this order of their indices; the results are in the order of ``tasks``."""
        futures = {index: self.submit(tasks[index]) for index in order}
        return [futures[index].result() for index in range(len(tasks))]

    def shares(self) -> Shares:
        """What the time since the workers were made went into."""
        spent = [client.spent for client in self._clients]
        apply = sum(each.apply for each in spent)
        child = sum(each.answers for each in spent) - apply
        died = sum(sum(each.died.values()) for each in spent)
        died_in_apply = sum(each.died[Stage.APPLYING] for each in spent)
        starting = sum(each.starting for each in spent)
        whole = (time.perf_counter() - self._begun) * self._jobs
        return Shares(
            whole=whole,
            apply=apply,
            died_in_apply=died_in_apply,
            died=died - died_in_apply,
            starting=starting,
            child=child,
            waiting=whole - apply - child - died - starting,
            apply_cpu=sum(each.apply_cpu for each in spent),
            own=time.process_time() - self._begun_cpu,
        )
