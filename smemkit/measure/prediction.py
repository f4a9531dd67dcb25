"""The least time of a matrix product on a GPU: of each limit alone, from what the checker counts.

A multiprocessor has four schedulers, each of which starts one instruction of a warp per clock; a multiply-add of
32 lanes is one of these, and so is a request for memory. Its shared memory, which is also the L1 cache, has one
pass of 128 bytes per clock for both. What a block reads of the operands comes from L2 at least once. A kernel
takes at least as long as the slowest of these takes alone; it takes longer where it waits for latencies and
barriers, or computes addresses, and shorter only where the compiler merges accesses, because they are counted as
written in the source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = [
    "DMMA",
    "FMA",
    "H200",
    "IMMA",
    "MMA",
    "TF32",
    "WGMMA",
    "Gpu",
    "Multiplier",
    "Prediction",
    "ProductWork",
    "predict",
]

WARP = 32
SCHEDULERS = 4  # of a multiprocessor: instructions per clock


@dataclass(frozen=True)
class Multiplier:
    """An instruction that multiplies.

    Attributes
    ----------
    name : str
        Of the limit that its units set.
    products : int
        Multiply-adds of one instruction of a warp.
    per_clock : float
        Multiply-adds of a multiprocessor per clock.
    """

    name: str
    products: int
    per_clock: float


# Of a Hopper multiprocessor: wgmma reaches 2048 multiply-adds of 16-bit operands per clock, mma.sync 63 % of that
# (Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", 2024), twice
# as many of bytes, half as many of TF32; mma of doubles as many as FP32 units (NVIDIA's data sheet). A warp does
# a quarter of a wgmma.
FMA = Multiplier("FMA", WARP, WARP * SCHEDULERS)
MMA = Multiplier("tensor cores", 16 * 8 * 16, 0.63 * 2048)
TF32 = Multiplier("tensor cores", 16 * 8 * 8, MMA.per_clock / 2)
IMMA = Multiplier("tensor cores", 16 * 8 * 32, 2 * MMA.per_clock)
DMMA = Multiplier("tensor cores", 16 * 8 * 8, FMA.per_clock)
WGMMA = Multiplier("tensor cores", 64 * 128 * 16 // 4, 2048)


@dataclass(frozen=True)
class Gpu:
    """What limits a GPU.

    Attributes
    ----------
    name : str
    multiprocessors : int
    clock : float
        In Hz.
    l2_bandwidth, memory_bandwidth : float
        Bytes per second.
    """

    name: str
    multiprocessors: int
    clock: float
    l2_bandwidth: float
    memory_bandwidth: float


# Multiprocessors, clock and memory: NVIDIA's data sheet; L2: as the suite hierarchy measures it (reference/)
H200 = Gpu("NVIDIA H200", 132, 1.98e9, 8.2e12, 4.8e12)


@dataclass(frozen=True)
class ProductWork:
    """What a kernel does for a product, in all.

    Attributes
    ----------
    shape : tuple of int
        (m, n, k).
    itemsize : int
        Bytes per element.
    tile : float
        Elements of the result per block.
    requests : float
        Requests of warps for shared and for global memory.
    wavefronts : float
        Passes of shared memory and of L1 that they take.
    multiplier : Multiplier
        What multiplies.
    """

    shape: tuple[int, int, int]
    itemsize: int
    tile: float
    requests: float
    wavefronts: float
    multiplier: Multiplier = FMA

    @property
    def multiplications(self) -> float:
        """Instructions of warps that multiply."""
        return math.prod(self.shape) / self.multiplier.products

    @property
    def l2_bytes(self) -> float:
        """The fewest bytes that blocks read: one with a square tile has the fewest rows and columns."""
        m, n, k = self.shape
        return m * n / self.tile * 2 * math.sqrt(self.tile) * k * self.itemsize

    @property
    def memory_bytes(self) -> float:
        """Both operands and the result, once."""
        m, n, k = self.shape
        return (m * k + k * n + m * n) * self.itemsize


@dataclass(frozen=True)
class Prediction:
    """The least time of a product.

    Attributes
    ----------
    times : dict of str to float
        Seconds by limit: "FMA" (multiply-adds of FP32) or "tensor cores", "issue" (these instructions and the
        requests for memory), "shared" (shared memory and L1), "L2", "memory".
    """

    times: dict[str, float]

    @property
    def limit(self) -> str:
        """What limits it."""
        return max(self.times, key=lambda name: self.times[name])

    @property
    def seconds(self) -> float:
        """The largest of the times."""
        return self.times[self.limit]


def predict(work: ProductWork, gpu: Gpu = H200) -> Prediction:
    """The least time of a product of float32, or of 16-bit floats on tensor cores.

    Examples
    --------
    >>> from smemkit.measure.prediction import ProductWork, predict
    >>> tiled = ProductWork((4096, 4096, 4096), 4, tile=32 * 32, requests=4.4e9, wavefronts=4.4e9)
    >>> found = predict(tiled)
    >>> found.limit, round(1e3 * found.seconds)
    ('shared', 17)
    """
    passes = gpu.multiprocessors * gpu.clock  # per second
    instructions = SCHEDULERS * passes
    return Prediction(
        {
            work.multiplier.name: math.prod(work.shape) / (work.multiplier.per_clock * passes),
            "issue": (work.multiplications + work.requests) / instructions,
            "shared": work.wavefronts / passes,
            "L2": work.l2_bytes / gpu.l2_bandwidth,
            "memory": work.memory_bytes / gpu.memory_bandwidth,
        }
    )
