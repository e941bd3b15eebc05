"""Tasks over workers: order, clients of their own, and an account of the time that adds up."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from tracker.audits.grammar.workers import Workers
from tracker.build import Build
from tracker.libllama.client import LibllamaClient, Limits
from tracker.libllama.stage import Stage

BUILD = cast(Build, object())
"""Never looked at: a client starts its child at the first request."""

SHORT, LONG = Limits(cpu_seconds=1), Limits(cpu_seconds=2)


def workers(jobs: int) -> Workers:
    return Workers(BUILD, Path("vocabulary.gguf"), jobs)


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_come_in_the_order_of_the_tasks_whatever_is_begun_first(jobs: int) -> None:
    begun: list[int] = []

    def task(number: int) -> int:
        begun.append(number)
        return 10 * number

    with workers(jobs) as pool:
        results = pool.run([partial(task, n) for n in range(5)], [3, 0, 4, 1, 2])
    assert results == [0, 10, 20, 30, 40]
    assert sorted(begun) == [0, 1, 2, 3, 4]
    if jobs == 1:
        assert begun == [3, 0, 4, 1, 2]


def test_each_thread_has_a_client_for_each_limits_and_keeps_it() -> None:
    meet = threading.Barrier(2)

    def clients() -> tuple[LibllamaClient, ...]:
        meet.wait(30)
        return pool.client(SHORT), pool.client(LONG), pool.client(SHORT)

    with workers(2) as pool:
        (a, b, again), (c, d, _) = pool.run([clients, clients], [0, 1])
        assert again is a
        assert len({id(client) for client in (a, b, c, d, pool.fresh(SHORT))}) == 5


def test_a_task_that_fails_ends_the_run() -> None:
    def fails() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError), workers(1) as pool:
        pool.run([fails, lambda: None], [0, 1])


def test_the_shares_add_up_to_the_whole() -> None:
    def task() -> None:
        client = pool.client(SHORT)
        client.spent.answers += 0.003
        client.spent.apply += 0.002
        client.spent.died[Stage.READING] += 0.004
        client.spent.died[Stage.APPLYING] += 0.005
        client.spent.starting += 0.001

    with workers(2) as pool:
        pool.run([task, task, task], range(3))
        shares = pool.shares()
    dead = shares.died, shares.died_in_apply
    parts = shares.apply, *dead, shares.starting, shares.child, shares.waiting
    assert sum(parts) == pytest.approx(shares.whole)
    assert (shares.apply, *dead, shares.starting) == pytest.approx((0.006, 0.012, 0.015, 0.003))
    assert shares.child == pytest.approx(0.003)
    assert shares.own >= 0
