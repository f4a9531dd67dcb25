"""Runs checks on the cores of this machine: those of one file in one process, which compiles it once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from smemkit.ci.results import Check, Outcome, run_check
from smemkit.devices import set_num_threads

if TYPE_CHECKING:  # imported where it is used: most checks run in this process
    from concurrent import futures

__all__ = ["cores", "run_checks"]


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_checks(checks: Sequence[Check], jobs: int) -> Iterator[Outcome]:
    """The outcomes in the order of the checks. One job runs in this process."""
    groups: dict[tuple[object, ...], list[Check]] = {}
    for check in checks:
        groups.setdefault((check.file, check.option), []).append(check)
    jobs = min(jobs, len(groups))
    if jobs <= 1:
        yield from map(run_check, checks)
        return
    from concurrent import futures

    done: dict[Check, Outcome] = {}
    with _pool(jobs) as pool:
        running = [(group, pool.submit(_run_group, group)) for group in groups.values()]
        for group, future in running:
            try:
                outcomes = future.result()
            except futures.BrokenExecutor:  # one of the processes died; which one is not known
                outcomes = map(_run_alone, group)
            done |= zip(group, outcomes, strict=True)
    yield from (done[check] for check in checks)


def _pool(jobs: int) -> futures.ProcessPoolExecutor:
    import multiprocessing
    from concurrent import futures

    threads = partial(set_num_threads, max(1, cores() // jobs))
    return futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), threads)


def _run_group(group: Sequence[Check]) -> list[Outcome]:
    return [run_check(check) for check in group]


def _run_alone(check: Check) -> Outcome:
    """The outcome of a check in a separate process, which may die."""
    from concurrent import futures

    try:
        with _pool(1) as pool:
            return pool.submit(_run_group, [check]).result()[0]
    except futures.BrokenExecutor:
        return Outcome(check, None, f"{check.file}: the process that checked {check.title} died")
