"""Measures a ladder: each rung's time, and the checker's counts of its memory accesses."""

from __future__ import annotations

import json
import math
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from smemkit import ops
from smemkit.arrays import asarray, empty
from smemkit.checker.check import check
from smemkit.checker.figures import new_figure
from smemkit.checker.lines import SECTOR_BYTES, LineReport
from smemkit.checker.report import Report
from smemkit.devices import Device
from smemkit.measure.benchmarks import Benchmark, measure, measure_host, operation_work
from smemkit.measure.ceilings import Ceilings, ceilings
from smemkit.measure.formats import format_number, format_seconds
from smemkit.measure.operands import random
from smemkit.measure.prediction import FMA, H200, Multiplier, ProductWork, predict
from smemkit.measure.records import Records, recorded
from smemkit.table.kernel_table import KernelInfo, computes, kernels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Counts", "Ladder", "Rung", "Speed", "ladder"]

# shapes; those of matmul are (m, n, k)
BIG = {"matmul": (4096, 4096, 4096), "reduce": (16_777_216,), "transpose": (8192, 8192)}  # bench.LADDERS has them
SMALL = {"matmul": (256, 256, 256), "reduce": (262_144,), "transpose": (1024, 1024)}  # for the CPU
COUNTED = {"matmul": (128, 128, 128), "reduce": (65_536,), "transpose": (512, 512)}  # the largest for the checker
SECONDS = 0.15  # per rung
WIDTH = 80  # columns of the text


@dataclass(frozen=True)
class Speed:
    """The speed of a rung.

    Attributes
    ----------
    shape : tuple of int
        The problem: (m, n, k) of a matmul.
    seconds : float
        The median.
    value : float
        In GB/s, or TFLOP/s for matmul.
    speedup : float or None
        The ratio to the rung below; None for the first rung and for ceilings.
    fraction : float or None
        Of the ceiling; None if that is not known, or if the operands stay in L2.
    """

    shape: tuple[int, ...]
    seconds: float
    value: float
    speedup: float | None = None
    fraction: float | None = None


@dataclass(frozen=True)
class Counts:
    """The checker's counts over all launches of a call, for the accesses as written in the source.

    Attributes
    ----------
    shape : tuple of int
        The problem: (m, n, k) of a matmul.
    wavefronts, conflicts : float
        Wavefronts of shared memory, and how many of them bank conflicts cause, per 32 elements (of matmul: per 32
        multiplications).
    sectors, ideal_sectors : float
        Sectors of global memory in requests, and the fewest that could hold their bytes, per 32 elements.
    lanes : float
        Active lanes per request, on average.
    global_bytes, shared_bytes : float
        Bytes of those sectors, and bytes that lanes load from shared memory and store to it, per 32 elements.
    fmas_per_shared_byte : float or None
        Multiply-adds of a matmul per byte of `shared_bytes`; None if there are none.
    bytes_in_flight : int
        The most bytes of asynchronous copies that a block had started and not yet waited for.
    """

    shape: tuple[int, ...]
    wavefronts: float
    conflicts: float
    sectors: float
    ideal_sectors: float
    lanes: float
    global_bytes: float
    shared_bytes: float
    fmas_per_shared_byte: float | None = None
    bytes_in_flight: int = 0

    def cells(self, op: str) -> dict[str, str]:
        """The cells of a table by heading: of a matmul bytes instead of sectors."""
        unit, size = ("bytes", SECTOR_BYTES) if op == "matmul" else ("sectors", 1)
        numbers = {"wavefronts": self.wavefronts, "conflicts": self.conflicts}
        numbers |= {unit: self.sectors * size, "ideal": self.ideal_sectors * size, "lanes": self.lanes}
        numbers |= {"FMA/byte": self.fmas_per_shared_byte} if op == "matmul" else {}
        cells = {name: "" if number is None else f"{number:.3g}" for name, number in numbers.items()}
        return cells | ({"in flight": f"{self.bytes_in_flight:,}"} if op == "matmul" else {})


