"""The project's one benchmark: ``python -m smemkit bench [suite …]``.

It measures every kernel of the table and the planner's choice, beside torch, CuPy and NumPy where they are
installed: in the same run, on the same operands, with the same clock. Every result is checked against NumPy in
float64 before it counts, NaN never passes. Operands are random: a GPU multiplies zeros faster.

Device suites use the clock of `smemkit.timing.measure`: a captured graph between two events. A row is `cold`
where L2 was overwritten before each sample; others are measured warm, many calls a sample. A peer that refuses to
be captured (CuPy's matmul) is timed between events around eager calls, and the row says so.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from smemkit import _core, ops
from smemkit.arrays import Array, asarray, asnumpy
from smemkit.devices import Device
from smemkit.table import KernelInfo, kernels
from smemkit.timing import Benchmark, collect, format_number, measure, measure_host, operation_work

REFERENCE = Path(__file__).parent / "reference"
U = 2.0**-24  # the unit roundoff of float32

SIZES = {
    "matmul": [(n, n, n) for n in (256, 512, 1000, 1024, 2048, 4095, 4096)],
    "reduce": [(1000,), (65_536,), (1_000_000,), (16_777_216,), (268_435_456,)],
    "transpose": [(1024, 1024), (8191, 8191), (8192, 8192), (16_384, 16_384)],
}
LADDERS = {  # where every rung is measured, the first with all of its options
    "matmul": [(1024, 1024, 1024), (4096, 4096, 4096)],
    "reduce": [(16_777_216,), (1_000_000,)],
    "transpose": [(8192, 8192), (1024, 1024)],
}
QUICK = {"matmul": [(1024, 1024, 1024)], "reduce": [(16_777_216,)], "transpose": [(8192, 8192)]}
SUITES = (*SIZES, "end_to_end", "call", "executor")
PEERS = ("torch", "cupy")


@dataclass(frozen=True)
class Row:
    """A row of the reference file; what does not apply is None. Times are medians in microseconds."""

    suite: str
    op: str
    case: str
    dtype: str | None = "float32"
    shape: list[int] | None = None
    axis: int | None = None
    axes: list[int] | None = None
    precision: str | None = None
    kernel: str | None = None
    cold: bool | None = None
    us: float = float("nan")
    unit: str | None = None
    value: float | None = None
    peers: dict[str, float] = field(default_factory=dict)
    ratio: float | None = None
    ceiling_fraction: float | None = None
    error: float | None = None
    peer_error: float | None = None


def measured(row: Row, ours: Benchmark, peers: dict[str, Benchmark], **facts: Any) -> Row:
    """`row` with what was measured filled in."""
    unit, value = ("TFLOP/s", ours.tflops) if ours.flops else ("GB/s", ours.gbps) if ours.bytes else (None, None)
    times = {name: 1e6 * peer.median for name, peer in peers.items()}
    ratio = min(times.values()) / (1e6 * ours.median) if times else None
    return replace(row, us=1e6 * ours.median, unit=unit, value=value, peers=times, ratio=ratio, **facts)


class Problem:
    """Operands of one operation and one shape, on the host and on a device, and how wrong a result is."""

    def __init__(self, op: str, shape: tuple[int, ...], device: str) -> None:
        rng = np.random.default_rng(0)
        self.op, self.shape = op, shape
        if op == "matmul":
            m, n, k = shape
            self.host = [rng.standard_normal(s, dtype=np.float32) for s in ((m, k), (k, n))]
            self.rows = np.unique(np.linspace(0, m - 1, 64, dtype=int))  # NumPy takes long for all of them
            a, b = (x.astype(np.float64) for x in self.host)
            self.expected, self.magnitude = a[self.rows] @ b, np.abs(a[self.rows]) @ np.abs(b)
        else:
            self.host = [rng.random(shape, dtype=np.float32)]
            (x,) = self.host
            self.expected = x.sum(dtype=np.float64) if op == "reduce" else np.ascontiguousarray(x.T)
        self.work = operation_work(op, *self.host)
        self.device = device
        self.peers: dict[bool, tuple[dict[str, Benchmark], float | None, str]] = {}  # by cold
        self.ceiling: float | None = None  # seconds

    @cached_property
    def arrays(self) -> list[Array]:
        """The operands on the device."""
        return [asarray(x, device=self.device) for x in self.host]

    def out(self, turned: bool = True) -> Array:
        """A new output on the device, full of NaN."""
        m, n = (self.shape * 2)[:2]
        shape = {"matmul": (m, n), "reduce": (), "transpose": (n, m) if turned else (m, n)}[self.op]
        return asarray(np.full(shape, np.nan, dtype=np.float32), device=self.device)

    def error(self, result: np.ndarray, kernel: str | None, peer: bool = False, turned: bool = True) -> float:
        """The relative error; ArithmeticError where it is larger than the bound, or no number."""
        if self.op == "matmul":
            norm = np.linalg.norm(self.expected)
            error = np.linalg.norm(result[self.rows] - self.expected) / norm
            bound = (self.shape[2] + 2) * U * np.linalg.norm(self.magnitude) / norm
        elif self.op == "reduce":
            n = self.shape[0]
            error = abs(float(result) - self.expected) / self.expected
            bound = n * U if kernel or peer else U + n * 2.0**-53  # what is promised of the planner's sums
        else:
            expected, bound = self.expected if turned else self.host[0], 0.0
            error = 0.0 if np.array_equal(result, expected) else float(np.abs(result - expected).max())
        if not error <= bound:
            raise ArithmeticError(f"relative error {error:.3g}, allowed is {bound:.3g}")
        return float(error)


class Run:
    """One run of the benchmark: on which device, beside whom, how long, and what failed."""

    def __init__(self, device: Device, quick: bool, console: Console) -> None:
        self.device, self.quick, self.console = device, quick, console
        self.seconds = 0.05 if quick else 0.2
        self.failures: list[str] = []
        self.peers = {name: self.import_peer(name) if device.is_cuda else None for name in PEERS} | {"numpy": np}
        self._problem: Problem | None = None

    def import_peer(self, name: str) -> Any:
        """The module, on this device and at float32's own precision; None, and a word, where it is missing."""
        os.environ.setdefault("CUPY_ACCELERATORS", "cub")
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            self.console.print(f"[yellow]without {name}: {error}")
            return None
        if not module.cuda.is_available():
            self.console.print(f"[yellow]without {name}: it finds no CUDA device")
            return None
        ordinal = int(self.device.partition(":")[2])
        if name == "torch":
            module.set_float32_matmul_precision("highest")
            module.cuda.set_device(ordinal)
        else:
            module.cuda.Device(ordinal).use()
        return module

    def peers_here(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that could be imported."""
        return [name for name in names if self.peers[name]]

    def problem(self, op: str, shape: tuple[int, ...]) -> Problem:
        """The operands, kept for the next case, which mostly has the same ones."""
        if self._problem is None or (self._problem.op, self._problem.shape) != (op, shape):
            self._problem = None  # the memory is free before the next is taken
            self._problem = Problem(op, shape, self.device.name)
        return self._problem

    def sizes(self, table: dict[str, list[tuple[int, ...]]], op: str) -> list[tuple[int, ...]]:
        """The sizes of `op`, or the few of a quick run."""
        return [shape for shape in table[op] if not self.quick or shape in QUICK[op]]

    # ---- device suites: matmul, reduce, transpose ----

    def ladder(self, op: str) -> Iterator[tuple[str, Callable[[], Row]]]:
        """Per shape: the ceiling, the planner's choice warm and cold, and the rungs."""
        here = [row for row in kernels(op) if "cuda" in row.devices]
        for shape in self.sizes(SIZES, op):
            for info in here:
                if info.ceiling:
                    yield self.case(op, shape, info, {})
            yield self.case(op, shape, None, {})
            if operation_bytes(op, shape) <= 2 * self.device.l2_bytes:
                yield self.case(op, shape, None, {}, cold=True)
            if shape in self.sizes(LADDERS, op):
                every = shape == LADDERS[op][0] and not self.quick
                for info in here:
                    for options in () if info.ceiling else neighbours(info) if every else info.variants[:1]:
                        yield self.case(op, shape, info, options)

    def case(
        self, op: str, shape: tuple[int, ...], info: KernelInfo | None, options: dict[str, int], cold: bool = False
    ) -> tuple[str, Callable[[], Row]]:
        """A label for the progress bar, and what measures the row."""
        name = f"n = {shape[0]:,}" if op != "transpose" else f"{shape[0]} x {shape[1]}"
        text = ", ".join([name, *(f"{option} {value}" for option, value in options.items())])
        row = Row(op, op, text, shape=list(shape), kernel=info and info.name, cold=cold)
        if op == "matmul":
            row = replace(row, precision="highest" if info is None else None)
        label = f"{op} {text} {info.name if info else ''}{' cold' if cold else ''}"
        return label, partial(self.kernel_row, row, options, bool(info and info.ceiling))

    def kernel_row(self, row: Row, options: dict[str, int], ceiling: bool) -> Row:
        """Measures and checks one kernel on the device's clock."""
        problem = self.problem(row.op, tuple(row.shape))
        out = problem.out(turned=not ceiling)
        operation = partial(getattr(ops, row.op), *problem.arrays, out=out, kernel=row.kernel, **options)
        ours = measure(
            lambda stream: operation(stream=stream),
            self.device.name,
            cold=row.cold,
            max_seconds=self.seconds,
            **problem.work,
        )
        error = problem.error(asnumpy(out), row.kernel, turned=not ceiling)
        if ceiling:
            problem.ceiling = ours.median
            return measured(row, ours, {}, error=error)
        fraction = problem.ceiling / ours.median if problem.ceiling and not row.cold else None
        peers, peer_error, note = self.measure_peers(problem, row.cold)
        row = replace(row, case=row.case + note, ceiling_fraction=fraction)
        return measured(row, ours, peers, error=error, peer_error=peer_error)

    def measure_peers(self, problem: Problem, cold: bool) -> tuple[dict[str, Benchmark], float | None, str]:
        """The peers on the same operands, once a problem; the error of the fastest; and what there is to say."""
        if cold not in problem.peers:
            results, errors, note = {}, {}, ""
            for name in self.peers_here(PEERS):
                with self.survive(f"{name} {problem.op} {problem.shape}"):
                    result, errors[name], captured = self.measure_peer(name, problem, cold)
                    note += "" if captured else f"; without {name}" if cold else f"; {name} eager"
                    if captured or not cold:  # a warm time is no match for our cold one
                        results[name] = result
            best = min(results, key=lambda name: results[name].median, default=None)
            problem.peers[cold] = results, errors.get(best), note
        return problem.peers[cold]

    def measure_peer(self, name: str, problem: Problem, cold: bool) -> tuple[Benchmark, float, bool]:
        """One peer: its time, its error, and whether it let itself be captured; else it is warm and eager."""
        out = problem.out()
        call = DEVICE_PEERS[name](self.peers[name], problem.op, problem.arrays, out)
        device, captured = self.device.name, True
        try:
            result = measure(call, device, cold=cold, max_seconds=self.seconds)
        except RuntimeError:
            captured = False
            samples = collect(partial(eager, call, device), None, self.seconds)
            result = Benchmark(samples, "device", False, 20, device)
        _core.synchronize(device)
        return result, problem.error(asnumpy(out), None, peer=True), captured

    # ---- suites on the host's clock ----

    def end_to_end(self) -> Iterator[tuple[str, Callable[[], Row]]]:
        """NumPy in, NumPy out: what most callers feel."""
        jobs = [("matmul", (1024,) * 3, "n = 1,024"), ("reduce", (16_777_216,), "sum of 64 MiB")]
        if not self.quick:
            jobs = [
                ("reduce", (134_217_728,), "sum of 512 MiB"),
                ("matmul", (1024,) * 3, "n = 1,024"),
                ("matmul", (4096,) * 3, "n = 4,096"),
                ("transpose", (8192, 8192), "8192 x 8192"),
            ]
        for op, shape, text in jobs:
            row = Row("end_to_end", op, text, shape=list(shape), precision="highest" if op == "matmul" else None)
            yield f"end to end {op} {text}", partial(self.end_to_end_row, row)

    def end_to_end_row(self, row: Row) -> Row:
        """Measures and checks one operation from host to host."""
        problem, device = self.problem(row.op, tuple(row.shape)), self.device.name

        def contend(call: Callable[[], Any], peer: bool) -> tuple[Benchmark, float]:
            error = problem.error(np.asarray(call()), None, peer)
            return measure_host(call, device, max_seconds=5 * self.seconds, **problem.work), error

        ours, error = contend(partial(getattr(ops, row.op), *problem.host, device=device), peer=False)
        results, errors = {}, {}
        for name in self.peers_here(HOST_PEERS):
            with self.survive(f"{name} end to end {row.op} {row.case}"):
                call = partial(HOST_PEERS[name], self.peers[name], row.op, problem.host)
                results[name], errors[name] = contend(call, peer=True)
        best = min(results, key=lambda name: results[name].median, default=None)
        return measured(row, ours, results, error=error, peer_error=errors.get(best))

    def call(self) -> Iterator[tuple[str, Callable[[], Row]]]:
        """What a call costs the host, on operands so small that nothing else does."""
        for op, shape in (("matmul", (16, 16, 16)), ("reduce", (16,)), ("transpose", (16, 16))):
            row = Row("call", op, "the host's share of a call", shape=list(shape))
            yield f"call {op}", partial(self.call_row, row)
        row = Row("call", "reduce", "sum, to a Python float", shape=[16])
        yield "call to float", partial(self.to_float_row, row)

    def call_row(self, row: Row) -> Row:
        """200 calls a sample, and the device drained between the samples, not in them."""
        problem, device = self.problem(row.op, tuple(row.shape)), self.device.name
        out = problem.out()
        ours = self.calls(partial(getattr(ops, row.op), *problem.arrays, out=out))
        error = problem.error(asnumpy(out), None)
        peers = {}
        for name in self.peers_here(PEERS):
            call = DEVICE_PEERS[name](self.peers[name], row.op, problem.arrays, problem.out(), on_stream=False)
            peers[name] = self.calls(call)
        _core.synchronize(device)
        return measured(row, ours, peers, error=error)

    def to_float_row(self, row: Row) -> Row:
        """A tiny sum, waited for."""
        problem = self.problem(row.op, tuple(row.shape))
        (x,) = problem.arrays
        ours = self.calls(lambda: float(ops.sum(x)))
        peers = {}
        if self.peers["torch"]:
            tensor = self.peers["torch"].as_tensor(x, device=self.device.name)
            peers["torch"] = self.calls(lambda: float(tensor.sum()))
        if self.peers["cupy"]:
            array = self.peers["cupy"].asarray(x)
            peers["cupy"] = self.calls(lambda: float(array.sum()))
        return measured(row, ours, peers, error=problem.error(np.float32(ops.sum(x)), None))

    def calls(self, call: Callable[[], Any], inner: int = 200) -> Benchmark:
        """What one of `inner` calls costs the host."""
        device = self.device.name

        def sample() -> float:
            start = time.perf_counter()
            for _ in range(inner):
                call()
            seconds = time.perf_counter() - start
            _core.synchronize(device)
            return seconds / inner

        sample()
        return Benchmark(collect(sample, None, self.seconds), "host", None, inner, device)

    def executor(self) -> Iterator[tuple[str, Callable[[], Row]]]:
        """The CPU device beside plain C on one core, its `sequential`."""
        for op, shape, kernel, options in (
            ("matmul", (256 if self.quick else 512,) * 3, "tiled", {"tile": 16}),
            ("reduce", (1_000_000,), "tree", {"block_size": 256}),
            ("transpose", (1024, 1024), "padded", {"tile": 32}),
        ):
            text = ", ".join([f"{shape[0]:,}", *(f"{k} {v}" for k, v in options.items())])
            row = Row("executor", op, text, shape=list(shape), kernel=kernel)
            yield f"executor {op} {text}", partial(self.executor_row, row, options)

    def executor_row(self, row: Row, options: dict[str, int]) -> Row:
        """A kernel on the CPU device, with `sequential` as its peer."""
        host = Problem(row.op, tuple(row.shape), "cpu")
        operation = getattr(ops, row.op)
        results, errors = {}, {}
        for kernel, more in ((row.kernel, options), ("sequential", {})):
            call = partial(operation, *host.host, kernel=kernel, device="cpu", **more)
            errors[kernel] = host.error(np.asarray(call()), kernel)
            results[kernel] = measure_host(call, "cpu", max_seconds=5 * self.seconds, **host.work)
        peers = {"sequential": results["sequential"]}
        return measured(row, results[row.kernel], peers, error=errors[row.kernel], peer_error=errors["sequential"])

    # ---- all of it ----

    def suites(self) -> dict[str, Callable[[], Iterator[tuple[str, Callable[[], Row]]]]]:
        """The suites that this device has, in their order."""
        device = {op: partial(self.ladder, op) for op in SIZES} | {"end_to_end": self.end_to_end}
        return (device if self.device.is_cuda else {}) | {"call": self.call, "executor": self.executor}

    def measure(self, names: list[str]) -> list[Row]:
        """The rows of the suites, with a progress bar; a case that fails is put down in `failures`."""
        suites, rows = self.suites(), []
        cases = [case for name in names for case in suites[name]()]
        columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task("", total=len(cases))
            for label, case in cases:
                progress.update(task, description=label)
                with self.survive(label):
                    rows.append(case())
                progress.advance(task)
        return rows

    @contextmanager
    def survive(self, what: str) -> Iterator[None]:
        """Notes and shows a failure, which must not lose what else is measured."""
        try:
            yield
        except Exception as error:
            self.failures.append(f"{what}: {type(error).__name__}: {error}")
            self.console.print(f"✗ {self.failures[-1]}", style="red", markup=False, highlight=False)

    def environment(self) -> dict[str, Any]:
        """Where and with what it was measured."""
        build, device = _core.build_info(), self.device
        return {
            "gpu": device.description if device.is_cuda else None,
            "driver": driver(),
            "cuda_driver": device.driver_version,
            "cuda": build["cuda"],
            "smemkit": version("smemkit"),
            "commit": commit(),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "cpu": "{0.description}, {0.multiprocessors} cores".format(Device("cpu")),
            "peers": {name: module and module.__version__ for name, module in self.peers.items()},
            "clocks": {"sm_max_mhz": device.clock / 1e6 or None, "memory_mhz": device.memory_clock / 1e6 or None},
            "python": platform.python_version(),
            "compiler": build["compiler"],
            "platform": platform.platform(),
            "quick": self.quick,
            "failures": self.failures,
        }


# ---- the peers ----


def torch_on_device(
    torch: Any, op: str, arrays: list[Any], out: Any, on_stream: bool = True
) -> Callable[..., Any]:
    """A call of torch on our operands, into `out`; on the stream that it is given, else on torch's own."""
    device = arrays[0].device
    x, *more = (torch.as_tensor(array, device=device) for array in arrays)
    out = torch.as_tensor(out, device=device)
    call = {
        "matmul": lambda: torch.mm(x, *more, out=out),
        "reduce": lambda: torch.sum(x, dim=0, out=out),
        "transpose": lambda: out.copy_(x.t()),
    }[op]

    def streamed(stream: int) -> None:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device)):
            call()

    return streamed if on_stream else call


