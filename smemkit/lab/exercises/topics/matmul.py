"""Tiles of a matrix product in shared memory, and tiles in registers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import global_accesses, no_conflicts, shared_requests, uses

TILED, REGISTERS = "tiled matmul", "register tiles"
SQUARE = ((32, 32, 32), (16, 16, 16))
ANY = ((32, 16, 48), (17, 33, 20), (1, 1, 1), (5, 40, 31))


def _products(
    shapes: tuple[tuple[int, int, int], ...], tile: tuple[int, int] = (16, 16), block: tuple[int, int] = (16, 16)
) -> Iterator[Case]:
    """A (m, k) times B (k, n); a block computes tile[0] rows and tile[1] columns of C."""
    for m, n, k in shapes:
        a, b = integers((m, k)), integers((k, n), seed=2)
        grid = -(-n // tile[1]), -(-m // tile[0])
        launch = Launch("matmul", grid, block, ("a", "b", "c", m, n, k))
        budget = {"load": grid[0] * m * k + grid[1] * k * n, "shared": _requests(tile, block, grid, k)}
        arrays = {"a": a, "b": b, "c": fresh((m, n))}
        yield Case(f"m = {m}, n = {n}, k = {k}", arrays, (launch,), {"c": a @ b}, budget=budget)


def _requests(tile: tuple[int, int], block: tuple[int, int], grid: tuple[int, int], k: int) -> int:
    """Requests to shared memory if a thread reads each value that it needs once per step of k."""
    threads = block[0] * block[1]
    values = tile[0] * tile[1] // threads  # per thread, in one column
    steps = -(-k // 16) * 16
    loads = steps * (values + 1) * threads // 32
    stores = steps * (tile[0] + tile[1]) // 32
    return grid[0] * grid[1] * (loads + stores)


def _naive_to_tiled() -> Iterator[Case]:
    yield from _products(SQUARE)


def _any_shape() -> Iterator[Case]:
    yield from _products(ANY)


def _thread_column() -> Iterator[Case]:
    yield from _products(((64, 16, 16), (64, 32, 48)), tile=(64, 16), block=(16, 16))


def _thread_square() -> Iterator[Case]:
    for m, n, k in ((64, 64, 16), (64, 64, 48)):
        a, b = integers((m, k)), integers((k, n), seed=2)
        launch = Launch("matmul", (n // 64, m // 64), (16, 16), ("a", "b", "c", m, n, k))
        budget = {"shared": 8 * k * (4 + 4) + 2 * k * 64 // 32 + 64}
        arrays = {"a": a, "b": b, "c": fresh((m, n))}
        yield Case(f"m = {m}, n = {n}, k = {k}", arrays, (launch,), {"c": a @ b}, budget=budget)


def _plus_for_times() -> Iterator[Case]:
    for m, n, k in ((16, 16, 16), (32, 16, 64)):
        a, b = np.zeros((m, k), np.float32), integers((k, n), seed=3)
        a[np.arange(m), (3 * np.arange(m) + 1) % k] = 1
        launch = Launch("matmul", (n // 16, m // 16), (16, 16), ("a", "b", "c", m, n, k))
        arrays = {"a": a, "b": b, "c": fresh((m, n))}
        yield Case(f"m = {m}, n = {n}, k = {k}", arrays, (launch,), {"c": a @ b})


EXERCISES = (
    Exercise(
        "tile-the-product",
        TILED,
        "C = A B, with A (m × k), B (k × n), all multiples of 16. The template loads both operands of every "
        "product from global memory. Let a block of 16 × 16 threads load a 16 × 16 tile of A and one of B into "
        "shared memory, use each element 16 times, and go on to the next pair of tiles.",
        (
            "Each thread loads one element of either tile. Then a barrier.",
            "After the products of this pair of tiles comes a second barrier, before the next load.",
            "sum += a_tile[ty][i] * b_tile[i][tx] for i from 0 to 15; tiles begin at t = 0, 16, 32, …",
        ),
        _naive_to_tiled,
        (global_accesses("load"), no_conflicts()),
    ),
    Exercise(
        "guard-the-edges",
        TILED,
        "The tiled product for any m, n and k. The template is right for multiples of 16 only. No element may be"
        " loaded or stored outside of the matrices, and no thread may leave before a barrier.",
        (
            "There are three guards: for A's tile, for B's tile, and for C.",
            "What should be in the tile where the matrix has ended? It must not change the sum.",
            "a_tile[ty][tx] = row < m && t + tx < k ? a[row * k + t + tx] : 0; and the number of steps rounds up.",
        ),
        _any_shape,
        (global_accesses("load"), uses("__shared__")),
    ),
    Exercise(
        "second-barrier",
        TILED,
        "The template computes the tiled product with one barrier per pair of tiles. Its numbers are often "
        "right. Find the hazard, and remove it.",
        (
            "The barrier makes readers wait for writers. Who makes the next writers wait for the readers?",
            "A fast warp loads the next tiles while a slow one still multiplies this pair.",
            "A second __syncthreads() at the end of the loop's body.",
        ),
        _naive_to_tiled,
        (no_conflicts(),),
    ),
    Exercise(
        "plus-for-times",
        TILED,
        "A student's kernel has no race, no conflict, and no access out of bounds, but the wrong numbers: one "
        "operator is not what it should be, and the two indices of one operand are swapped. Find both. The "
        "hidden A has a single 1 in each row, which makes wrong elements easy to read.",
        (
            "The checker is silent: it knows nothing about products. Look at the arithmetic.",
            "C[row][column] is a sum of what, over i?",
            "a_tile[ty][i] * b_tile[i][tx]",
        ),
        _plus_for_times,
    ),
    Exercise(
        "four-rows-per-thread",
        REGISTERS,
        "A block of 16 × 16 threads computes 64 rows and 16 columns of C (m is a multiple of 64, n and k of 16)."
        " A thread computes four elements of one column, 16 rows apart, and keeps them in registers. It reads "
        "each value of B's tile once for all four: five reads of shared memory for four products, not eight.",
        (
            "float sum[4] = {0}: an array whose indices are known at compile time lives in registers.",
            "In the loop over i, load b_tile[i][tx] to a variable, then do the four products.",
            "A's tile has 64 rows: each thread loads four elements of it, rows ty, ty + 16, ty + 32 and ty + 48.",
        ),
        _thread_column,
        (shared_requests(), global_accesses("load")),
    ),
    Exercise(
        "four-by-four-per-thread",
        REGISTERS,
        "A block of 16 × 16 threads computes 64 × 64 elements of C, each thread 4 × 4 of them: rows ty + 16 r "
        "and columns tx + 16 c. In each step of k a thread reads four values of A and four of B, and makes 16 "
        "products of them. The template reads 32 values for 16 products.",
        (
            "Two small arrays in registers hold what was read: float x[4], y[4].",
            "First fill x and y in one loop, then two nested loops with sum[r][c] += x[r] * y[c].",
            "x[r] = a_tile[ty + 16 * r][i] and y[c] = b_tile[i][tx + 16 * c]",
        ),
        _thread_square,
        (shared_requests(),),
    ),
)