@dataclass(frozen=True)
class Rung:
    """A kernel of a ladder.

    Attributes
    ----------
    name, idea : str
        As in `smemkit.kernels`.
    default, ceiling : bool
        Whether ``kernel=None`` chooses it; whether it is a ceiling.
    here : Speed or None
        Measured now; None if this build cannot launch it.
    recorded : Speed or None
        From the reference file.
    counts : Counts or None
        None if the executor cannot run it.
    predicted : Speed or None
        The most that an H200 could reach in a matmul of float32 with these counts: see
        `smemkit.measure.prediction`. None of other operations and dtypes, and if the counted problem is small.
    limited_by : str or None
        What limits it: "FMA", "issue", "shared", "L2" or "memory".
    """

    name: str
    idea: str
    default: bool
    ceiling: bool
    here: Speed | None = None
    recorded: Speed | None = None
    counts: Counts | None = None
    predicted: Speed | None = None
    limited_by: str | None = None

    @property
    def choice(self) -> bool:
        """The former name of `default`."""
        warnings.warn("Rung.choice: it is now called default", DeprecationWarning, stacklevel=2)
        return self.default


@dataclass(frozen=True, repr=False)
class Ladder:
    """The result of `ladder`.

    Attributes
    ----------
    op, dtype : str
    shape : tuple of int
        The problem that was measured: (m, n, k) of a matmul.
    unit : str
        The unit of `Speed.value`: "GB/s" or "TFLOP/s".
    device, clock : str
        The device's description, "NVIDIA H200", and how rungs were timed.
    ceiling : float or None
        The device's ceiling, in `unit`; None on the CPU device.
    recorded_on : str or None
        GPU, date and shape of the recorded times; None if there are none.
    recorded_ceiling : float or None
        That GPU's ceiling, in `unit`.
    rungs : tuple of Rung
        From the bottom up, with the ceilings.
    production : Rung or None
        The production kernel that ``kernel=None`` chooses; None where it chooses a rung.
    notes : tuple of str
        Remarks for the reader.
    """

    op: str
    dtype: str
    shape: tuple[int, ...]
    unit: str
    device: str
    clock: str
    ceiling: float | None
    recorded_on: str | None
    recorded_ceiling: float | None
    rungs: tuple[Rung, ...]
    production: Rung | None = None
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[Rung, ...]:
        """The rows of the table: the rungs, then the production kernel."""
        return self.rungs + ((self.production,) if self.production else ())

    @property
    def title(self) -> str:
        """The problem, the device and the clock."""
        return f"{self.op}, {size(self.op, self.shape)}, {self.dtype}, on {self.device}: {self.clock}"

    @property
    def units(self) -> str:
        """The unit to which counts refer."""
        return "multiplications" if self.op == "matmul" else "elements"

    @property
    def columns(self) -> dict[str, list[str]]:
        """The table: cells by heading."""
        columns: dict[str, list[str]] = {"": [rung.name + (" *" if rung.default else "") for rung in self.rows]}
        columns["time"] = [rung.here and format_seconds(rung.here.seconds) for rung in self.rows]
        columns[self.unit] = [rung.here and format_number(rung.here.value) for rung in self.rows]
        if self.recorded_on:
            columns["recorded"] = [rung.recorded and format_number(rung.recorded.value) for rung in self.rows]
        speeds = [rung.recorded if self.recorded_on else rung.here for rung in self.rows]
        columns["× below"] = [speed and speed.speedup and format_number(speed.speedup) for speed in speeds]
        columns["of ceiling"] = [speed and speed.fraction and f"{speed.fraction:.1%}" for speed in speeds]
        if any(rung.predicted for rung in self.rows):
            columns["predicted"] = [rung.predicted and format_number(rung.predicted.value) for rung in self.rows]
            columns["limit"] = [rung.limited_by for rung in self.rows]
        counts = [rung.counts and rung.counts.cells(self.op) for rung in self.rows]
        for name in next(filter(None, counts), ()):
            columns[name] = [cells and cells[name] for cells in counts]
        return {name: [cell or "" for cell in cells] for name, cells in columns.items()}

    @property
    def remarks(self) -> Iterator[str]:
        """Explanations of the columns."""
        unit = "bytes and ideal bytes of global memory" if self.op == "matmul" else "sectors and ideal sectors"
        yield f"* is what kernel=None chooses. Wavefronts, conflicts, {unit}: counted by the"
        yield f"checker, per 32 {self.units}, for the accesses as written. Lanes: active ones of 32, on average."
        if self.op == "matmul":
            yield "FMA/byte: multiply-adds per byte that lanes load from shared memory or store to it."
            yield "In flight: the most bytes of asynchronous copies that a block had not yet waited for; bulk"
            yield "copies are in no other column."
        if any(rung.predicted for rung in self.rows):
            yield f"predicted: what an {H200.name} could reach, and what limits it, if nothing waited for"
            yield "latencies and barriers and the compiler merged no accesses: FP32 units (FMA), issue slots of"
            yield "FMAs and requests, shared memory with L1, L2, or memory."
        if self.recorded_on:
            yield f"recorded, × below and of ceiling: not measured here, but recorded on {self.recorded_on}."
        yield from self.notes

    def __str__(self) -> str:
        first, *others = _tables(self.columns)
        lines = [*textwrap.wrap(self.title, WIDTH), "", first[0]]
        for rung, line in zip(self.rows, first[1:], strict=True):
            idea = f"the ceiling: {rung.idea}" if rung.ceiling else rung.idea
            lines += [line, *textwrap.wrap(idea, WIDTH, initial_indent="    ", subsequent_indent="    ")]
        for table in others:
            lines += ["", *table]
        return "\n".join([*lines, "", *textwrap.wrap(" ".join(self.remarks), WIDTH)])

    def __repr__(self) -> str:
        return f"<Ladder {self.title}: {len(self.rungs)} rungs>"

    def _repr_html_(self) -> str:
        columns = self.columns | {"idea": [rung.idea for rung in self.rows]}
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
            for cells in zip(*columns.values(), strict=True)
        )
        caption, remarks = escape(self.title), escape(" ".join(self.remarks))
        return f"<table><caption>{caption}</caption><tr>{head}</tr>{rows}</table><p>{remarks}</p>"

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, for `json.dumps`."""
        return json.loads(json.dumps({"schema": "smemkit.ladder", "version": 1, **asdict(self)}))

    def plot(self) -> Figure:
        """A bar chart of the recorded speeds, or else of the measured ones, with the ceiling as a line.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            Matplotlib is not installed.
        """
        figure = new_figure("ladder.plot()", figsize=(9, 1.3 + 0.34 * len(self.rows)))
        axes = figure.subplots()
        source, ceiling = ("recorded", self.recorded_ceiling) if self.recorded_on else ("here", self.ceiling)
        rungs = [rung for rung in self.rows if getattr(rung, source)]
        values = [getattr(rung, source).value for rung in rungs]
        colors = ["goldenrod" if rung.ceiling else "teal" for rung in rungs]
        bars = axes.barh([rung.name for rung in rungs], values, color=colors)
        axes.bar_label(bars, [format_number(value) for value in values], padding=3, fontsize=8)
        if ceiling:
            axes.axvline(ceiling, color="tomato", label=f"the ceiling, {format_number(ceiling)} {self.unit}")
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8)
        if max(values) > 100 * min(values):
            axes.set_xscale("log")
        axes.margins(x=0.15)
        axes.invert_yaxis()
        axes.set_xlabel(self.unit)
        title = self.title if source == "here" else f"{self.op}, {self.dtype}, recorded on {self.recorded_on}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=10, parse_math=False)
        return figure


def ladder(
    op: str,
    shape: int | Sequence[int] | None = None,
    *,
    dtype: str = "float32",
    device: str | None = None,
) -> Ladder:
    """Measures every rung of an operation, and counts its memory accesses.

    On a GPU, rungs are timed by the device's clock with warm caches, and compared with `smemkit.ceilings`. Rungs
    in plain C run on the host, on a smaller problem. The CPU device's times say nothing about a GPU; if a
    reference file has times recorded on a GPU, they are shown as well.

    Parameters
    ----------
    op : {"reduce", "transpose", "matmul"}
        "reduce" is the sum of all elements.
    shape : int or sequence of int, optional
        The number of elements to sum; the shape or the side of the matrix to transpose; (m, n, k) of a product, or
        one number for all three. If None, a shape that suits the device.
    dtype : str
        The operands' dtype.
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Returns
    -------
    Ladder

    Raises
    ------
    ValueError, TypeError
        An argument is invalid; the message names it.
    NoDeviceError
        This machine has no such device.
    OutOfMemoryError
        The device has too little memory.

    Examples
    --------
    >>> import smemkit
    >>> climbed = smemkit.ladder("reduce", 1000, device="cpu")
    >>> [rung.name for rung in climbed.rungs][:3]
    ['sequential', 'atomic', 'divergent']
    """
    if op not in BIG:
        raise ValueError(f"op: expected one of {', '.join(BIG)}; got {op!r}")
    dtype = np.dtype(dtype).name
    rows = [row for row in kernels(op) if row.role != "production"]
    if not any(dtype in row.dtypes for row in rows):
        raise ValueError(f"dtype: expected one of {', '.join(rows[0].dtypes)}; got {dtype!r}")
    on = Device(device)
    given = _shape(op, shape)
    shape = given or (BIG if on.is_cuda else SMALL)[op]
    limits = ceilings(on.name) if on.is_cuda else None
    records = None if on.is_cuda else _records(op, dtype, given)
    climb = _Climb(op, shape, dtype, on, limits, records)
    rungs = [climb.rung(row) for row in rows if computes(row, dtype)]
    production = [climb.rung(row) for row in kernels(op) if row.default and row.role == "production"]
    without = [row.name for row in rows if dtype not in row.dtypes]
    absent = [rung.name for rung in rungs if not rung.here]
    coarse = [row.name for row in rows if dtype in row.dtypes and not computes(row, dtype)]
    notes = [f"without {', '.join(without)}, which do not support {dtype}."] if without else []
    notes += [f"without {', '.join(coarse)}: {dtype} in TF32 only."] if coarse else []
    notes += [f"{', '.join(absent)}: this build cannot launch it on {on.name}."] if absent else []
    notes += [
        f"{rung.name} is measured on {size(op, rung.here.shape)}." for rung in rungs if _is_other(rung, shape)
    ]
    work = operation_work(op, *_operands(op, tuple(1 for _ in shape), dtype))
    unit = "TFLOP/s" if op == "matmul" else "GB/s"
    notes += _faster_options(records, unit) if records else []
    return Ladder(
        op,
        dtype,
        shape,
        unit,
        on.description,
        "device clock, warm caches" if on.is_cuda else "the executor's times, which say nothing about a GPU",
        _limit(limits, work["ceiling"]),
        records and f"{records.where}, {size(op, records.shape)}",
        records and _limit(records.limits, work["ceiling"]),
        tuple(_with_speedups(_with_speedups(rungs, "here"), "recorded")),
        production[0] if production else None,
        tuple(notes),
    )


def size(op: str, shape: tuple[int, ...]) -> str:
    """A shape as text: "n = 1,000", "8192 x 8192"."""
    if len(set(shape)) == 1 and op != "transpose":
        return f"n = {shape[0]:,}"
    return " x ".join(map(str, shape))


def _shape(op: str, given: int | Sequence[int] | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    count = len(BIG[op])
    shape = (given,) * count if isinstance(given, (int, np.integer)) else tuple(given)
    if len(shape) != count or not all(isinstance(n, (int, np.integer)) and n > 0 for n in shape):
        many = f" or {count} of them" if count > 1 else ""
        raise ValueError(f"shape: expected a positive integer{many}, got {given!r}")
    return tuple(map(int, shape))


def _operands(op: str, shape: tuple[int, ...], dtype: str) -> list[np.ndarray]:
    if op == "matmul":
        m, n, k = shape
        return [random((m, k), dtype), random((k, n), dtype, seed=1)]
    return [random(shape, dtype)]


def _limit(limits: Ceilings | None, name: str | None) -> float | None:
    """A ceiling in GB/s or TFLOP/s."""
    rate = limits and name and getattr(limits, name)
    return rate / (1e9 if "bandwidth" in name else 1e12) if rate else None


def _faster_options(records: Records, unit: str) -> list[str]:
    """Notes on rungs that are recorded as much faster with other options."""
    found = ((info.name, records.faster(info.name)) for info in kernels(records.op))
    return [
        f"with {options}, {name} is recorded at {format_number(row['value'])} {unit}."
        for name, (options, row) in ((name, faster) for name, faster in found if faster)
    ]


def _is_other(rung: Rung, shape: tuple[int, ...]) -> bool:
    return rung.here is not None and rung.here.shape != shape


def _with_speedups(rungs: Sequence[Rung], source: str) -> Iterator[Rung]:
    """The rungs, each with its speed-up over the last rung below that has a time."""
    below = None
    for rung in rungs:
        speed = getattr(rung, source)
        if speed and not rung.ceiling:
            yield replace(rung, **{source: replace(speed, speedup=below and speed.value / below)})
            below = speed.value
        else:
            yield rung


def _tables(columns: dict[str, list[str]]) -> list[list[str]]:
    """The columns as tables that fit a terminal, speeds and counts: each begins with the rungs' names."""
    widths = {name: max(map(len, (name, *cells))) + 2 for name, cells in columns.items()}
    names, *rest = columns
    groups: list[list[str]] = [[names]]
    for name in rest:
        if name == "wavefronts" or sum(widths[column] for column in (*groups[-1], name)) > WIDTH:
            groups.append([names])
        groups[-1].append(name)
    return [[*_table_lines({name: columns[name] for name in group}, widths)] for group in groups]


