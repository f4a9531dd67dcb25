"""The experiments in reading order, by name."""

from collections.abc import Callable

from smemkit.lab import algorithms, claims, execution, global_memory, shared_memory, synchronisation
from smemkit.lab.experiment import Experiment

__all__ = ["EXPERIMENTS", "purpose"]

EXPERIMENTS: dict[str, Callable[..., Experiment]] = {
    function.__name__: function
    for function in (
        algorithms.first_kernels,
        global_memory.hierarchy,
        global_memory.coalescing,
        shared_memory.reverse,
        shared_memory.persistence,
        synchronisation.barriers,
        shared_memory.banks,
        shared_memory.padding,
        algorithms.tree,
        algorithms.reduction,
        algorithms.tiling,
        algorithms.mistakes,
        algorithms.matmul,
        execution.occupancy,
        execution.parallelism,
        shared_memory.carveout,
        execution.divergence,
        execution.precision,
        execution.async_copy,
        global_memory.transfers,
        claims.speedups,
    )
}


def purpose(name: str) -> str:
    """What an experiment shows, in one line: the first one of its docstring."""
    return (EXPERIMENTS[name].__doc__ or "").strip().splitlines()[0]
