"""Bank conflicts: strides, columns, padding, XOR swizzles, wide accesses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import no_conflicts, sectors, shared_bytes, shared_requests, uses

TOPIC = "bank conflicts"


def _pairs() -> Iterator[Case]:
    for blocks in (1, 2):
        x = integers(256 * blocks)
        pairs = x.reshape(-1, 2)
        launch = Launch("sum_pairs", blocks, 128, ("x", "y"))
        arrays = {"x": x, "y": fresh(128 * blocks)}
        yield Case(f"n = {x.size}", arrays, (launch,), {"y": pairs.sum(1)})


def _row_sums() -> Iterator[Case]:
    for tiles in (1, 3):
        x = integers((32 * tiles, 32))
        launch = Launch("row_sums", tiles, 32, ("x", "sums"))
        arrays = {"x": x, "sums": fresh(32 * tiles)}
        yield Case(f"{32 * tiles} rows", arrays, (launch,), {"sums": x.sum(1)})


def _tile_transposed() -> Iterator[Case]:
    for tiles in (1, 2):
        x = integers((tiles, 32, 32))
        launch = Launch("transpose_tiles", tiles, (32, 8), ("x", "y"))
        arrays = {"x": x, "y": fresh(x.shape)}
        yield Case(f"n = {x.size:,}", arrays, (launch,), {"y": x.transpose(0, 2, 1)})


def _structs() -> Iterator[Case]:
    for blocks in (1, 2):
        x = integers((64 * blocks, 4))
        weights = np.array([1, 2, 3, 4])
        launch = Launch("weigh", blocks, 64, ("x", "y"))
        reversed_rows = x.reshape(blocks, 64, 4)[:, ::-1]
        arrays = {"x": x, "y": fresh(64 * blocks)}
        budget = {"shared": 4 * blocks}
        expected = {"y": (reversed_rows @ weights).reshape(-1)}
        yield Case(f"n = {x.size}", arrays, (launch,), expected, budget=budget)


EXERCISES = (
    Exercise(
        "stride-two",
        TOPIC,
        "Thread t adds the neighbours x[2 t] and x[2 t + 1] of its block of 256 elements, through shared memory."
        " The template's lanes read words that are two apart: lanes 0 and 16 meet in a bank. Read pairs so that "
        "no bank has two words to deliver in a wavefront, and keep the loads from global memory coalesced.",
        (
            "Bank = word mod 32. Lane l reads word 2 l: which other lane reads from the same bank?",
            "A load of 8 bytes per lane is served in two halves of a warp, 16 lanes each.",
            "float2 pair = ((float2 *)s)[t]; needs s to be aligned to 8 bytes.",
        ),
        _pairs,
        (no_conflicts(), sectors(), uses("__shared__")),
    ),
    Exercise(
        "pad-the-rows",
        TOPIC,
        "A warp loads a 32 × 32 tile row by row; then lane l adds row l. In each step of the sum the lanes read "
        "a column, which is in one bank: a 32-way conflict. Remove it by changing the tile's shape. At most "
        "5,000 bytes of shared memory.",
        (
            "In float tile[32][32] the word at [row][column] is in bank (32 row + column) mod 32 = column.",
            "Which row length, a little more than 32, puts a column's words in 32 different banks?",
            "float tile[32][33]",
        ),
        _row_sums,
        (no_conflicts(), sectors(), shared_bytes(5000), uses("__shared__")),
    ),
    Exercise(
        "xor-swizzle",
        TOPIC,
        "Transpose tiles of 32 × 32 without a conflict and without a byte more than the tile's 4,096: no "
        "padding. Store element (row, column) in another column of its row, so that columns spread over the "
        "banks.",
        (
            "Within a row, any permutation of the 32 columns keeps the row's stores free of conflicts.",
            "column ^ row, XOR, is such a permutation, and for a fixed column it differs in every row.",
            "tile[row][column ^ row] when storing, and the same rule when reading.",
        ),
        _tile_transposed,
        (no_conflicts(), sectors(), shared_bytes(4096), uses("__shared__")),
    ),
    Exercise(
        "read-structs-whole",
        TOPIC,
        "A block reverses 64 structures of four floats through shared memory; thread t weighs the structure of "
        "thread 63 - t: 1 a + 2 b + 3 c + 4 d. The template reads the four members one by one, with a stride of "
        "four words. Use 16-byte accesses to shared memory, for the store and for the load.",
        (
            "A request of 16 bytes per lane takes four wavefronts at least: it moves 512 bytes.",
            "float4 loads and stores of consecutive structures have no conflict.",
            "__shared__ float4 s[64]; s[t] = ((const float4 *)x)[i]; then float4 v = s[63 - t];",
        ),
        _structs,
        (no_conflicts(), sectors(), shared_requests()),
    ),
)
