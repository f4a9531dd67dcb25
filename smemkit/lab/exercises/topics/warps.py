"""Shuffles, votes and cooperative groups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import global_accesses, shared_bytes, uses
from smemkit.measure.formats import pluralize

TOPIC = "warps"


def _broadcast() -> Iterator[Case]:
    for warps in (1, 4):
        x = integers(32 * warps)
        rows = x.reshape(warps, 32)
        launch = Launch("minus_lane_0", 1, 32 * warps, ("x", "y"))
        arrays = {"x": x, "y": fresh(x.size)}
        expected = {"y": (rows - rows[:, :1]).reshape(-1)}
        yield Case(pluralize(warps, "warp"), arrays, (launch,), expected, budget={"load": x.size})


def _warp_scan() -> Iterator[Case]:
    for warps in (1, 3):
        x = integers(32 * warps)
        launch = Launch("warp_scan", 1, 32 * warps, ("x", "y"))
        arrays = {"x": x, "y": fresh(x.size)}
        expected = {"y": x.reshape(warps, 32).cumsum(1).reshape(-1)}
        yield Case(pluralize(warps, "warp"), arrays, (launch,), expected)


def _count_by_ballot() -> Iterator[Case]:
    for n in (128, 100, 33):
        blocks = -(-n // 64)
        x = integers(n)
        positive = np.zeros(blocks * 64, bool)
        positive[:n] = x > 0
        counts = positive.reshape(-1, 32).sum(1).astype(np.int32)
        launch = Launch("count_positive", blocks, 64, ("x", "counts", n))
        arrays = {"x": x, "counts": fresh(counts.size, np.int32)}
        yield Case(f"n = {n}", arrays, (launch,), {"counts": counts})


def _groups_of_eight() -> Iterator[Case]:
    for n in (64, 128):
        x = integers(n)
        launch = Launch("sums_of_eight", n // 64, 64, ("x", "sums"))
        arrays = {"x": x, "sums": fresh(n // 8)}
        yield Case(f"n = {n}", arrays, (launch,), {"sums": x.reshape(-1, 8).sum(1)})


EXERCISES = (
    Exercise(
        "warp-broadcast",
        TOPIC,
        "Each warp subtracts the value of its lane 0 from the values of all of its lanes. Load every element "
        "once, and use __shfl_sync instead of shared memory.",
        (
            "A shuffle lets a lane read a register of another lane.",
            "__shfl_sync(mask, value, lane) returns the value of one lane to all of them.",
            "float first = __shfl_sync(0xffffffff, v, 0); all 32 lanes must call it.",
        ),
        _broadcast,
        (uses("__shfl_sync"), global_accesses("load"), shared_bytes(0)),
    ),
    Exercise(
        "warp-scan",
        TOPIC,
        "Lane i of each warp stores the sum of the values of the lanes 0 to i. Five __shfl_up_sync are enough.",
        (
            "After a step with distance d, each lane has the sum of the last 2 d values up to its own.",
            "__shfl_up_sync(mask, value, d) gives lane i the value of lane i - d. What do lanes below d get?",
            "Lanes below d get their own value back: they must not add it. if (lane >= d) sum += other;",
        ),
        _warp_scan,
        (uses("__shfl_up_sync"), shared_bytes(0)),
    ),
    Exercise(
        "count-by-ballot",
        TOPIC,
        "Store for each warp of 32 elements how many are greater than 0; elements past n do not count. One "
        "__ballot_sync and one population count do it.",
        (
            "__ballot_sync(mask, condition) returns 32 bits, one per lane.",
            "All lanes of the mask must take part in the vote, also those past n.",
            "unsigned votes = __ballot_sync(0xffffffff, i < n && x[i] > 0); lane 0 stores __popc(votes).",
        ),
        _count_by_ballot,
        (uses("__ballot_sync"), shared_bytes(0)),
    ),
    Exercise(
        "groups-of-eight",
        TOPIC,
        "Store the sum of each group of eight neighbours, with cooperative groups: tiled_partition<8> divides the "
        "block into tiles of eight threads, which shuffle among themselves.",
        (
            "tile.shfl_down(value, offset) stays in the tile; tile.thread_rank() is the thread's place in it.",
            "Eight values need three steps: 4, 2, 1.",
            "Rank 0 of each tile has the sum, and stores it at the tile's number: its thread's index / 8.",
        ),
        _groups_of_eight,
        (uses("tiled_partition"), shared_bytes(0)),
    ),
)