def cupy_on_device(cupy: Any, op: str, arrays: list[Any], out: Any, on_stream: bool = True) -> Callable[..., Any]:
    """A call of CuPy on our operands, into `out`; on the stream that it is given, else on CuPy's own."""
    x, *more = (cupy.asarray(array) for array in arrays)
    out = cupy.asarray(out)
    call = {
        "matmul": lambda: cupy.matmul(x, *more, out=out),
        "reduce": lambda: cupy.sum(x, out=out),
        "transpose": lambda: cupy.copyto(out, x.T),
    }[op]

    def streamed(stream: int) -> None:
        with cupy.cuda.ExternalStream(stream):
            call()

    return streamed if on_stream else call


def torch_on_host(torch: Any, op: str, host: list[np.ndarray]) -> Any:
    """torch, from NumPy to NumPy."""
    x, *more = (torch.from_numpy(array).cuda() for array in host)
    if op == "reduce":
        return x.sum().item()
    return (torch.mm(x, *more) if op == "matmul" else x.t().contiguous()).cpu().numpy()


def cupy_on_host(cupy: Any, op: str, host: list[np.ndarray]) -> Any:
    """CuPy, from NumPy to NumPy."""
    x, *more = map(cupy.asarray, host)
    if op == "reduce":
        return float(x.sum())
    return cupy.asnumpy(cupy.matmul(x, *more) if op == "matmul" else cupy.ascontiguousarray(x.T))


