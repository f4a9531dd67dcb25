"""``smemkit demo``: shows in seconds what smemkit does, on any device, on two screens of a terminal."""

from __future__ import annotations

import textwrap
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from smemkit import _core, ops
from smemkit.arrays import asarray
from smemkit.checker.check import check
from smemkit.devices import Device
from smemkit.ladder import BIG, SMALL
from smemkit.measure.benchmarks import benchmark
from smemkit.measure.formats import format_number, format_seconds
from smemkit.measure.records import Records
from smemkit.measure.records import recorded as records_of
from smemkit.measure.timing import timed
from smemkit.table.kernel_table import KernelInfo, kernels, ladder_of
from smemkit.user_kernel.compiler import find_compiler
from smemkit.user_kernel.kernel import Kernel

U = 2.0**-24  # the unit roundoff of float32
NO_COMPILER = "It needs a C++ compiler, and none was found: apt install g++, or pip install 'smemkit[compiler]'"
# without a barrier and without padding
FAULTY_KERNEL = """\
__global__ void transpose(const float *x, float *y, int n)
{
    __shared__ float tile[32][32];
    const int tx = threadIdx.x, ty = threadIdx.y;

    tile[ty][tx] = x[(blockIdx.y * 32 + ty) * n + blockIdx.x * 32 + tx];

    y[(blockIdx.x * 32 + ty) * n + blockIdx.y * 32 + tx] = tile[tx][ty];
}
"""


@dataclass(frozen=True)
class Rung:
    """A bar: a kernel and its speed, in 10⁹ bytes or floating-point operations per second."""

    info: KernelInfo
    speed: float
    note: str = ""
    options: str = ""  # if they are not the default ones: "tile 16"

    @property
    def label(self) -> str:
        """The kernel and its options."""
        return f"{self.info.name}, {self.options}" if self.options else self.info.name


@dataclass(frozen=True)
class Ladder:
    """A bar chart: an operation's kernels from the bottom up."""

    op: str
    title: str
    rungs: list[Rung]

    def __post_init__(self) -> None:
        object.__setattr__(self, "top", max(rung.speed for rung in self.rungs))

    @property
    def unit(self) -> tuple[float, str]:
        """The divisor for `Rung.speed`, and the unit's name."""
        if self.op != "matmul":
            return 1, "GB/s"
        return (1, "GFLOP/s") if self.top < 1000 else (1000, "TFLOP/s")

    def __rich_console__(self, *_: Any) -> Iterator[Text]:
        scale, unit = self.unit
        yield Text(f"\n{self.title}", style="bold")
        for rung in self.rungs:
            color = "yellow" if rung.info.role == "ceiling" else "green" if rung.speed == self.top else "cyan"
            name = f"{rung.label} (ceiling)" if rung.info.role == "ceiling" else rung.label
            line = Text.assemble(f"{name:<18}", (f"{bar(rung.speed / self.top):<36}", color))
            yield line.append(f" {format_number(rung.speed / scale):>9} {unit}{rung.note}")


