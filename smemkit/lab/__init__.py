"""The laboratory: experiments that run and say what they show, and exercises that grade themselves.

``smemkit.lab.banks()`` is an `Experiment`: a question, rows of numbers, and a verdict that is computed from them.
On a GPU the numbers are measured; without one they are counted by the checker, beside times that are recorded on a
reference GPU. ``smemkit.lab.exercise("pad-the-rows")`` is a task in CUDA, whose ``submit(source)`` grades an
answer by hidden inputs, the checker and limits.
"""

from smemkit.lab.algorithms import first_kernels, matmul, mistakes, reduction, tiling, tree
from smemkit.lab.catalogue import EXPERIMENTS
from smemkit.lab.claims import speedups
from smemkit.lab.execution import async_copy, divergence, occupancy, parallelism, precision
from smemkit.lab.exercises import exercise, exercises
from smemkit.lab.experiment import Column, Experiment
from smemkit.lab.global_memory import coalescing, hierarchy, transfers
from smemkit.lab.shared_memory import banks, carveout, padding, persistence, reverse
from smemkit.lab.synchronisation import barriers
from smemkit.lab.widgets import Steps, reduction_steps, tile_steps, wavefront_steps

__all__ = [
    "EXPERIMENTS",
    "Column",
    "Experiment",
    "Steps",
    "async_copy",
    "banks",
    "barriers",
    "carveout",
    "coalescing",
    "divergence",
    "exercise",
    "exercises",
    "first_kernels",
    "hierarchy",
    "matmul",
    "mistakes",
    "occupancy",
    "padding",
    "parallelism",
    "persistence",
    "precision",
    "reduction",
    "reduction_steps",
    "reverse",
    "speedups",
    "tile_steps",
    "tiling",
    "transfers",
    "tree",
    "wavefront_steps",
]