def numpy_on_host(numpy: Any, op: str, host: list[np.ndarray]) -> Any:
    """NumPy, which has no way to go."""
    x, *more = host
    if op == "reduce":
        return x.sum()
    return numpy.matmul(x, *more) if op == "matmul" else numpy.ascontiguousarray(x.T)


DEVICE_PEERS = {"torch": torch_on_device, "cupy": cupy_on_device}
HOST_PEERS = {"torch": torch_on_host, "cupy": cupy_on_host, "numpy": numpy_on_host}


def eager(call: Callable[[int], Any], device: str, inner: int = 20) -> float:
    """Seconds a call between two events on the default stream: what is left where a capture fails."""
    begin = _core.mark(device)
    for _ in range(inner):
        call(0)
    return _core.mark(device).seconds_since(begin) / inner


# ---- small things ----


def neighbours(info: KernelInfo) -> list[dict[str, int]]:
    """The variants that differ from the default in one option at most."""
    default = info.variants[0]
    return [v for v in info.variants if sum(v[name] != default[name] for name in v) <= 1]


def operation_bytes(op: str, shape: tuple[int, ...]) -> int:
    """Bytes that a float32 operation touches."""
    if op == "matmul":
        m, n, k = shape
        return 4 * (m * k + k * n + m * n)
    return 4 * int(np.prod(shape)) * (2 if op == "transpose" else 1)


