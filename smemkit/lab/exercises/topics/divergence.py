"""Branches within a warp."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import full_warps, global_accesses, sectors, without

TOPIC = "divergence"


def _branchless() -> Iterator[Case]:
    for n in (320, 64):
        a = integers((n // 32, 32), np.int32, 0, 100)
        launch = Launch("sum_below", 1, 32, ("a", "sums", n // 32))
        arrays = {"a": a, "sums": fresh(32, np.int32)}
        expected = {"sums": np.where(a < 50, a, 0).sum(0)}
        yield Case(f"{n} values", arrays, (launch,), expected)


def _two_kinds() -> Iterator[Case]:
    for blocks in (1, 2):
        x = integers(256 * blocks)
        expected = x.copy()
        expected[0::2] = 2 * x[0::2] + 1
        expected[1::2] = x[1::2] * x[1::2]
        launch = Launch("even_and_odd", blocks, 256, ("x", "y"))
        arrays = {"x": x, "y": fresh(x.size)}
        yield Case(f"n = {x.size}", arrays, (launch,), {"y": expected}, budget={"load": x.size, "store": x.size})


EXERCISES = (
    Exercise(
        "branchless-sum",
        TOPIC,
        "Each lane adds those of its values that are below 50. Write it without if and without ? : in the loop, "
        "as the product of the value and a comparison, which is 0 or 1. (For a body this short nvcc makes a "
        "predicated instruction of either; the exercise is about the idiom.)",
        (
            "In C++ a comparison is a bool, which counts as 0 or 1 in arithmetic.",
            "What is (v < 50) * v?",
            "sum += (v < 50) * v;",
        ),
        _branchless,
        (without("if", "?", "while", "switch"),),
    ),
    Exercise(
        "split-by-warps",
        TOPIC,
        "Even elements become 2 x + 1, odd ones x². In the template every warp runs both branches, with half of "
        "its lanes each. Let the first four warps of a block of 256 do the even elements and the last four the "
        "odd ones. To keep the accesses to global memory coalesced, go through shared memory.",
        (
            "Thread t loads and stores element t as before. Only the work in between is divided differently.",
            "Threads 0 to 127 work on s[2 * t], threads 128 to 255 on s[2 * (t - 128) + 1].",
            "int i = t < 128 ? 2 * t : 2 * (t - 128) + 1; the branch t < 128 is the same for a whole warp.",
        ),
        _two_kinds,
        (full_warps(), sectors(), global_accesses("load"), global_accesses("store")),
    ),
)
