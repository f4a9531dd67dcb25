"""Asynchronous copies from global to shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import sectors, shared_bytes, uses

TOPIC = "asynchronous copies"


def _wait() -> Iterator[Case]:
    for blocks in (1, 2):
        x = integers((blocks, 256))
        launch = Launch("reverse_block", blocks, 64, ("x", "y"))
        arrays = {"x": x, "y": fresh(x.shape)}
        yield Case(f"n = {x.size}", arrays, (launch,), {"y": x[:, ::-1]})


def _two_stages() -> Iterator[Case]:
    for steps in (4, 7, 1):
        x = integers((steps, 64))
        launch = Launch("sum_mirrored", 1, 64, ("x", "y", steps))
        arrays = {"x": x, "y": fresh(64)}
        yield Case(f"{steps} steps", arrays, (launch,), {"y": x[:, ::-1].sum(0)})


EXERCISES = (
    Exercise(
        "wait-for-the-copy",
        TOPIC,
        "A block of 64 threads copies 256 floats to shared memory, 16 bytes per thread, with "
        "__pipeline_memcpy_async, and stores them in reverse order. The template reads before the copies have "
        "arrived.",
        (
            "A copy is started, committed, and waited for. Which of the three is missing?",
            "A thread can only wait for its own copies. How does it know about those of others?",
            "__pipeline_wait_prior(0); and then __syncthreads();",
        ),
        _wait,
        (uses("__pipeline_memcpy_async"), sectors()),
    ),
    Exercise(
        "two-stages",
        TOPIC,
        "In each step thread t adds element 63 - t of a row of 64. The template copies a row, waits, adds, and "
        "starts the next copy only then. Use two rows of shared memory and asynchronous copies: start the copy "
        "of row step + 1 by __pipeline_memcpy_async, wait for row step by __pipeline_wait_prior, and add it while "
        "the other one is being copied.",
        (
            "Row `step` is in s[step % 2]. Its copy is started one step earlier, the first one before the loop.",
            "__pipeline_wait_prior(1) waits for all groups of copies but the last one that was committed.",
            "A barrier after the wait, so that all copies of the row are there; another one at the end of the "
            "step, before the row is overwritten. Commit in every step, even if there is nothing to copy.",
        ),
        _two_stages,
        (uses("__pipeline_memcpy_async", "memcpy_async"), uses("__pipeline_wait_prior"), shared_bytes(512)),
    ),
)