def commit() -> str | None:
    """The commit of the source tree that this is, with "-dirty" where it was changed; None elsewhere."""
    tree = Path(__file__).parents[1]
    if not (tree / ".git").exists():
        return None
    return output_of("git", "-C", str(tree), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def driver() -> str | None:
    """The driver's version, "580.159.04"; None where there is none."""
    return output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", "0")


def output_of(*command: str) -> str | None:
    """What a command prints; None where it is missing or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def reference_path(device: Device) -> Path:
    """Where --save writes: smemkit/reference/nvidia-h200.json."""
    return REFERENCE / (re.sub(r"[^a-z0-9]+", "-", device.description.lower()).strip("-") + ".json")


def rate(row: Row) -> str:
    """The value of a row with its unit; what is slow in GFLOP/s."""
    if row.unit == "TFLOP/s" and row.value < 1:
        return f"{format_number(1000 * row.value)} GFLOP/s"
    return f"{format_number(row.value)} {row.unit}" if row.unit else ""


def table(suite: str, rows: list[Row]) -> Table:
    """The rows of a suite, for the terminal."""
    shown = Table(title=suite.replace("_", " "), title_justify="left", title_style="bold")
    for name in ("op", "case", "kernel", "L2"):
        shown.add_column(name)
    for name in ("µs", "rate", "of ceiling", "best peer", "ours is", "error", "its error"):
        shown.add_column(name, justify="right")
    for row in rows:
        peer = min(row.peers, key=row.peers.get, default=None)
        shown.add_row(
            row.op,
            row.case,
            row.kernel or "[italic]fastest[/]",
            {True: "cold", False: "warm", None: ""}[row.cold],
            f"{row.us:,.2f}",
            rate(row),
            f"{row.ceiling_fraction:.0%}" if row.ceiling_fraction else "",
            f"{peer} {row.peers[peer]:,.2f}" if peer else "",
            "" if row.ratio is None else f"[{'green' if row.ratio >= 1 else 'red'}]{row.ratio:.2f} x[/]",
            "" if row.error is None else f"{row.error:.1e}",
            "" if row.peer_error is None else f"{row.peer_error:.1e}",
        )
    return shown


def results(report: dict[str, Any]) -> str:
    """The README's table, in markdown, of a reference file's content: each ladder, and the peers beside it."""
    environment = report["environment"]
    lines = [
        f"Device time on an {environment['gpu']}, float32, warm; {environment['date'][:10]}, one run of "
        f"`python -m smemkit bench`:",
        "",
        "| | the ladder, from its first rung | PyTorch | CuPy | ours is |",
        "|---|---|---|---|---|",
    ]
    for op, shape in (("transpose", [8192, 8192]), ("reduce", [16_777_216]), ("matmul", [4096, 4096, 4096])):
        rows = [row for row in report["rows"] if row["suite"] == op and row["shape"] == shape and not row["cold"]]
        rungs: dict[str, dict[str, Any]] = {}
        for row in rows:
            rungs.setdefault(row["kernel"], row)  # with its default tile or block size, which comes first
        ours = rungs.pop(None)
        speeds = {name: f"`{name}` {format_number(row['value'])}" for name, row in rungs.items()}
        ceilings = [f"; {speeds.pop(rung.name)} is the ceiling" for rung in kernels(op) if rung.ceiling]
        ladder = " → ".join(speeds.values()) + "".join(ceilings)
        torch, cupy = (format_number(ours["value"] * ours["us"] / ours["peers"][peer]) for peer in PEERS)
        size = " × ".join(str(length) for length in shape)
        lines.append(f"| {op} {size}, {ours['unit']} | {ladder} | {torch} | {cupy} | {ours['ratio']:.2f} × |")
    return "\n".join(lines) + "\n"


def add_arguments(parser: ArgumentParser) -> None:
    """The command line of ``smemkit bench``."""
    parser.add_argument("suite", nargs="*", help=f"{', '.join(SUITES)}; all that the device has if none is given")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write environment and rows")
    parser.add_argument("--save", action="store_true", help="write them as this GPU's reference file")
    parser.add_argument("--quick", action="store_true", help="few sizes, few samples")
    parser.add_argument("--device", help='"cuda:0", "cpu"; the default device if not given')
    parser.add_argument("--readme", action="store_true", help="measure nothing: print the README's table")
    parser.set_defaults(command=main, parser=parser)


def main(arguments: Namespace) -> int:
    """Runs ``smemkit bench``; the exit status is 1 if anything failed."""
    for name in set(arguments.suite) - set(SUITES):
        arguments.parser.error(f"suite: expected some of {', '.join(SUITES)}; got {name}")
    if arguments.readme:
        print(results(json.loads((REFERENCE / "nvidia-h200.json").read_text(encoding="utf-8"))), end="")
        return 0
    console = Console(stderr=True)
    device = Device(arguments.device)
    if arguments.save and (arguments.suite or arguments.quick or not device.is_cuda):
        arguments.parser.error("--save: a reference file is the whole benchmark of a GPU, all suites, not --quick")
    run = Run(device, arguments.quick, console)
    names = list(dict.fromkeys(arguments.suite)) or list(run.suites())
    missing = [name for name in names if name not in run.suites()]
    if missing:
        why = _core.cuda_unavailable() or f"this run is on {device.name}"
        raise _core.NoDeviceError(f"bench: {', '.join(missing)} need a CUDA device: {why}")
    console.print(f"{device!r}: {', '.join(names)}", markup=False, highlight=False, soft_wrap=True)
    rows = run.measure(names)
    report = {"environment": run.environment(), "rows": [asdict(row) for row in rows]}
    output = Console(width=None if sys.stdout.isatty() else 160)
    for suite in names:
        output.print(table(suite, [row for row in rows if row.suite == suite]))
    for path in filter(None, (arguments.json, reference_path(device) if arguments.save else None)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        console.print(f"wrote {path}", markup=False, highlight=False)
    if run.failures:
        console.print(f"{len(run.failures)} failed:", *run.failures, sep="\n  ✗ ", style="red", markup=False)
    return 1 if run.failures else 0
