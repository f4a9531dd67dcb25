"""Blocks that work together: fences, tickets, and barriers of the whole grid."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smemkit.lab.exercises.cases import Case, Launch, fresh, integers
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.limits import uses

TOPIC = "whole grids"


def _last_block() -> Iterator[Case]:
    for blocks in (1, 5):
        x = integers(64 * blocks)
        launch = Launch("sum", blocks, 64, ("x", "partial", "ticket", "total"))
        arrays = {"x": x, "partial": fresh(blocks), "ticket": np.zeros(1, np.uint32), "total": fresh(1)}
        yield Case(f"{blocks} × 64 elements", arrays, (launch,), {"total": x.sum(keepdims=True)})


def _grid_barrier() -> Iterator[Case]:
    for blocks in (2, 4):
        x = integers(32 * blocks)
        launch = Launch("reverse_all", blocks, 32, ("x",))
        yield Case(f"{blocks} blocks", {"x": x}, (launch,), {"x": x[::-1]})


EXERCISES = (
    Exercise(
        "last-block-adds",
        TOPIC,
        "A sum in one launch. Each block stores its sum in partial and takes a ticket; the block that gets the "
        "last ticket knows that all others have stored theirs, and adds them to total[0]. The template lacks "
        "what makes the stores of one block visible to another.",
        (
            "The ticket is atomic. Is partial[…] visible to other blocks before the ticket is?",
            "__threadfence() orders a thread's earlier stores before its later ones, for all blocks to see.",
            "A fence between the store and the ticket in each block; another one after the ticket in the last.",
        ),
        _last_block,
        (uses("__threadfence"),),
    ),
    Exercise(
        "barrier-of-the-grid",
        TOPIC,
        "Reverse all of x in place with several blocks: each thread reads its mirrored element, all blocks wait "
        "for each other, then each thread writes. The launch is a cooperative one, so that all blocks are "
        "resident. The template has only a barrier of the block.",
        (
            "__syncthreads() knows nothing of other blocks.",
            "Cooperative groups have a group of the whole grid, and it has a barrier.",
            "cooperative_groups::this_grid().sync(), between the load and the store, in every thread.",
        ),
        _grid_barrier,
        (uses("sync"),),
    ),
)
