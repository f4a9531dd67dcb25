"""Threads, blocks and guards."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import sectors

TOPIC = "first kernels"


def _add_one() -> Iterator[Case]:
    for n in (1, 255, 256, 257, 1000):
        x = integers(n)
        launch = Launch("add_one", -(-n // 256), 256, ("x", "y", n))
        yield Case(f"n = {n:,}", {"x": x, "y": fresh(n)}, (launch,), {"y": x + 1})


def _grid_stride() -> Iterator[Case]:
    for n, grid in ((1000, 8), (1000, 2), (1, 4), (4097, 3)):
        x, y = integers(n), integers(n, seed=2)
        launch = Launch("saxpy", grid, 128, ("x", "y", 3.0, n))
        yield Case(f"n = {n:,} and {grid} blocks of 128 threads", {"x": x, "y": y}, (launch,), {"y": 3 * x + y})


def _matrix_add() -> Iterator[Case]:
    for rows, columns in ((16, 32), (17, 33), (1, 100), (40, 5)):
        a, b = integers((rows, columns)), integers((rows, columns), seed=2)
        launch = Launch("matrix_add", (-(-columns // 32), -(-rows // 8)), (32, 8), ("a", "b", "c", rows, columns))
        arrays = {"a": a, "b": b, "c": fresh((rows, columns))}
        yield Case(f"{rows} rows and {columns} columns", arrays, (launch,), {"c": np.add(a, b)})


EXERCISES = (
    Exercise(
        "add-one",
        TOPIC,
        "Store x[i] + 1 in y[i] for every i below n, one thread per element. The launch has as many blocks of "
        "256 threads as are needed to cover n, so the last block has threads to spare.",
        (
            "Which element belongs to a thread? Its block starts at blockIdx.x * blockDim.x.",
            "With n = 1,000 there are four blocks, 1,024 threads. What may the last 24 threads do?",
            "int i = blockIdx.x * blockDim.x + threadIdx.x, and then work only if (i < n).",
        ),
        _add_one,
    ),
    Exercise(
        "grid-stride",
        TOPIC,
        "Compute y[i] = a * x[i] + y[i] for every i below n, whatever the number of blocks: the launches have "
        "too few threads, or too many. Neighbouring threads must access neighbouring elements.",
        (
            "A thread may do more than one element. How far is it from its first one to its next one?",
            "The whole grid has gridDim.x * blockDim.x threads: that is the distance.",
            "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)",
        ),
        _grid_stride,
        (sectors(),),
    ),
    Exercise(
        "matrix-add",
        TOPIC,
        "Add two matrices, stored row by row. A block has 32 × 8 threads, and the grid covers the matrix in x "
        "(the columns) and in y (the rows). Neither extent need be a multiple of the block.",
        (
            "Two indices need two guards.",
            "A warp is 32 threads with neighbouring threadIdx.x. They should access neighbouring elements.",
            "Element (row, column) is a[row * columns + column]; column comes from x.",
        ),
        _matrix_add,
        (sectors(Fraction(3, 2)),),  # rows of 33 elements do not begin at a sector
    ),
)
