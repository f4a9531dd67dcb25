"""__syncthreads(): the four usual mistakes, and what orders two blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import barriers, sectors, uses
from smemkit.measure.formats import pluralize

TOPIC = "barriers"


def _missing_barrier() -> Iterator[Case]:
    for blocks in (1, 3):
        x = integers(128 * blocks)
        rows = x.reshape(blocks, 128)
        launch = Launch("rotate", blocks, 128, ("x", "y"))
        arrays = {"x": x, "y": fresh(x.size)}
        yield Case(pluralize(blocks, "block"), arrays, (launch,), {"y": np.roll(rows, -1, 1).reshape(-1)})


def _barrier_in_branch() -> Iterator[Case]:
    for n in (128, 99, 300):
        blocks = -(-n // 128)
        x = integers(n)
        padded = np.zeros(128 * blocks, np.float32)
        padded[:n] = x
        pairs = padded.reshape(-1, 2)
        expected = (pairs[:, ::-1] + pairs).reshape(-1)[:n]
        launch = Launch("add_neighbour", blocks, 128, ("x", "y", n))
        yield Case(f"n = {n}", {"x": x, "y": fresh(n)}, (launch,), {"y": expected})


def _barrier_in_loop() -> Iterator[Case]:
    for seed in (1, 2):
        steps = integers(64, np.int32, 0, 9, seed)
        x = integers(64, seed=seed)
        expected = x.copy()
        for step in range(int(steps.max())):
            shared = expected.copy()
            expected += np.where(steps > step, shared[np.arange(64) ^ 1], 0)
        launch = Launch("exchange", 1, 64, ("x", "steps"))
        yield Case(f"up to {steps.max()} steps", {"x": x, "steps": steps}, (launch,), {"x": expected})


def _early_return() -> Iterator[Case]:
    for n in (256, 200, 129, 1):
        x = integers(n)
        blocks = -(-n // 128)
        padded = np.zeros(128 * blocks, np.float32)
        padded[:n] = x
        rows = padded.reshape(blocks, 128)
        expected = (rows - rows[:, :1]).reshape(-1)[:n]
        launch = Launch("minus_first", blocks, 128, ("x", "y", n))
        yield Case(f"n = {n}", {"x": x, "y": fresh(n)}, (launch,), {"y": expected})


def _two_launches() -> Iterator[Case]:
    for blocks in (2, 5):
        n = 64 * blocks
        x = integers(n)
        launches = (
            Launch("block_sums", blocks, 64, ("x", "sums")),
            Launch("add_offsets", blocks, 64, ("x", "sums", "y")),
        )
        sums = x.reshape(blocks, 64).sum(1)
        offsets = np.cumsum(sums) - sums
        arrays = {"x": x, "sums": fresh(blocks), "y": fresh(n)}
        expected = {"y": (x.reshape(blocks, 64) + offsets[:, None]).reshape(-1), "sums": sums}
        yield Case(pluralize(blocks, "block"), arrays, launches, expected)


EXERCISES = (
    Exercise(
        "missing-barrier",
        TOPIC,
        "Each block moves its 128 elements to the left by one, y[i] = x[i + 1], and the last one gets the first."
        " The template gives the right numbers here, and on a GPU on most days. Make it right.",
        (
            "Find the line where a thread reads what another thread has written.",
            "Nothing makes warp 0 wait until warp 1 has stored its elements.",
            "One __syncthreads() between the store to s and the load from it.",
        ),
        _missing_barrier,
        (barriers(1), sectors()),
    ),
    Exercise(
        "barrier-in-branch",
        TOPIC,
        "Each thread adds its neighbour's value (thread t ^ 1) to its own; values past n count as 0. The "
        "template has its barrier inside of the guard, which the threads past n do not reach. Keep one barrier.",
        (
            "Every thread of the block must reach the same __syncthreads().",
            "Guard the loads and the stores, not the barrier.",
            "s[t] = i < n ? x[i] : 0; __syncthreads(); if (i < n) y[i] = …",
        ),
        _barrier_in_branch,
        (barriers(1),),
    ),
    Exercise(
        "barrier-in-loop",
        TOPIC,
        "Thread t takes steps[t] steps, at most 8. In each it adds to its value the value that thread t ^ 1 had "
        "before the step; a thread that is done keeps its value. The template's loop ends at another step in "
        "each thread, and so do its barriers.",
        (
            "The number of barriers must be the same for all threads, the amount of work need not.",
            "Let every thread run 8 steps, and do the work only where step < steps[t].",
            "Per step: read the neighbour, barrier, write, barrier. The branch is around the write.",
        ),
        _barrier_in_loop,
        (uses("__syncthreads"),),
    ),
    Exercise(
        "early-return",
        TOPIC,
        "Each block of 128 subtracts its first element from all of its elements. The template returns early in "
        "the threads past n, before the barrier. GPUs since Volta wait for the threads that have not exited, so "
        "that the kernel runs there; the programming guide promises a barrier only if all threads of the block "
        "reach it. Let every thread reach the barrier, and keep one.",
        (
            "What is a thread past n still needed for?",
            "Replace the return by guards.",
            "if (t == 0) first = x[i]; __syncthreads(); if (i < n) y[i] = x[i] - first;",
        ),
        _early_return,
        (barriers(1), uses("__shared__")),
    ),
    Exercise(
        "second-launch",
        TOPIC,
        "Add to every element the sum of all blocks before its own. No barrier inside of a kernel orders blocks,"
        " so the work is split in two launches of 64 threads per block: block_sums stores the sum of each block,"
        " add_offsets adds them. The template tries it all in the first kernel.",
        (
            "Between two launches in one stream, everything that the first one stored is visible to the second.",
            "block_sums must store sums[blockIdx.x] and touch nothing of other blocks.",
            "add_offsets: add sums[b] for every b < blockIdx.x to x[i], and store it in y[i].",
        ),
        _two_launches,
    ),
)
