"""The transpose through shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import no_conflicts, sectors, shared_bytes, uses

TOPIC = "transpose"


def _transposes(shapes: tuple[tuple[int, int], ...], block: tuple[int, int]) -> Iterator[Case]:
    for rows, columns in shapes:
        x = integers((rows, columns))
        grid = -(-columns // 32), -(-rows // 32)
        launch = Launch("transpose", grid, block, ("x", "y", rows, columns))
        arrays = {"x": x, "y": fresh((columns, rows))}
        yield Case(f"a matrix of {rows} × {columns}", arrays, (launch,), {"y": x.T})


def _whole_tiles() -> Iterator[Case]:
    yield from _transposes(((32, 32), (64, 96)), (32, 8))


def _any_shape() -> Iterator[Case]:
    yield from _transposes(((64, 32), (40, 70), (1, 33), (33, 1)), (32, 8))


def _in_place() -> Iterator[Case]:
    for n in (32, 96):
        x = integers((n, n))
        launch = Launch("transpose_square", (n // 32, n // 32), (32, 8), ("x", n))
        yield Case(f"a matrix of {n} × {n}", {"x": x}, (launch,), {"x": x.T})


EXERCISES = (
    Exercise(
        "coalesce-both-sides",
        TOPIC,
        "y = xᵀ, for extents that are multiples of 32, by blocks of 32 × 8 threads that handle a tile of 32 × "
        "32. The template reads rows and writes columns: each store of a warp touches 32 sectors. Go through a "
        "tile in shared memory, so that loads and stores of global memory are coalesced, without bank conflicts.",
        (
            "Write the tile to shared memory as it comes, wait, and read it by columns.",
            "The block's place changes sides as well: the tile's row in y comes from blockIdx.x.",
            "tile[32][33]; y[(blockIdx.x * 32 + r) * rows + blockIdx.y * 32 + tx] = tile[tx][r].",
        ),
        _whole_tiles,
        (sectors(), no_conflicts(), uses("__shared__")),
    ),
    Exercise(
        "transpose-any-shape",
        TOPIC,
        "The same for any number of rows and columns. Every thread must come to the barrier, also in tiles at "
        "the edges.",
        (
            "There are two guards, and they differ: one for reading x, one for writing y.",
            "When writing, tx counts along the rows of x.",
            "Read where row < rows and column < columns; write where blockIdx.y * 32 + tx < rows and blockIdx.x "
            "* 32 + r < columns.",
        ),
        _any_shape,
        (no_conflicts(), uses("__shared__")),
    ),
    Exercise(
        "transpose-in-place",
        TOPIC,
        "Transpose a square matrix in place; n is a multiple of 32, and there is a block for each tile. Two "
        "tiles change places, so one block must load both before it stores either; the blocks below the diagonal"
        " have nothing to do. Stay within 8,500 bytes of shared memory.",
        (
            "What happens if the block of tile (0, 1) writes tile (1, 0) while that one's block reads it?",
            "Let only blocks with blockIdx.x >= blockIdx.y work: whole blocks may return, since their barriers "
            "are their own.",
            "Load both tiles to two arrays of [32][33], one barrier, store both transposed.",
        ),
        _in_place,
        (sectors(), no_conflicts(), shared_bytes(8500)),
    ),
)
