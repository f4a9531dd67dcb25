"""Registers, shared, constant and global memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import global_accesses, uses, without

TOPIC = "memory hierarchy"


def _sum_in_a_register() -> Iterator[Case]:
    for rows, columns in ((64, 8), (100, 5), (1, 1)):
        x = integers((columns, rows))
        launch = Launch("column_sums", -(-rows // 64), 64, ("x", "sums", rows, columns))
        arrays = {"x": x, "sums": fresh(rows)}
        label = f"{columns} values for each of {rows} sums"
        yield Case(label, arrays, (launch,), {"sums": x.sum(0)}, budget={"load": x.size, "store": rows})


def _stage_in_shared() -> Iterator[Case]:
    for blocks, n in ((1, 64), (3, 192), (2, 100)):
        x = integers(n)
        padded = np.zeros(blocks * 64, np.float32)
        padded[:n] = x
        rows = padded.reshape(blocks, 64)
        below = (rows[:, None, :] < rows[:, :, None]).sum(2).reshape(-1)[:n].astype(np.int32)
        launch = Launch("rank_in_block", blocks, 64, ("x", "rank", n))
        arrays = {"x": x, "rank": fresh(n, np.int32)}
        yield Case(f"n = {n}", arrays, (launch,), {"rank": below}, budget={"load": n})


def _constant_weights() -> Iterator[Case]:
    for n in (64, 100, 1):
        x, weights = integers(n), integers(5, seed=7)
        launch = Launch("polynomial", -(-n // 64), 64, ("x", "y", n))
        expected = sum(weights[k] * x.astype(float) ** k for k in range(5))
        arrays = {"x": x, "y": fresh(n)}
        constants = {"weights": weights}
        yield Case(f"n = {n}", arrays, (launch,), {"y": expected}, constants=constants, budget={"load": n})


EXERCISES = (
    Exercise(
        "sum-in-a-register",
        TOPIC,
        "Thread r adds the values x[k * rows + r], k from 0 to columns - 1, and stores the sum in sums[r]. The "
        "template is right but keeps its running sum in global memory. Make every value of x be loaded once and "
        "every sum be stored once, with no other access to global memory.",
        (
            "Where does a local variable such as float sum live?",
            "A local variable is in a register: add to it in the loop.",
            "Store to sums[r] once, after the loop; sums need not be loaded at all.",
        ),
        _sum_in_a_register,
        (global_accesses("load"), global_accesses("store")),
    ),
    Exercise(
        "stage-in-shared",
        TOPIC,
        "For each element of x, count the elements of the same block of 64 that are smaller; elements past n "
        "have the value 0, and are counted like the others. All 64 threads read the same 64 values. Load each "
        "value from global memory once per block.",
        (
            "What all threads of a block read again and again belongs in shared memory.",
            "Each thread loads one value to s[threadIdx.x]; who else reads it, and when?",
            "Load (0 past n), __syncthreads(), then loop over s. No thread may leave before the barrier.",
        ),
        _stage_in_shared,
        (global_accesses("load"),),
    ),
    Exercise(
        "constant-weights",
        TOPIC,
        "Evaluate a polynomial of degree 4 at every x[i]: y = w0 + w1 x + w2 x² + w3 x³ + w4 x⁴. The weights are"
        " the same for all threads. They are set from the host before the launch in the __constant__ array "
        "weights. Use it, and load each x[i] once.",
        (
            "A __constant__ variable is read like any array, and broadcast to the warp by the constant cache.",
            "Horner's rule: start with the highest weight, then repeat y = y * x + the next lower one.",
            "for (int k = 3; k >= 0; k--) sum = sum * v + weights[k]; with v = x[i] loaded before the loop.",
        ),
        _constant_weights,
        (uses("weights"), global_accesses("load"), without("pow", "powf", why="it takes many instructions")),
    ),
)