def _table_lines(columns: dict[str, list[str]], widths: dict[str, int]) -> Iterator[str]:
    for cells in (list(columns), *zip(*columns.values(), strict=True)):
        first, *rest = zip(cells, (widths[name] for name in columns), strict=True)
        yield (f"{first[0]:<{first[1]}}" + "".join(f"{cell:>{width}}" for cell, width in rest)).rstrip()


class _Climb:
    """Measures rungs on the same operands."""

    def __init__(
        self,
        op: str,
        shape: tuple[int, ...],
        dtype: str,
        device: Device,
        limits: Ceilings | None,
        records: Records | None,
    ) -> None:
        self.op, self.shape, self.dtype, self.device = op, shape, dtype, device
        self.limits, self.records, self.operation = limits, records, getattr(ops, op)
        self.arrays = [asarray(x, device=device.name) for x in _operands(op, shape, dtype)]
        self.counted = tuple(map(min, shape, COUNTED[op]))

    def rung(self, row: KernelInfo) -> Rung:
        """A kernel's times and counts."""
        here, there, report = None, _recorded_speed(self.records, row.name), None
        if ("cuda" if self.device.is_cuda else "cpu") in row.devices:
            here = self.measure(row)
        elif row.needs == "host":
            here = self.measure_on_host(row)
        if "cpu" in row.devices and row.needs != "host":
            report = check(self.operation, *_operands(self.op, self.counted, self.dtype), kernel=row.name)
        rung = Rung(row.name, row.summary, row.default, row.role == "ceiling", here, there)
        return replace(rung, counts=self.count(report), **self.predict(report)) if report else rung

    def measure(self, row: KernelInfo) -> Speed:
        """Measured on the device."""
        name, work = self.device.name, operation_work(self.op, *self.arrays)
        result = self.operation(*self.arrays, kernel=row.name)
        out = empty(result.shape, result.dtype, device=name)
        call = partial(self.operation, *self.arrays, kernel=row.name, out=out)
        if not self.device.is_cuda:
            return self.speed(self.shape, measure_host(call, name, max_seconds=SECONDS, **work))
        result = measure(lambda stream: call(stream=stream), name, cold=False, max_seconds=SECONDS, **work)
        return self.speed(self.shape, result)

    def measure_on_host(self, row: KernelInfo) -> Speed:
        """Plain C, measured on the host, on a problem of at most SMALL."""
        shape = tuple(map(min, self.shape, SMALL[self.op]))
        operands = _operands(self.op, shape, self.dtype)
        call = partial(self.operation, *operands, kernel=row.name, device="cpu")
        work = operation_work(self.op, *operands) | {"ceiling": None}
        return self.speed(shape, measure_host(call, "cpu", max_seconds=SECONDS, **work))

    def speed(self, shape: tuple[int, ...], result: Benchmark) -> Speed:
        """The speed that a measurement shows."""
        _, value = result.unit_and_value
        in_l2 = result.bytes is not None and result.bytes <= self.device.l2_bytes
        return Speed(
            shape,
            result.median,
            value,
            fraction=result.fraction_of(self.limits) if self.limits and not in_l2 else None,
        )

    def count(self, report: Report) -> Counts:
        """What the checker counts, extrapolated from the checked blocks to all."""
        per = math.prod(self.counted) / 32
        of = dict.fromkeys(("wavefronts", "conflicts", "sectors", "ideal_sectors", "requests", "lanes"), 0.0)
        shared_bytes = 0.0
        for line, times in _lines(report):
            for name in of:
                of[name] += getattr(line, name) * times
            shared_bytes += line.lanes * line.size * times if line.space == "shared" else 0
        lanes = of.pop("lanes") / max(1, of.pop("requests"))
        return Counts(
            self.counted,
            lanes=lanes,
            global_bytes=of["sectors"] * SECTOR_BYTES / per,
            shared_bytes=shared_bytes / per,
            fmas_per_shared_byte=32 * per / shared_bytes if self.op == "matmul" and shared_bytes else None,
            bytes_in_flight=max(launch.bytes_in_flight for launch in report.launches),
            **{name: total / per for name, total in of.items()},
        )

    def predict(self, report: Report) -> dict[str, Any]:
        """The members of a Rung with what an H200 could reach on the recorded problem, or else on this one."""
        if (self.op, self.dtype, self.counted) != ("matmul", "float32", COUNTED["matmul"]):
            return {}
        shape = self.records.shape if self.records else self.shape
        prediction = predict(product_work(report, self.counted, shape))
        speed = Speed(shape, prediction.seconds, 2 * math.prod(shape) / prediction.seconds / 1e12)
        return {"predicted": speed, "limited_by": prediction.limit}


