"""Atomics and histograms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import global_accesses, uses

TOPIC = "atomics"


def _histograms(sizes: tuple[int, ...], bins: int, atomics_per_block: int | None = None) -> Iterator[Case]:
    for n in sizes:
        blocks = -(-n // 256)
        x = integers(n, np.int32, 0, bins)
        launch = Launch("histogram", blocks, 256, ("x", "counts", n))
        arrays = {"x": x, "counts": np.zeros(bins, np.int32)}
        expected = {"counts": np.bincount(x, minlength=bins)}
        budget = {} if atomics_per_block is None else {"atomic": atomics_per_block * blocks}
        yield Case(f"n = {n:,}", arrays, (launch,), expected, budget=budget)


def _lost_updates() -> Iterator[Case]:
    yield from _histograms((256, 1000), 8)


def _private() -> Iterator[Case]:
    yield from _histograms((512, 1000), 32, 32)


def _one_per_block() -> Iterator[Case]:
    for n in (256, 1000, 1):
        blocks = -(-n // 256)
        x = integers(n, np.int32)
        launch = Launch("sum", blocks, 256, ("x", "total", n))
        arrays = {"x": x, "total": np.zeros(1, np.int32)}
        yield Case(f"n = {n:,}", arrays, (launch,), {"total": x.sum(keepdims=True)}, budget={"atomic": blocks})


def _compaction() -> Iterator[Case]:
    for n in (256, 600):
        blocks = -(-n // 256)
        x = integers(n, np.int32)
        launches = (
            Launch("keep_positive", blocks, 256, ("x", "kept", "count", n)),
            Launch("rank_kept", 1, 1, ("kept", "count", "sums")),
        )
        positive = x[x > 0]
        arrays = {
            "x": x,
            "kept": np.zeros(n, np.int32),
            "count": np.zeros(1, np.int32),
            "sums": fresh(2, np.int32),
        }
        expected = {"count": np.array([positive.size]), "sums": np.array([positive.sum(), (positive**2).sum()])}
        yield Case(f"n = {n}", arrays, launches, expected)


EXERCISES = (
    Exercise(
        "lost-updates",
        TOPIC,
        "Count how often each of 8 values occurs. In the template, two threads may read the same counter, both "
        "add 1, and both store the same number: an update is lost.",
        (
            "counts[v]++ is three steps: load, add, store. Other threads come in between.",
            "An atomic makes one indivisible step of them.",
            "atomicAdd(&counts[x[i]], 1);",
        ),
        _lost_updates,
    ),
    Exercise(
        "histogram-per-block",
        TOPIC,
        "Count 32 values with few atomics on global memory: each block counts its 256 elements in shared memory,"
        " with atomics there, and adds its 32 counters to the global ones at the end.",
        (
            "Shared memory is not zero at the start. Who clears the counters, and who waits for it?",
            "There are two barriers: after clearing, and before the counters are added.",
            "if (t < 32) atomicAdd(&counts[t], mine[t]);",
        ),
        _private,
        (uses("__shared__"), global_accesses("atomic")),
    ),
    Exercise(
        "one-atomic-per-block",
        TOPIC,
        "Add all elements to total[0]. The template makes one atomic per element, all of them on one address, "
        "where they are serialised. Add within the block first, then make one atomic per block.",
        (
            "A tree in shared memory, or shuffles, give the block's sum to thread 0.",
            "Elements past n count as 0, and their threads stay for the barriers.",
            "if (t == 0) atomicAdd(total, s[0]);",
        ),
        _one_per_block,
        (global_accesses("atomic"),),
    ),
    Exercise(
        "append-with-a-counter",
        TOPIC,
        "Copy the positive elements of x to kept, without gaps and in any order, and their number to count[0], "
        "which is 0 before. (A second kernel, rank_kept, checks them: leave it as it is.) The template asks for "
        "the place and takes it in two steps.",
        (
            "Two threads must not get the same place.",
            "atomicAdd returns the value before the addition.",
            "kept[atomicAdd(count, 1)] = x[i];",
        ),
        _compaction,
    ),
)