def bar(fraction: float, width: int = 36) -> str:
    """A bar, exact to an eighth of a character and never empty."""
    eighths = max(1, round(8 * width * fraction))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def problem(op: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Random float32 operands."""
    rng = np.random.default_rng(0)
    if op == "matmul":
        m, n, k = shape
        return [rng.standard_normal(s, dtype=np.float32) for s in ((m, k), (k, n))]
    return [rng.random(shape, dtype=np.float32)]


def size(op: str, shape: tuple[int, ...]) -> str:
    """A shape in words."""
    return f"n = {shape[0]:,}" if op != "transpose" else f"{shape[0]} x {shape[1]}"


# ---- the operations against NumPy ----


def operations(device: Device) -> tuple[Table, bool]:
    """A table of each operation, checked against NumPy; and whether all results are correct."""
    n, count, side = (1024, BIG["reduce"][0], 4096) if device.is_cuda else (256, 1_000_000, 1024)
    a, b = problem("matmul", (n, n, n))
    (x,), (y,) = problem("reduce", (count,)), problem("transpose", (side, side))
    z = np.arange(64, dtype=np.int32)
    product, magnitude = (f(a).astype(float) @ f(b).astype(float) for f in (np.asarray, np.abs))
    cases: list[tuple[str, str, Callable[[], Any], Callable[[], Any], Any, float]] = [
        (
            "matmul(a, b, tile=16)",
            f"{n} x {n}",
            lambda: ops.matmul(a, b, tile=16, device=device.name),
            lambda: a @ b,
            product,
            (n + 2) * U * magnitude.max() / np.abs(product).max(),
        ),
        (
            "sum(x)",
            f"{count:,}",
            lambda: ops.sum(x, device=device.name),
            x.sum,
            x.sum(dtype=float),
            2 * U,
        ),
        (
            "transpose(y)",
            f"{side} x {side}",
            lambda: ops.transpose(y, device=device.name),
            lambda: np.ascontiguousarray(y.T),
            y.T,
            0.0,
        ),
        ("reverse(z)", "64", lambda: ops.reverse(z, device=device.name), lambda: z[::-1].copy(), z[::-1], 0.0),
    ]
    shown = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for name in ("smemkit.", "", "against NumPy"):
        shown.add_column(name, no_wrap=True)
    for name in ("call", "kernel", "NumPy"):
        shown.add_column(name, justify="right", no_wrap=True)
    right = True
    for call, shape, ours, numpys, expected, bound in cases:
        result, _ = timed(ours)
        verdict, fits = compare(result, expected, bound)
        right &= fits
        _, timing = timed(ours)  # the first call included the device's initialisation
        start = time.perf_counter()
        numpys()
        seconds = format_seconds(time.perf_counter() - start)
        shown.add_row(call, shape, verdict, format_seconds(timing.total), format_seconds(timing.kernel), seconds)
    return shown, right


def compare(result: Any, expected: Any, bound: float) -> tuple[str, bool]:
    """The verdict on a result in words, and whether it is correct; NaN is not."""
    result, expected = np.asarray(result), np.asarray(expected)
    if result.shape == expected.shape and np.array_equal(result, expected.astype(result.dtype)):
        return "[green]✓ equal", True
    if result.shape != expected.shape:
        return f"[red]✗ shape {result.shape}", False
    error = float(np.abs(result - expected).max() / np.abs(expected).max())
    return (f"[green]✓ error {error:.1e}", True) if error <= bound else (f"[red]✗ error {error:.1e}", False)


# ---- the ladders ----


def ladder(op: str, device: Device) -> Ladder:
    """Every rung that this device can launch; on a GPU also the host's rungs, on a smaller problem."""
    kind, shape = ("cuda", BIG[op]) if device.is_cuda else ("cpu", SMALL[op])
    arrays = [asarray(x, device=device.name) for x in problem(op, shape)]
    rungs = []
    for info in shown(op):
        if kind in info.devices:
            result = benchmark(getattr(ops, op), *arrays, kernel=info.name, max_seconds=0.15)
            rungs.append(Rung(info, speed_of(result)))
        elif info.needs == "host":
            host = problem(op, SMALL[op])
            result = benchmark(getattr(ops, op), *host, kernel=info.name, device="cpu", max_seconds=0.15)
            rungs.append(Rung(info, speed_of(result), f" (here {size(op, SMALL[op])})"))
    return Ladder(op, f"{op}, {size(op, shape)}, float32 on {device.description}", rungs)


def shown(op: str) -> list[KernelInfo]:
    """The ladder in float32, and the production kernel that kernel=None chooses."""
    rungs = ladder_of(op, "float32")
    return rungs + [info for info in kernels(op) if info.default and info.role == "production"]


def speed_of(result: Any) -> float:
    """The speed in 10⁹ bytes or floating-point operations per second."""
    return result.gbps or 1e3 * result.tflops


def recorded() -> list[Ladder]:
    """The ladders in the reference files: float32, L2 warm, each rung with its default options, and also with
    others if these are much faster."""
    return [
        Ladder(
            records.op,
            f"{records.op}, {size(records.op, records.shape)}, float32, recorded on {records.where}, not here",
            [rung for info in shown(records.op) for rung in recorded_rungs(records, info)],
        )
        for op, shape in BIG.items()
        for records in records_of(op, shape)
    ]


def recorded_rungs(records: Records, info: KernelInfo) -> Iterator[Rung]:
    """A kernel with its default options, if measured, and with much faster options, if there are any."""
    scale = 1000 if records.op == "matmul" else 1
    if row := records.row(info.name):
        yield Rung(info, row["value"] * scale)
    if found := records.faster(info.name):
        options, row = found
        yield Rung(info, row["value"] * scale, options=options)


def has_compiler() -> bool:
    """Whether users' kernels can run on the CPU device."""
    try:
        return bool(find_compiler())
    except _core.Error:
        return False


def checked() -> tuple[str, bool]:
    """The essential lines of the report on a kernel with a mistake, and whether the mistake was found."""
    kernel = Kernel(FAULTY_KERNEL)
    x = np.ones((64, 64), np.float32)
    report = check(kernel[(2, 2), (32, 32)], x, np.zeros_like(x), 64)
    found = [(fault.kind, fault.line, fault.other_line) for fault in report.faults]
    advice = next((f"line {line.line}: {line.advice}" for line in report.lines if line.advice), "")
    return "\n".join([*_first_fault(str(report)), *textwrap.wrap(advice, 80)]), found == [("race", 8, 6)]


def _first_fault(text: str) -> list[str]:
    """The first fault of a report: what, where, and the fix."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if i and line.startswith("✗")), 0)
    excerpt = [line for line in lines[start + 1 :] if "▸" in line or "▴" in line][:4]
    fix = next((line.strip() for line in lines[start:] if line.strip().startswith("fix ")), "")
    return [lines[start], *excerpt, *textwrap.wrap(fix, 80)]


def save_png(ladders: list[Ladder], path: str) -> None:
    """Saves the charts as a picture."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("demo: --png draws with matplotlib: pip install matplotlib") from error
    heights = [len(ladder.rungs) + 1 for ladder in ladders]
    figure = Figure(figsize=(9, 0.45 * sum(heights)), layout="constrained")
    axes = figure.subplots(len(ladders), gridspec_kw={"height_ratios": heights}, squeeze=False)
    for axis, ladder in zip(chain.from_iterable(axes), ladders, strict=True):
        scale, unit = ladder.unit
        names = [rung.label for rung in ladder.rungs]
        speeds = [rung.speed / scale for rung in ladder.rungs]
        colors = ["goldenrod" if rung.info.role == "ceiling" else "teal" for rung in ladder.rungs]
        bars = axis.barh(names, speeds, color=colors)
        axis.bar_label(bars, [format_number(speed) for speed in speeds], padding=3)
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.set_title(ladder.title, loc="left", fontsize=10)
        axis.set_xlabel(unit)
    figure.savefig(path, dpi=150)


def add_arguments(parser: ArgumentParser) -> None:
    """The command line of ``smemkit demo``."""
    parser.add_argument("--device", help='"cuda:0", "cpu"; the default device if not given')
    parser.add_argument(
        "--plot", "--png", dest="png", metavar="FILE", help="save the charts as a picture (needs matplotlib)"
    )
    parser.set_defaults(command=main)


def main(arguments: Namespace) -> int:
    """Runs ``smemkit demo``; the exit status is 1 if a result is wrong."""
    console, device = Console(highlight=False), Device(arguments.device)
    console.print(repr(device)[1:-1], style="bold", markup=False, soft_wrap=True)
    table, right = operations(device)
    console.print(table)
    if not device.is_cuda:
        console.print("These are the executor's times, not a GPU's. Recorded on a GPU:")
    with console.status("climbing the ladders"):
        ladders = [ladder(op, device) for op in BIG] if device.is_cuda else recorded()
    console.print(*ladders, sep="\n")
    report, found = checked() if has_compiler() else (NO_COMPILER, True)
    console.print("\nA kernel with mistakes, and what smemkit.check says:", style="bold")
    console.print(report, markup=False, soft_wrap=True)
    if arguments.png:
        save_png(ladders, arguments.png)
        console.print(f"\nwrote {arguments.png}", markup=False)
    console.print("The rungs' ideas: [bold]smemkit ladder reduce[/]   experiments: [bold]smemkit lab[/]")
    console.print("Check a kernel of your own: [bold]smemkit check --help[/]")
    return 0 if right and found else 1