def product_work(
    report: Report,
    counted: tuple[int, ...],
    shape: tuple[int, ...],
    *,
    itemsize: int = 4,
    multiplier: Multiplier = FMA,
) -> ProductWork:
    """The work of a kernel in a product of elements of `itemsize` bytes, extrapolated from `counted`, the report
    of a smaller one.

    Stores to global memory grow with the elements of the result, everything else with the multiplications.
    """
    requests = wavefronts = 0.0
    for line, times in _lines(report):
        stored = (line.space, line.access) == ("global", "store")
        times *= math.prod(shape[: 2 if stored else 3]) / math.prod(counted[: 2 if stored else 3])
        passes = (
            line.wavefronts if line.space == "shared" else max(line.requests, line.sectors * SECTOR_BYTES / 128)
        )
        requests += line.requests * times
        wavefronts += passes * times
    tile = counted[0] * counted[1] / report.launches[0].blocks
    return ProductWork(shape, itemsize, tile, requests, wavefronts, multiplier)


def _lines(report: Report) -> Iterator[tuple[LineReport, float]]:
    """The lines of all launches, each with the number of blocks per checked one."""
    for launch in report.launches:
        for line in launch.lines:
            yield line, launch.blocks / launch.blocks_checked


def _records(op: str, dtype: str, wanted: tuple[int, ...] | None) -> Records | None:
    """Records of the wanted shape if there are some; otherwise of the usual one."""
    for shape in dict.fromkeys((wanted or BIG[op], BIG[op])):
        for records in recorded(op, shape, dtype=dtype):
            return records
    return None


def _recorded_speed(records: Records | None, kernel: str) -> Speed | None:
    """The recorded speed of a kernel with its default options."""
    row = records and records.row(kernel)
    return row and Speed(records.shape, row["us"] / 1e6, row["value"], fraction=row["ceiling_fraction"])
