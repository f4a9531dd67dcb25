"""Stencils: a tile and its halo."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import global_accesses, no_conflicts, uses

TOPIC = "stencils"


def _halo() -> Iterator[Case]:
    for n in (128, 300, 5):
        blocks = -(-n // 128)
        x = integers(n)
        padded = np.pad(x, 3)
        expected = sum(padded[k : k + n] for k in range(7))
        launch = Launch("stencil", blocks, 128, ("x", "y", n))
        arrays = {"x": x, "y": fresh(n)}
        yield Case(f"n = {n}", arrays, (launch,), {"y": expected}, budget={"load": n + 6 * blocks})


def _corners() -> Iterator[Case]:
    for rows, columns in ((16, 16), (20, 35), (1, 1)):
        x = integers((rows, columns))
        padded = np.pad(x, 1)
        expected = sum(padded[i : i + rows, j : j + columns] for i in range(3) for j in range(3))
        grid = -(-columns // 16), -(-rows // 16)
        launch = Launch("box", grid, (16, 16), ("x", "y", rows, columns))
        arrays = {"x": x, "y": fresh(x.shape)}
        budget = {"load": 18 * 18 * grid[0] * grid[1]}
        label = f"a matrix of {rows} × {columns}"
        yield Case(label, arrays, (launch,), {"y": expected}, budget=budget)


EXERCISES = (
    Exercise(
        "load-the-halo",
        TOPIC,
        "y[i] is the sum of x[i - 3] to x[i + 3]; elements outside of 0 … n - 1 count as 0. A block computes 128"
        " of them and needs 134 elements of x. The template loads each element up to seven times. Load each once"
        " per block, in shared memory.",
        (
            "The tile has 3 + 128 + 3 elements; s[t + 3] is thread t's own.",
            "The first three threads load the six elements of the halo, three at each end.",
            "if (t < 3) { s[t] = left one or 0; s[t + 131] = right one or 0; } then the barrier.",
        ),
        _halo,
        (global_accesses("load"), no_conflicts(), uses("__shared__")),
    ),
    Exercise(
        "corners-of-the-tile",
        TOPIC,
        "y is the sum of the 3 × 3 elements around each one; elements outside of the matrix count as 0. A block "
        "of 16 × 16 threads needs a tile of 18 × 18. The template forgets the corners of the halo.",
        (
            "256 threads, 324 elements: let each thread load one or two, whichever they are.",
            "Number the tile's elements from 0 to 323; thread k loads k and k + 256.",
            "for (int k = ty * 16 + tx; k < 324; k += 256): row k / 18 and column k % 18 of the tile.",
        ),
        _corners,
        (global_accesses("load"), uses("__shared__")),
    ),
)
