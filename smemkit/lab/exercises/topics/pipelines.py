"""Bulk copies and the mbarriers that count their bytes."""

from __future__ import annotations

from collections.abc import Iterator

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import uses

TOPIC = "bulk copies"


def _reversed() -> Iterator[Case]:
    for blocks in (1, 2):
        x = integers((blocks, 256))
        launch = Launch("reverse_block", blocks, 64, ("x", "y"))
        yield Case(f"n = {x.size}", {"x": x, "y": fresh(x.shape)}, (launch,), {"y": x[:, ::-1]})


def _rows() -> Iterator[Case]:
    for steps in (1, 2, 5):
        x = integers((steps, 64))
        launch = Launch("sum_mirrored", 1, 64, ("x", "y", steps))
        yield Case(f"{steps} steps", {"x": x, "y": fresh(64)}, (launch,), {"y": x[:, ::-1].sum(0)})


EXERCISES = (
    Exercise(
        "wait-for-the-phase",
        TOPIC,
        "One thread starts a bulk copy of 256 floats to shared memory, and 64 threads store them in reverse "
        "order. The template reads before the bytes have come.",
        (
            "The copy reports its bytes at the mbarrier `full`. Who has to look there?",
            "The phase is complete when one arrival and all expected bytes have come; the first phase has "
            "parity 0.",
            "while (!ptx::mbarrier_try_wait_parity(&full, 0)); in every thread.",
        ),
        _reversed,
        (uses("cp_async_bulk"),),
    ),
    Exercise(
        "flip-the-parity",
        TOPIC,
        "Rows of 64 floats come one after the other through one buffer, and thread t adds element 63 - t of each. "
        "The template waits for the same parity in every step.",
        (
            "Each step is a phase of `full`. Which number has the phase of step 1, and which parity?",
            "A wait for the parity of the phase before returns at once: its phase is complete.",
            "The parity of phase `step` is step & 1.",
        ),
        _rows,
        (uses("cp_async_bulk"),),
    ),
    Exercise(
        "fence-for-the-store",
        TOPIC,
        "64 threads put 256 floats in reverse order into shared memory, and one thread stores them with a "
        "bulk copy. There is a barrier, and yet the copy may miss what the threads have written.",
        (
            "Threads store through the generic proxy, the copy reads through the async proxy.",
            "Every thread that has written needs the fence, after its stores and before the barrier.",
            "ptx::fence_proxy_async(ptx::space_shared);",
        ),
        _reversed,
        (uses("cp_async_bulk"),),
    ),
)
