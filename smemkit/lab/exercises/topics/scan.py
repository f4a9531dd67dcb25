"""Prefix sums."""

from __future__ import annotations

from collections.abc import Iterator

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import no_conflicts, sectors, uses

TOPIC = "scan"


def _scans(exclusive: bool) -> Iterator[Case]:
    for blocks in (1, 2):
        x = integers((blocks, 128))
        launch = Launch("scan", blocks, 128, ("x", "y"))
        sums = x.cumsum(1)
        arrays = {"x": x, "y": fresh(x.shape)}
        yield Case(f"n = {x.size}", arrays, (launch,), {"y": sums - x if exclusive else sums})


def _inclusive() -> Iterator[Case]:
    yield from _scans(exclusive=False)


def _exclusive() -> Iterator[Case]:
    yield from _scans(exclusive=True)


EXERCISES = (
    Exercise(
        "scan-in-place",
        TOPIC,
        "Each block of 128 stores in y the running sums of its elements of x, after Hillis and Steele: in the "
        "step with distance d, every thread adds the value that is d places before its own. The template reads "
        "and writes in the same interval between two barriers.",
        (
            "Thread t reads s[t - d] while thread t - d may be writing it.",
            "Read into a register, wait, write, wait.",
            "float other = t >= d ? s[t - d] : 0; __syncthreads(); s[t] += other; __syncthreads();",
        ),
        _inclusive,
        (uses("__shared__"), no_conflicts(), sectors()),
    ),
    Exercise(
        "exclusive-scan",
        TOPIC,
        "The same, but y[t] is the sum of the elements before t, without t's own; y of a block's first thread is"
        " 0. Do not subtract x[t] at the end: that would be wrong for max, and inexact for floats.",
        (
            "An exclusive scan is an inclusive one, moved by one place.",
            "Thread t stores what s[t - 1] holds after the last step.",
            "y[…] = t > 0 ? s[t - 1] : 0, after the last barrier.",
        ),
        _exclusive,
        (uses("__shared__"), no_conflicts(), sectors()),
    ),
)
