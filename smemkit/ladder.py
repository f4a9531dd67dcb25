"""A ladder climbed: each rung of an operation, what it takes, and what the checker counts of it."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from smemkit import ops
from smemkit.arrays import asarray, empty
from smemkit.ceilings import Ceilings, ceilings
from smemkit.checker import check
from smemkit.devices import Device
from smemkit.records import Records, recorded
from smemkit.table import KernelInfo, kernels
from smemkit.timing import Benchmark, format_number, format_seconds, measure, measure_host, operation_work

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Counts", "Ladder", "Rung", "Speed", "ladder"]

# the shapes of matmul are (m, n, k)
BIG = {"matmul": (4096, 4096, 4096), "reduce": (16_777_216,), "transpose": (8192, 8192)}  # bench.LADDERS has them
SMALL = {"matmul": (256, 256, 256), "reduce": (262_144,), "transpose": (1024, 1024)}  # for the CPU
COUNTED = {"matmul": (128, 128, 128), "reduce": (65_536,), "transpose": (512, 512)}  # for the checker, at most
SECONDS = 0.15  # for each rung


@dataclass(frozen=True)
class Speed:
    """How fast a rung is.

    Attributes
    ----------
    shape : tuple of int
        Of what: (m, n, k) of a matmul.
    seconds : float
        The median.
    value : float
        10⁹ bytes a second, or 10¹² operations of a matmul.
    speedup : float or None
        How many times the value of the rung below; None for the first one, and for ceilings.
    fraction : float or None
        Of what the machine can do; None where that is not known, or the operands stay in L2.
    """

    shape: tuple[int, ...]
    seconds: float
    value: float
    speedup: float | None = None
    fraction: float | None = None


@dataclass(frozen=True)
class Counts:
    """What the checker counts, as written in the source, in all launches of a call.

    Attributes
    ----------
    shape : tuple of int
        Of what: (m, n, k) of a matmul.
    wavefronts, conflicts : float
        Passes of shared memory, and those of them that bank conflicts cost; for 32 elements, which of a matmul are
        multiplications.
    sectors, ideal_sectors : float
        Sectors of global memory that are asked for, and how few could hold as many bytes; for 32 elements.
    lanes : float
        Lanes of a warp that take part in a request, on average.
    """

    shape: tuple[int, ...]
    wavefronts: float
    conflicts: float
    sectors: float
    ideal_sectors: float
    lanes: float


@dataclass(frozen=True)
class Rung:
    """A kernel of a ladder.

    Attributes
    ----------
    name, idea : str
        As `smemkit.kernels` has them.
    default, ceiling : bool
        It is what ``kernel=None`` takes; it is no rung, but what none can outrun.
    here : Speed or None
        As measured; None where this build cannot launch it.
    recorded : Speed or None
        As the reference file has it.
    counts : Counts or None
        None where the executor cannot run it.
    """

    name: str
    idea: str
    default: bool
    ceiling: bool
    here: Speed | None = None
    recorded: Speed | None = None
    counts: Counts | None = None

    @property
    def choice(self) -> bool:
        """The former name of `default`."""
        warnings.warn("Rung.choice: it is now called default", DeprecationWarning, stacklevel=2)
        return self.default


@dataclass(frozen=True, repr=False)
class Ladder:
    """What `ladder` found out.

    Attributes
    ----------
    op, dtype : str
    shape : tuple of int
        What was measured here: (m, n, k) of a matmul.
    unit : str
        Of `Speed.value`: "GB/s" or "TFLOP/s".
    device, clock : str
        What the rungs ran on, "NVIDIA H200", and how they were timed.
    ceiling : float or None
        What the device can do, in `unit`; None on the CPU device.
    recorded_on : str or None
        What the recorded times are of: GPU, day and shape. None where there are none.
    recorded_ceiling : float or None
        What that GPU can do, in `unit`.
    rungs : tuple of Rung
        From the bottom up, with the ceilings.
    production : Rung or None
        The production kernel that ``kernel=None`` takes; None where it takes a rung.
    notes : tuple of str
        What else a reader has to know.
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
        """What the table and the chart show: the rungs, and the production kernel below them."""
        return self.rungs + ((self.production,) if self.production else ())

    @property
    def title(self) -> str:
        """What it is of, and how it was measured."""
        return f"{self.op}, {size(self.op, self.shape)}, {self.dtype}, on {self.device}: {self.clock}"

    @property
    def units(self) -> str:
        """What the counts are given for."""
        return "multiplications" if self.op == "matmul" else "elements"

    @property
    def columns(self) -> dict[str, list[str]]:
        """The table: a heading, and the cells below it."""
        columns: dict[str, list[str]] = {"": [rung.name + (" *" if rung.default else "") for rung in self.rows]}
        columns["time"] = [rung.here and format_seconds(rung.here.seconds) for rung in self.rows]
        columns[self.unit] = [rung.here and format_number(rung.here.value) for rung in self.rows]
        if self.recorded_on:
            columns["recorded"] = [rung.recorded and format_number(rung.recorded.value) for rung in self.rows]
        speeds = [rung.recorded if self.recorded_on else rung.here for rung in self.rows]
        columns["× below"] = [speed and speed.speedup and format_number(speed.speedup) for speed in speeds]
        columns["of ceiling"] = [speed and speed.fraction and f"{speed.fraction:.1%}" for speed in speeds]
        for name in ("wavefronts", "conflicts", "sectors", "ideal_sectors", "lanes"):
            heading = name.partition("_")[0]
            columns[heading] = [rung.counts and f"{getattr(rung.counts, name):.3g}" for rung in self.rows]
        return {name: [cell or "" for cell in cells] for name, cells in columns.items()}

    @property
    def remarks(self) -> Iterator[str]:
        """What has to be said of the columns."""
        yield "* is what kernel=None takes. Wavefronts, conflicts, sectors and the ideal of these are for"
        yield f"32 {self.units}, lanes those of 32 at work on average: as written, counted by the checker."
        if self.recorded_on:
            yield f"recorded, × below and of ceiling: not measured here but recorded on {self.recorded_on}."
        yield from self.notes

    def __str__(self) -> str:
        columns = self.columns
        widths = {name: max(map(len, (name, *cells))) + 2 for name, cells in columns.items()}

        def line(cells: Sequence[str]) -> str:
            first, *rest = zip(cells, widths.values(), strict=True)
            return (f"{first[0]:<{first[1]}}" + "".join(f"{cell:>{width}}" for cell, width in rest)).rstrip()

        lines = [self.title, "", line(list(columns))]
        for rung, cells in zip(self.rows, zip(*columns.values(), strict=True), strict=True):
            lines += [line(cells), f"    {'the ceiling: ' if rung.ceiling else ''}{rung.idea}"]
        return "\n".join([*lines, "", *self.remarks])

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
        """All of it in plain types, for `json.dumps`."""
        return json.loads(json.dumps({"schema": "smemkit.ladder", "version": 1, **asdict(self)}))

    def plot(self) -> Figure:
        """The rungs as bars, and the ceiling as a line: as they were measured here, or else as they are recorded.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            Matplotlib is not installed.
        """
        from smemkit.drawing import new_figure

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
    """Climbs a ladder: measures every kernel of an operation, and counts what each asks of memory.

    A GPU's rungs are measured by its own clock, with its caches warm, and held against `smemkit.ceilings`. Those
    that are plain C run on the host, on a problem that is fit for it. The CPU device measures itself, which says
    nothing of a GPU: beside its times stand those that were recorded on one, where a reference file has them.

    Parameters
    ----------
    op : {"reduce", "transpose", "matmul"}
        "reduce" is a sum of all elements.
    shape : int or sequence of int, optional
        How many elements are summed; the matrix that is turned, or its side; (m, n, k) of a product, or all three.
        What is large enough for the device if None.
    dtype : str
        Of the operands.
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Returns
    -------
    Ladder

    Raises
    ------
    ValueError, TypeError
        An argument is not what is required; the message names it.
    NoDeviceError
        The device is not here.
    OutOfMemoryError
        The device has not enough memory.

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
    rungs = [climb.rung(row) for row in rows if dtype in row.dtypes]
    production = [climb.rung(row) for row in kernels(op) if row.default and row.role == "production"]
    without = [row.name for row in rows if dtype not in row.dtypes]
    absent = [rung.name for rung in rungs if not rung.here]
    notes = [f"without {', '.join(without)}, which take no {dtype}."] if without else []
    notes += [f"{', '.join(absent)}: this build cannot launch that on {on.name}."] if absent else []
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
        "device clock, warm caches" if on.is_cuda else "the executor's own times, no measure of a GPU",
        _limit(limits, work["ceiling"]),
        records and f"{records.where}, {size(op, records.shape)}",
        records and _limit(records.limits, work["ceiling"]),
        tuple(_with_speedups(_with_speedups(rungs, "here"), "recorded")),
        production[0] if production else None,
        tuple(notes),
    )


def size(op: str, shape: tuple[int, ...]) -> str:
    """A shape in words: "n = 1,000", "8192 x 8192"."""
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
    from smemkit.bench.rows import random

    if op == "matmul":
        m, n, k = shape
        return [random((m, k), dtype), random((k, n), dtype, seed=1)]
    return [random(shape, dtype)]


def _limit(limits: Ceilings | None, name: str | None) -> float | None:
    """A ceiling in the unit of the op that it is for."""
    rate = limits and name and getattr(limits, name)
    return rate / (1e9 if "bandwidth" in name else 1e12) if rate else None


def _faster_options(records: Records, unit: str) -> list[str]:
    """The recorded rungs that other options than the default ones make much faster."""
    found = ((info.name, records.faster(info.name)) for info in kernels(records.op))
    return [
        f"with {options}, {name} is recorded at {format_number(row['value'])} {unit}."
        for name, (options, row) in ((name, faster) for name, faster in found if faster)
    ]


def _is_other(rung: Rung, shape: tuple[int, ...]) -> bool:
    return rung.here is not None and rung.here.shape != shape


def _with_speedups(rungs: Sequence[Rung], source: str) -> Iterator[Rung]:
    """The rungs, each compared with the one below it that has a time."""
    below = None
    for rung in rungs:
        speed = getattr(rung, source)
        if speed and not rung.ceiling:
            yield replace(rung, **{source: replace(speed, speedup=below and speed.value / below)})
            below = speed.value
        else:
            yield rung


class _Climb:
    """The operands, on the device and for the host, and what is measured with them."""

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
        """All that there is to know of a kernel."""
        here, there, counts = None, _recorded_speed(self.records, row.name), None
        if ("cuda" if self.device.is_cuda else "cpu") in row.devices:
            here = self.measure(row)
        elif row.needs == "host":
            here = self.measure_on_host(row)
        if "cpu" in row.devices and row.needs != "host":
            counts = self.count(row)
        return Rung(row.name, row.summary, row.default, row.role == "ceiling", here, there, counts)

    def measure(self, row: KernelInfo) -> Speed:
        """By the clock of the device."""
        name, work = self.device.name, operation_work(self.op, *self.arrays)
        result = self.operation(*self.arrays, kernel=row.name)
        out = empty(result.shape, result.dtype, device=name)
        call = partial(self.operation, *self.arrays, kernel=row.name, out=out)
        if not self.device.is_cuda:
            return self.speed(self.shape, measure_host(call, name, max_seconds=SECONDS, **work))
        result = measure(lambda stream: call(stream=stream), name, cold=False, max_seconds=SECONDS, **work)
        return self.speed(self.shape, result)

    def measure_on_host(self, row: KernelInfo) -> Speed:
        """Plain C, on NumPy arrays no larger than it can take."""
        shape = tuple(map(min, self.shape, SMALL[self.op]))
        operands = _operands(self.op, shape, self.dtype)
        call = partial(self.operation, *operands, kernel=row.name, device="cpu")
        work = operation_work(self.op, *operands) | {"ceiling": None}
        return self.speed(shape, measure_host(call, "cpu", max_seconds=SECONDS, **work))

    def speed(self, shape: tuple[int, ...], result: Benchmark) -> Speed:
        """Of what was measured."""
        _, value = result.unit_and_value
        in_l2 = result.bytes is not None and result.bytes <= self.device.l2_bytes
        return Speed(
            shape,
            result.median,
            value,
            fraction=result.fraction_of(self.limits) if self.limits and not in_l2 else None,
        )

    def count(self, row: KernelInfo) -> Counts:
        """What the checker counts; of the blocks that it leaves out, as many as of those that it takes."""
        report = check(self.operation, *_operands(self.op, self.counted, self.dtype), kernel=row.name)
        per = math.prod(self.counted) / 32
        of = dict.fromkeys(("wavefronts", "conflicts", "sectors", "ideal_sectors", "requests", "lanes"), 0.0)
        for launch in report.launches:
            for line in launch.lines:
                for name in of:
                    of[name] += getattr(line, name) * launch.blocks / launch.blocks_checked
        lanes = of.pop("lanes") / max(1, of.pop("requests"))
        return Counts(self.counted, lanes=lanes, **{name: total / per for name, total in of.items()})


def _records(op: str, dtype: str, wanted: tuple[int, ...] | None) -> Records | None:
    """Of the shape that is wanted, where that was recorded; else of the usual one."""
    for shape in dict.fromkeys((wanted or BIG[op], BIG[op])):
        for records in recorded(op, shape, dtype=dtype):
            return records
    return None


def _recorded_speed(records: Records | None, kernel: str) -> Speed | None:
    """Of a kernel with its default options."""
    row = records and records.row(kernel)
    return row and Speed(records.shape, row["us"] / 1e6, row["value"], fraction=row["ceiling_fraction"])
