"""Accesses to global memory in whole sectors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import global_accesses, sectors, uses

TOPIC = "coalescing"


def _interleave() -> Iterator[Case]:
    for blocks in (1, 2):
        x = integers(128 * 16 * blocks)
        launch = Launch("scale", blocks, 128, ("x", "y"))
        arrays = {"x": x, "y": fresh(x.size)}
        yield Case(f"n = {x.size:,}", arrays, (launch,), {"y": 3 * x})


def _structure_of_arrays() -> Iterator[Case]:
    for n in (256, 512):
        particles = integers((3, n))
        launch = Launch("move_x", n // 256, 256, ("particles", 2.0, n))
        expected = particles.copy()
        expected[0] += 2
        yield Case(f"n = {n}", {"particles": particles}, (launch,), {"particles": expected})


def _rgb() -> Iterator[Case]:
    for blocks in (1, 3):
        x = integers((256 * blocks, 3))
        launch = Launch("gray", blocks, 256, ("x", "y"))
        arrays = {"x": x, "y": fresh(256 * blocks)}
        expected = {"y": x @ np.array([2, 5, 1], np.float32)}
        yield Case(f"{256 * blocks} pixels", arrays, (launch,), expected, budget={"load": x.size})


def _column_sums() -> Iterator[Case]:
    for rows, columns in ((8, 128), (20, 256)):
        x = integers((rows, columns))
        launch = Launch("column_sums", columns // 128, 128, ("x", "sums", rows, columns))
        arrays = {"x": x, "sums": fresh(columns)}
        label = f"{rows} rows and {columns} columns"
        yield Case(label, arrays, (launch,), {"sums": x.sum(0)}, budget={"load": x.size})


EXERCISES = (
    Exercise(
        "interleave-the-work",
        TOPIC,
        "Each of a block's 128 threads scales 16 of the block's 2,048 elements by 3. The template gives a thread"
        " 16 consecutive elements, as one would on a CPU. Let a warp access consecutive elements in each step.",
        (
            "In step k, which element should the neighbour of thread t access?",
            "Lane by lane the index must grow by 1, step by step by the number of threads.",
            "int i = blockIdx.x * 2048 + k * 128 + threadIdx.x;",
        ),
        _interleave,
        (sectors(),),
    ),
    Exercise(
        "structure-of-arrays",
        TOPIC,
        "Add dx to the x of all n particles. The particles are stored as three arrays one after the other: n "
        "times x, n times y, n times z. The template still treats them as an array of structures (x, y, z).",
        (
            "Where is particle i's x if all of the x come first?",
            "particles[i]; its y is particles[n + i].",
            "With structures a warp touches 12 sectors for 4 sectors' worth of x.",
        ),
        _structure_of_arrays,
        (sectors(),),
    ),
    Exercise(
        "rgb-through-shared",
        TOPIC,
        "Pixels are structures of three floats, and must stay so. Compute y = 2 r + 5 g + b for each pixel, 256 "
        "per block. The template's loads have a stride of 3. Load the block's 768 floats as a plain array to "
        "shared memory, coalesced, and pick the three members there.",
        (
            "The block's pixels are 768 consecutive floats: 3 for each thread, but not its own ones.",
            "s[t], s[t + 256] and s[t + 512] are loaded by thread t.",
            "After the barrier thread t reads s[3 * t], s[3 * t + 1], s[3 * t + 2]: 3 and 32 have no common "
            "factor, so there is no bank conflict.",
        ),
        _rgb,
        (sectors(), uses("__shared__"), global_accesses("load")),
    ),
    Exercise(
        "sum-down-the-columns",
        TOPIC,
        "Store the sum of each column of a matrix (rows × columns, columns a multiple of 128). The template "
        "gives each warp a column, whose lanes walk along it. Give each thread a column instead.",
        (
            "Neighbouring threads should have neighbouring columns.",
            "Then in each row a warp reads 32 consecutive elements.",
            "float sum = 0; for (int r = 0; r < rows; r++) sum += x[r * columns + column];",
        ),
        _column_sums,
        (sectors(), global_accesses("load")),
    ),
)
