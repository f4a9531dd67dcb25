"""What experiments share: their kernels, the checker's counts, times on a GPU, recorded times, and progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from smemkit import ops
from smemkit.arrays import asarray
from smemkit.checker.lines import SECTOR_BYTES, LineReport
from smemkit.checker.report import Report
from smemkit.devices import Device
from smemkit.measure.benchmarks import measure
from smemkit.measure.ceilings import Ceilings
from smemkit.measure.operands import random
from smemkit.measure.records import Records, recorded, reference_reports
from smemkit.user_kernel.kernel import Kernel

__all__ = [
    "Counts",
    "counted",
    "cycles",
    "kernel",
    "kernel_source",
    "marked",
    "operation_seconds",
    "progress",
    "recorded_ceilings",
    "recorded_problem",
    "recorded_row",
    "recorded_seconds",
    "reference_rows",
    "seconds_of",
]

KERNELS = Path(__file__).with_name("kernels")
SECONDS = 0.1  # per timed launch on a GPU
Item = TypeVar("Item")


# ---- kernels ----


def kernel_source(name: str) -> str:
    """The text of a file of kernels/: "banks"."""
    return (KERNELS / f"{name}.cu").read_text(encoding="utf-8")


@cache
def _program(file: str) -> Kernel:
    return Kernel._to_check(kernel_source(file), None, options=())


def kernel(file: str, name: str) -> Kernel:
    """A kernel of a file in kernels/. It is compiled at its use, because a check compiles another build."""
    program = _program(file)
    return program if program.name == name else program[name]


def progress(items: Sequence[Item], what: str) -> Iterator[Item]:
    """The items, with a progress bar on standard error if that is a terminal."""
    shown = sys.stderr is not None and sys.stderr.isatty()
    if not shown:
        return iter(items)
    from rich.console import Console  # only where they are used, because importing them takes long
    from rich.progress import track

    return iter(track(items, what, console=Console(stderr=True), transient=True))


# ---- what the checker counts ----


@dataclass(frozen=True)
class Counts:
    """The checker's counts, extrapolated from the checked blocks to all: of all launches, or of some lines.

    Attributes
    ----------
    requests, lanes : float
        Requests of warps, and active lanes in them.
    wavefronts, conflicts : float
        Of shared memory.
    degree : int
        The n of the worst n-way bank conflict; 1 without one.
    sectors, ideal_sectors : float
        Of global memory.
    bytes : float
        That lanes requested.
    barriers, launches : float
    """

    requests: float
    lanes: float
    wavefronts: float
    conflicts: float
    degree: int
    sectors: float
    ideal_sectors: float
    bytes: float
    barriers: float
    launches: int

    @property
    def lanes_per_request(self) -> float:
        """Active lanes of 32, on average."""
        return self.lanes / max(1, self.requests)

    @property
    def sector_bytes(self) -> float:
        """The bytes of the sectors."""
        return self.sectors * SECTOR_BYTES


def counted(report: Report, wanted: Callable[[LineReport], bool] = lambda line: True) -> Counts:
    """The counts of the lines that are wanted; barriers and launches of the whole report."""
    names = ("requests", "lanes", "wavefronts", "conflicts", "sectors", "ideal_sectors")
    sums, degree, size, barriers = dict.fromkeys(names, 0.0), 1, 0.0, 0.0
    for launch in report.launches:
        times = launch.blocks / launch.blocks_checked
        barriers += launch.barriers * times
        for line in filter(wanted, launch.lines):
            degree = max(degree, line.degree)
            size += line.lanes * line.size * times
            for name in names:
                sums[name] += getattr(line, name) * times
    return Counts(**sums, degree=degree, bytes=size, barriers=barriers, launches=len(report.launches))


def marked(word: str = "measured", access: str = "") -> Callable[[LineReport], bool]:
    """Selects the lines of a source that end with the comment ``// word``, and one kind of access."""
    return lambda line: line.text.rstrip().endswith(f"// {word}") and line.access.startswith(access)


# ---- times on a GPU ----


def seconds_of(
    which: Kernel, launch: Sequence[Any], on: Device, args: Sequence[Any], *, cold: bool = False
) -> float | None:
    """The median time of a launch by the GPU's clock; None on the CPU device, whose times say nothing of a GPU.

    `launch` is grid, block and, optionally, bytes of shared memory.
    """
    if not on.is_cuda:
        return None
    grid, block, shared = (*launch, 0)[:3]
    with on:
        arrays = [asarray(arg, device=on.name) if isinstance(arg, np.ndarray) else arg for arg in args]
        return measure(
            lambda stream: which[grid, block, shared, stream](*arrays), on.name, cold=cold, max_seconds=SECONDS
        ).median


def operation_seconds(
    op: str, shapes: Sequence[tuple[int, ...]], on: Device, *, dtype: str = "float32", **options: Any
) -> float | None:
    """The median time of an operation by the GPU's clock, with warm caches; None on the CPU device."""
    if not on.is_cuda:
        return None
    operation = getattr(ops, op)
    arrays = [asarray(random(shape, dtype, seed=i), device=on.name) for i, shape in enumerate(shapes)]
    result = operation(*arrays, **options)
    call = partial(operation, *arrays, **options, out=result)
    return measure(lambda stream: call(stream=stream), on.name, cold=False, max_seconds=SECONDS).median


def cycles(
    which: Kernel, launch: Sequence[Any], on: Device, args: Sequence[Any], per: int, *, out: int, launches: int = 2
) -> float | None:
    """Clock cycles per step, which a kernel writes to the int32 array of `out` elements that comes after its
    arguments: the median over its threads, of the last launch. A second launch finds what the first one read in
    L2. None on the CPU device."""
    if not on.is_cuda:
        return None
    with on:
        arrays = [asarray(arg, device=on.name) if isinstance(arg, np.ndarray) else arg for arg in args]
        result = asarray(np.zeros(out, np.int32), device=on.name)
        for _ in range(launches):
            which[tuple(launch)](*arrays, result)
        return float(np.median(result.numpy())) / per


# ---- recorded times ----


@cache
def recorded_problem(op: str, shape: tuple[int, ...]) -> Records | None:
    """The newest records of a problem of float32 with warm L2."""
    return next(iter(recorded(op, shape)), None)


def recorded_row(op: str, shape: tuple[int, ...], name: str, **options: int) -> dict[str, Any] | None:
    """The recorded row of a kernel."""
    records = recorded_problem(op, shape)
    return records.row(name, **options) if records else None


def recorded_seconds(op: str, shape: tuple[int, ...], name: str, **options: int) -> float | None:
    """The recorded time of a kernel."""
    row = recorded_row(op, shape, name, **options)
    return row["us"] / 1e6 if row else None


def _newest_reports() -> list[dict[str, Any]]:
    """The contents of the reference files of one GPU, the newest first."""
    return sorted(reference_reports(), key=lambda report: report["environment"]["date"], reverse=True)


def reference_rows(**wanted: Any) -> Iterable[dict[str, Any]]:
    """The rows of those files with these fields, each with its environment under "on"; newest first."""
    for report in _newest_reports():
        for row in report["rows"]:
            if all(row.get(name) == value for name, value in wanted.items()):
                yield row | {"on": report["environment"]}


def recorded_ceilings() -> tuple[Ceilings | None, str | None]:
    """The ceilings of the newest reference file, and its GPU and date."""
    for report in _newest_reports():
        environment = report["environment"]
        if limits := environment.get("ceilings"):
            return Ceilings(**limits), f"{environment['gpu']}, {environment['date'][:10]}"
    return None, None
