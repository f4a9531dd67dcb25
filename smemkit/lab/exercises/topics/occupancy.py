"""Resident blocks, and independent instructions within a thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import global_accesses, occupied, uses

TOPIC = "occupancy"


def _one_buffer() -> Iterator[Case]:
    for blocks in (1, 2):
        x = integers((blocks, 4096))
        y = integers((blocks, 4096), seed=2)
        launch = Launch("reverse_two", blocks, 256, ("x", "y", "out_x", "out_y"))
        arrays = {"x": x, "y": y, "out_x": fresh(x.shape), "out_y": fresh(x.shape)}
        expected = {"out_x": x[:, ::-1], "out_y": y[:, ::-1]}
        budget = {"load": 2 * x.size}
        yield Case(f"{blocks * 4096:,} elements each", arrays, (launch,), expected, budget=budget)


def _small_counters() -> Iterator[Case]:
    for blocks in (1, 2):
        x = integers(64 * 32 * blocks, np.int32, 0, 64)
        rows = x.reshape(blocks, 32, 64)
        counts = (rows[:, :, :, None] == np.arange(64)).sum(1)  # block, thread, value
        launch = Launch("count_values", blocks, 64, ("x", "counts"))
        arrays = {"x": x, "counts": fresh(64 * 64 * blocks, np.int32)}
        expected = {"counts": counts.transpose(0, 2, 1).reshape(-1)}
        yield Case(f"{x.size:,} values", arrays, (launch,), expected)


def _chains(x: np.ndarray, count: int) -> np.ndarray:
    """Sums of each row in float32, in `count` chains of every count-th element, added pairwise at the end."""
    sums = np.zeros((x.shape[0], count), np.float32)
    for first in range(0, x.shape[1], count):
        sums = sums + x[:, first : first + count]
    while sums.shape[1] > 1:
        sums = sums[:, 0::2] + sums[:, 1::2]
    return sums[:, 0]


def _four_chains() -> Iterator[Case]:
    for n in (64, 256):
        x = np.random.default_rng(n).random((64, n), dtype=np.float32)
        launch = Launch("row_sums", 1, 64, ("x", "sums", n))
        arrays = {"x": x, "sums": fresh(64)}
        yield Case(f"rows of {n} values", arrays, (launch,), {"sums": _chains(x, 4)})


EXERCISES = (
    Exercise(
        "one-buffer-twice",
        TOPIC,
        "A block of 256 threads reverses 4,096 elements of x and 4,096 of y through shared memory. With two "
        "buffers of 16 KB, 6 blocks fit on a multiprocessor of an H100 or H200 (228 KB, of which each block "
        "takes 1 KB for the system). Use one buffer for both, so that 8 blocks fit, which have all of its 2,048 "
        "threads.",
        (
            "x is not needed any more when y is loaded.",
            "When may y overwrite the buffer? All threads must have read x from it.",
            "load x, barrier, store x, barrier, load y, barrier, store y.",
        ),
        _one_buffer,
        (occupied(8), global_accesses("load")),
    ),
    Exercise(
        "smaller-counters",
        TOPIC,
        "Each of 64 threads counts how often each of 64 values occurs among its own 32, in counters of its own "
        "in shared memory: 64 × 64 of them. As ints they take 16 KB, and 13 blocks fit on a multiprocessor of "
        "an H100 or H200, 26 warps of 64. Use a smaller type, so that 32 blocks fit, the most that a "
        "multiprocessor can have.",
        (
            "A count is at most 32. How many bits does it need?",
            "unsigned char counters take a quarter of the memory.",
            "__shared__ unsigned char c[64][64]; the rest stays as it is.",
        ),
        _small_counters,
        (occupied(32, registers=16), uses("__shared__")),
    ),
    Exercise(
        "four-chains",
        TOPIC,
        "Each thread adds n floats of its row, n a multiple of 4. In the template each addition waits for the "
        "one before it. Keep four sums, of the elements k with k % 4 = 0, 1, 2, 3, and add them as (s0 + s1) + "
        "(s2 + s3) at the end. Rounding shows which order was taken: the expected bits are those of four chains.",
        (
            "Four additions that do not use each other's results can be in flight at once.",
            "The loop advances by 4, and each of its four statements has its own sum.",
            "s0 += row[k]; s1 += row[k + 1]; s2 += row[k + 2]; s3 += row[k + 3];",
        ),
        _four_chains,
    ),
)
