"""The exercises, one module per topic: tasks, hints, hidden inputs and limits. Their CUDA is in ../templates/ and
../solutions/."""

from smemkit.lab.exercises.topics import (
    arrays,
    async_copies,
    atomics,
    banks,
    barriers,
    coalescing,
    divergence,
    first_kernels,
    grids,
    hierarchy,
    matmul,
    occupancy,
    pipelines,
    precision,
    reduction,
    scan,
    stencils,
    transpose,
    warps,
)

# in the order of the lessons
TOPICS = (
    first_kernels,
    hierarchy,
    arrays,
    barriers,
    reduction,
    warps,
    matmul,
    banks,
    transpose,
    coalescing,
    occupancy,
    divergence,
    precision,
    atomics,
    scan,
    stencils,
    async_copies,
    grids,
    pipelines,
)

__all__ = ["TOPICS"]
