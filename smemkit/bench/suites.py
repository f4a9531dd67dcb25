"""The suites: which problems are measured, how, and compared with which peers."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, starmap
from typing import Any, NamedTuple, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from smemkit import _core, ops
from smemkit.arrays import Array, asarray, asnumpy, empty
from smemkit.bench import by_name, planner
from smemkit.bench.native import Native, native
from smemkit.bench.peers import find_peers
from smemkit.bench.rows import Problem, Row, dtypes_of, measured
from smemkit.devices import Device, format_bytes
from smemkit.measure.benchmarks import Benchmark, measure, measure_host
from smemkit.measure.ceilings import Ceilings, ceilings
from smemkit.measure.formats import format_seconds
from smemkit.measure.operands import random
from smemkit.measure.sampling import Sampler, calls_per_sample, collect, collect_alternately, device_sampler
from smemkit.measure.timing import timed
from smemkit.table.kernel_table import KernelInfo, kernels

Sample = TypeVar("Sample")
Case = tuple[str, Callable[[], Row | list[Row]]]  # a label for the progress bar, and what measures the row or rows

SIZES = {
    "matmul": [(n, n, n) for n in (256, 512, 1000, 1024, 2048, 4095, 4096, 8192)],  # m, n, k
    "reduce": [(1000,), (65_536,), (1_000_000,), (16_777_216,), (268_435_456,), (1_073_741_824,)],
    "transpose": [(1024, 1024), (8191, 8191), (8192, 8192), (16_384, 16_384)],
}
LADDERS = {  # on which every rung is measured; on the first shape with all of its options
    "matmul": [(1024, 1024, 1024), (4096, 4096, 4096)],
    "reduce": [(16_777_216,), (1_000_000,)],
    "transpose": [(8192, 8192), (1024, 1024)],
}
NAMED = {  # on which a kernel of matmul is measured by name, besides LADDERS: (m, n, k), or (batch, m, n, k)
    "pipelined": [(8192, 8192, 8192)],
    "stream_k": [(2048, 2048, 2048), (8192, 8192, 8192)],
    "simt": [(256, 256, 256), (1000, 1000, 1000), (1000, 64, 64, 64), (500, 100, 100, 100)],
    "simt_large": [(4096, 4096, 4096)],
    "pipelined_large": [(n, n, n) for n in (2048, 4095, 4096, 8192)],
    "pipelined_small": [(256, 256, 256), (512, 512, 512)],
    "pipelined_batch": [(1000, 64, 64, 64), (500, 100, 100, 100)],
    "mma_large": [(2048, 2048, 2048), (4095, 4095, 4095), (4096, 4096, 4096), (8192, 8192, 8192)],
    "mma_small": [(256, 256, 256), (1024, 1024, 1024)],
    "mma_split": [(1024, 1024, 1024), (4095, 4095, 4095), (4096, 4096, 4096), (8192, 8192, 8192)],
    "wgmma_large": [(n, n, n) for n in (1024, 2048, 4095, 4096, 8192)],
    "wgmma_small": [(n, n, n) for n in (256, 512, 1024)],
    "wgmma_single": [(n, n, n) for n in (1024, 2048, 4095, 4096, 8192)],
    "wgmma_tf32": [(n, n, n) for n in (1024, 2048, 4096)],
    "wgmma_tf32_small": [(n, n, n) for n in (256, 512, 1024, 2048)],
    "wgmma_split": [(n, n, n) for n in (1024, 2048, 4095, 4096, 8192)],
    "wgmma_split_small": [(n, n, n) for n in (512, 1024, 2048)],
    "dmma_large": [(n, n, n) for n in (1024, 2048, 4095, 4096, 8192)],
    "dmma_small": [(n, n, n) for n in (512, 1024, 2048)],
    "wgmma_digits": [(n, n, n) for n in (1024, 2048, 4096)],
    "wgmma_digits_small": [(n, n, n) for n in (256, 512, 1024, 2048)],
    "wgmma_residues": [(n, n, n) for n in (4095, 4096, 8192)],
    "matvec": [(16_384, 1, 16_384), (1, 16_384, 16_384)],
    "tiny": [(4096, 16, 16, 16)],
}
QUICK = {"matmul": [(1024, 1024, 1024)], "reduce": [(16_777_216,)], "transpose": [(8192, 8192)]}


class Extra(NamedTuple):
    """A problem on which only kernel=None is measured."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    axis: int | None = None
    axes: tuple[int, ...] | None = None
    op: str | None = None  # if it is not the suite's
    precision: str | None = None  # of float32 matmul; None: "highest"


_AXES = [(16_384, 16_384), (4096, 65_536), (2**24, 16), (16, 2**24), (10**8, 2), (2, 10**8), (1000, 1000, 300)]
_BYTES = ("uint8", "float16", "float32", "float64", "complex128")  # 1, 2, 4, 8, 16
_GIB = {"int8": 1 << 30, "float16": 1 << 29, "float32": 1 << 28, "float64": 1 << 27}  # elements
_ODD_MATRICES = [(8191, 8193), (1_000_000, 33), (33, 1_000_000)]
_PERMUTED = [(3, 2, 1, 0), (0, 1, 3, 2), (0, 2, 1, 3), (2, 3, 0, 1), (3, 0, 1, 2), (1, 3, 0, 2)]
EXTRAS = {  # along an axis, in other dtypes, odd shapes and more dimensions
    "matmul": [
        *(Extra((n, n, n), "float16") for n in (1024, 2048, 4095, 4096, 8192, 16_384)),
        *(Extra((n, n, n), "bfloat16") for n in (4095, 4096, 8192, 16_384)),
        *(Extra((n, n, n), precision="high") for n in (1024, 2048, 4095, 4096, 8192)),
        Extra((5001, 3001, 7001), precision="high"),
        *(
            Extra((5000, 5000, 5000), dtype) for dtype in ("float16", "float32")
        ),  # rows of 16 bits begin amid sectors
        Extra((16_384, 16_384, 16_384)),
        *(Extra((n, n, n), "float64") for n in (1024, 2048, 4095, 4096, 8192)),
        Extra((5000, 5000, 1000), "float64"),  # of 13 waves of tiles the last has 16
        *(Extra((2048, 2048, 2048), dtype) for dtype in ("int8", "int16", "int32", "int64")),
        *(Extra((n, n, n), "int8 to int32") for n in (4096, 8192)),
        *(
            Extra(shape)
            for shape in ((16_384, 1, 16_384), (1, 16_384, 16_384), (16_384, 8, 16_384), (8, 8, 1 << 20))
        ),
        *(Extra(shape) for shape in ((1000, 64, 64, 64), (4096, 16, 16, 16))),
    ],
    "reduce": [
        *(Extra(shape, axis=axis) for shape in _AXES for axis in range(len(shape))),
        *(Extra((n,), dtype) for dtype in ("float16", "float64", "int32") for n in (1_000_000, 67_108_864)),
        *(
            Extra((n,), dtype, op=op)
            for dtype, n in _GIB.items()
            for op in ("reduce", "min", "max", "argmax", "var")
            if (dtype, op) not in (("float32", "reduce"), ("int8", "var"))  # one is in SIZES, one is not a float
        ),
    ],
    "transpose": [
        *(Extra((n, n), dtype) for n in (8192, 16_384) for dtype in _BYTES if dtype != "float32"),
        *(Extra(shape, dtype) for shape in _ODD_MATRICES for dtype in _BYTES[:4]),
        *(Extra((64, 1000, 1000), axes=axes) for axes in ((0, 2, 1), (2, 1, 0))),
        *(Extra((256, 64, 128, 32), axes=axes) for axes in _PERMUTED),
    ],
}
TRANSFERS = [512 << 20, 64 << 20, 4 << 20, 64 << 10]  # bytes
SPARE = 1 << 28  # bytes of a device's memory that libraries and scratch may take
HUGE, HUGE_MEMORY = 40_000, 8 << 30  # a matmul that does not fit the device memory at once
UPLOAD_RATE, DOWNLOAD_RATE = 44e9, 35e9  # bytes per second over PCIe, for the bound of an end-to-end row
SUITES = (*SIZES, "planner", "transfer", "end_to_end", "hierarchy", "call", "executor")


def usual_dtype(info: KernelInfo) -> str:
    """The dtype in which a kernel is measured by name: a rung, at the dtype's own precision."""
    usual = ("float32", "int32") if info.role != "rung" or info.precision == "highest" else ("float16",)
    return next((dtype for dtype in usual if dtype in info.dtypes), info.dtypes[0])


@dataclass
class MeasuredPeer:
    """A peer on one problem."""

    name: str
    sampler: Sampler
    out: Array  # its result
    remark: str
    failed: bool = False


class Run:
    """One run of the benchmark: its device, its peers, its time per kernel, and its failures."""

    def __init__(self, device: Device, quick: bool, console: Console) -> None:
        self.device, self.quick, self.console = device, quick, console
        self.seconds = 0.05 if quick else 0.12
        self.failures: list[str] = []
        self.interrupted = False  # by Ctrl-C: some rows are missing
        self.peers = find_peers(device, lambda text: self.say(text, style="yellow"))
        self.ceilings: Ceilings | None = None
        if device.is_cuda:
            with self.recording_failures("ceilings"):
                self.ceilings = ceilings(device)
        self._problem: Problem | None = None

    def say(self, text: str, style: str | None = None) -> None:
        """A line of the log."""
        self.console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def problem(self, row: Row) -> Problem:
        """The row's problem, kept for the next case, which usually has the same operands."""
        precision = None if row.precision == "highest" else row.precision
        key = row.op, tuple(row.shape), row.dtype, row.axis, row.axes and tuple(row.axes), precision
        if self._problem is None or self._problem.key != key:
            like, self._problem = self._problem, None
            self._problem = Problem(*key[:2], self.device.name, *key[2:], like=like)
            del like  # releases its memory before the next operands are allocated
            self._peer_results: dict[bool, tuple[dict[str, Benchmark], float | None, str]] = {}  # by cold
            self._ceiling: float | None = None  # seconds of the kernel that is this problem's ceiling
        return self._problem

    def sizes(self, table: dict[str, list[tuple[int, ...]]], op: str) -> list[tuple[int, ...]]:
        """The sizes of `op`; in a quick run only a few."""
        return [shape for shape in table[op] if not self.quick or shape in QUICK[op]]

    def fits(
        self,
        op: str,
        shape: tuple[int, ...],
        dtype: str = "float32",
        axis: int | None = None,
    ) -> bool:
        """Whether a problem fits the memory of device and host; if not, logs how much it needs. Besides the
        operands there are on the device our result and each peer's, and for each a buffer of twice the L2 cache,
        which empties it; on the host the expected result, the actual one and the initial content of `out`."""
        operands, result = problem_bytes(op, shape, dtype, axis)
        calls = 1 + len(self.peers)
        device = operands + calls * (result + 2 * self.device.l2_bytes) + SPARE
        host = operands + 3 * result + SPARE
        for what, needed, free in (
            (self.device.name, device, self.device.free_bytes),
            ("the host", host, Device("cpu").free_bytes),
        ):
            if needed > free:
                text = f"{op} {' x '.join(map(str, shape))} {dtype}: left out: it needs {format_bytes(needed)} of"
                self.say(f"{text} {what}'s memory, and only {format_bytes(free)} are free", style="yellow")
                return False
        return True

    # ---- device suites: matmul, reduce, transpose ----

    def ladder(self, op: str) -> Iterator[Case]:
        """Per shape: the ceiling, kernel=None warm and cold, and the rungs; then the extra problems."""
        gpu_kernels = [row for row in kernels(op) if "cuda" in row.devices]
        for shape in self.sizes(SIZES, op):
            if not self.fits(op, shape):
                continue
            for info in gpu_kernels:
                if info.role == "ceiling":
                    yield self.case(op, shape, info)
            yield self.case(op, shape)
            if operation_bytes(op, shape) <= 2 * self.device.l2_bytes:
                yield self.case(op, shape, cold=True)
            if shape in self.sizes(LADDERS, op):
                all_options = shape == LADDERS[op][0] and not self.quick
                for info in (row for row in gpu_kernels if row.role == "rung"):
                    for options in single_option_variants(info) if all_options else info.variants[:1]:
                        yield self.case(op, shape, info, options, dtype=usual_dtype(info))
        for info in gpu_kernels if op == "matmul" and not self.quick else ():
            for shape in NAMED.get(info.name, ()):
                dtype = usual_dtype(info)
                if self.fits(op, shape, dtype):
                    yield self.case(op, shape, info, dtype=dtype)
        for extra in () if self.quick else starmap(Extra, EXTRAS[op]):
            shape, dtype, axis, axes = extra.shape, extra.dtype, extra.axis, extra.axes
            if self.fits(extra.op or op, shape, dtype, axis):
                for info in gpu_kernels:
                    if info.role == "ceiling":
                        yield self.case(op, shape, info, dtype=dtype, axis=axis, axes=axes)
                precision = extra.precision or "highest"
                yield self.case(op, shape, dtype=dtype, axis=axis, axes=axes, other=extra.op, precision=precision)
        if not self.quick:
            yield from by_name.cases(self.device, gpu_kernels)

    def case(
        self,
        op: str,
        shape: tuple[int, ...],
        info: KernelInfo | None = None,
        options: dict[str, int] | None = None,
        *,
        cold: bool = False,
        dtype: str = "float32",
        axis: int | None = None,
        axes: tuple[int, ...] | None = None,
        other: str | None = None,
        precision: str = "highest",
    ) -> Case:
        """One kernel on one problem, of the suite's operation or of `other`."""
        options = options or {}
        square = op == "matmul" and len(set(shape)) == 1
        name = f"n = {shape[0]:,}" if square or len(shape) == 1 else " x ".join(map(str, shape))
        words = [f"{other} of {name}" if other not in (None, op) else name]
        words += [dtype] if dtype != "float32" else []
        words += [f"precision {precision}"] if precision != "highest" else []
        words += [] if axis is None else [f"axis {axis}"]
        words += [f"axes {' '.join(map(str, axes))}"] if axes else []
        text = ", ".join([*words, *(f"{option} {value}" for option, value in options.items())])
        row = Row(op, other or op, text, dtype=dtype, shape=list(shape), axis=axis, axes=axes and list(axes))
        row = replace(row, kernel=info and info.name, cold=cold)
        if op == "matmul":
            row = replace(row, precision=precision if info is None and dtype == "float32" else None)
        label = f"{op} {text} {info.name if info else ''}{' cold' if cold else ''}"
        return label, partial(self.kernel_row, row, options, bool(info and info.role == "ceiling"))

    def kernel_row(self, row: Row, options: dict[str, int], ceiling: bool) -> Row:
        """Measures and checks one kernel on the device's clock."""
        problem = self.problem(row)
        out = problem.out(transposed=not ceiling)
        operation = problem.call(out=out, kernel=row.kernel, **options)
        if ceiling:  # it does not transpose, so it takes no axes
            operation = partial(getattr(ops, row.op), *problem.arrays, out=out, kernel=row.kernel)
        if ceiling:
            ours = measure(
                lambda stream: operation(stream=stream),
                self.device.name,
                cold=row.cold,
                max_seconds=self.seconds,
                **problem.work,
            )
            self._ceiling = ours.median
            return measured(row, ours, {}, error=problem.error(asnumpy(out), row.kernel, transposed=False))
        ours, peers, peer_error, note = self.compare(problem, operation, row)
        error = problem.error(asnumpy(out), row.kernel)
        row = replace(row, case=row.case + note, ceiling_fraction=self.fraction(row, ours))
        return measured(row, ours, peers, error=error, peer_error=peer_error)

    def compare(
        self, problem: Problem, operation: Callable[..., Any], row: Row
    ) -> tuple[Benchmark, dict[str, Benchmark], float | None, str]:
        """Our time, and the peers' on the same operands; the fastest peer's error; and remarks. kernel=None is
        measured alternately with the peers; the kernels by name share the peers' times of their problem."""
        device, cold = self.device.name, bool(row.cold)
        ours = device_sampler(lambda stream: operation(stream=stream), device, cold=cold)
        alone = row.kernel is not None and cold in self._peer_results
        peers, note = ([], "") if alone else self.peer_samplers(problem, cold)
        in_turn = {"ours": ours.sample} | {peer.name: partial(self.sample, peer, problem) for peer in peers}
        samples = collect_alternately(in_turn, self.seconds * len(in_turn))
        if not alone:
            self._peer_results[cold] = self.check_peers(problem, cold, peers, samples, note)
        result = Benchmark(tuple(samples["ours"]), "device", cold, ours.calls, device, **problem.work)
        return result, *self._peer_results[cold]

    def sample(self, peer: MeasuredPeer, problem: Problem) -> float:
        """A sample of a peer's time. A peer that fails is logged once and not called again."""
        if not peer.failed:
            with self.recording_failures(describe(peer.name, problem)):
                return peer.sampler.sample()
            peer.failed = True
        return math.nan

    def check_peers(
        self, problem: Problem, cold: bool, peers: list[MeasuredPeer], samples: dict[str, list[float]], note: str
    ) -> tuple[dict[str, Benchmark], float | None, str]:
        """The times of the peers whose results are right after their last call, the fastest one's error, and
        remarks."""
        times, errors = {}, {}
        for peer in peers:
            if not peer.failed:
                with self.recording_failures(describe(peer.name, problem)):
                    errors[peer.name] = problem.error(asnumpy(peer.out), None, peer=True)
                    taken = tuple(samples[peer.name])
                    times[peer.name] = Benchmark(taken, "device", cold, peer.sampler.calls, self.device.name)
                    note += peer.remark
        best = min(times, key=lambda name: times[name].median, default=None)
        return times, errors.get(best), note

    def fraction(self, row: Row, ours: Benchmark) -> float | None:
        """The fraction of the problem's ceiling, if one was measured, otherwise of the machine's; None if operands
        stay in L2."""
        if self._ceiling:
            return None if row.cold else self._ceiling / ours.median
        if ours.bytes and not row.cold and ours.bytes <= self.device.l2_bytes:
            return None
        return ours.fraction_of(self.ceilings) if self.ceilings else None

    def peer_samplers(self, problem: Problem, cold: bool) -> tuple[list[MeasuredPeer], str]:
        """The peers that solve a problem, ready to be sampled; and remarks on those left out."""
        found, note = [], ""
        for name, peer in self.peers.items():
            with self.recording_failures(describe(name, problem)):
                out = problem.out()
                call = peer.on_device(problem, out)
                if call is None:
                    continue
                remark = ""
                try:
                    sampler = device_sampler(call, self.device.name, cold=cold)
                except RuntimeError:  # it cannot be captured
                    if cold:  # a warm time cannot be compared with our cold one
                        note += f"; without {name}"
                        continue
                    remark = f"; {name} eager"
                    sample = partial(eager, call, self.device.name)
                    inner = calls_per_sample(min(sample(1), sample(1)))
                    sampler = Sampler(partial(sample, inner), inner)
                _core.synchronize(self.device.name)  # a peer whose kernel fails is left out here
                found.append(MeasuredPeer(name, sampler, out, remark))
        return found, note

    # ---- the laboratory ----

    def experiments(self) -> Iterator[Case]:
        """What the laboratory's experiments measure: latencies, bandwidths, and the times of their kernels."""
        from smemkit.lab.catalogue import EXPERIMENTS  # only here, because importing them takes long

        for name, run in EXPERIMENTS.items():
            yield f"experiment {name}", partial(self.experiment_rows, run)

    def experiment_rows(self, run: Callable[[str], Any]) -> list[Row]:
        """The rows of an experiment."""
        from smemkit.lab.recording import rows_to_record

        return [Row("hierarchy", dtype=None, **fields) for fields in rows_to_record(run(self.device.name))]

    # ---- suites on the host's clock ----

    def transfer(self) -> Iterator[Case]:
        """NumPy arrays to the device and back, from and to pageable memory."""
        for nbytes in TRANSFERS[1:] if self.quick else TRANSFERS:
            for direction in ("upload", "download"):
                text = f"{direction}, pageable, {format_bytes(nbytes)}"
                row = Row("transfer", direction, text, shape=[nbytes // 4])
                yield f"transfer {text}", partial(self.transfer_row, row)

    def transfer_row(self, row: Row) -> Row:
        """One direction, one size."""
        x, device, up = random(tuple(row.shape), "float32"), self.device.name, row.op == "upload"
        limit = getattr(self.ceilings, "h2d" if up else "d2h", None)

        def measure_and_check(call: Callable[[], Any], fetch: Callable[[Any], Any]) -> Benchmark:
            result = measure_host(call, device, max_seconds=3 * self.seconds, bytes=x.nbytes)
            if not np.array_equal(fetch(call()), x):
                raise ArithmeticError("the received bytes differ from those sent")
            return result

        array = None if up else asarray(x, device=device)
        ours = measure_and_check(partial(asarray, x, device=device) if up else array.numpy, asnumpy)
        peers = {}
        for name, peer in self.peers.items():
            call = peer.upload(x) if up else peer.download(x)
            if call:
                with self.recording_failures(f"{name} {row.case}"):
                    peers[name] = measure_and_check(call, peer.fetch)
        fraction = x.nbytes / ours.median / limit if limit else None
        return measured(row, ours, peers, error=0.0, peer_error=0.0 if peers else None, ceiling_fraction=fraction)

    def end_to_end(self) -> Iterator[Case]:
        """NumPy in, NumPy out: the time that most callers notice."""
        if self.quick:
            jobs = [("matmul", (1024,) * 3, "n = 1,024"), ("reduce", (16_777_216,), "sum of 64 MiB")]
        else:
            jobs = [("reduce", (134_217_728,), "sum of 512 MiB")]
            jobs += [("matmul", (n,) * 3, f"n = {n:,}") for n in (256, 1024, 4096, 8192)]
            jobs += [("transpose", (8192, 8192), "8192 x 8192")]
        for op, shape, text in jobs:
            row = Row("end_to_end", op, text, shape=list(shape), precision="highest" if op == "matmul" else None)
            yield f"end to end {op} {text}", partial(self.end_to_end_row, row)
        if not self.quick:
            text = f"n = {HUGE:,}, with 8 GiB of device memory"
            row = Row("end_to_end", "matmul", text, shape=[HUGE] * 3, precision="highest")
            yield f"end to end matmul {text}", partial(self.huge_row, row)

    def end_to_end_row(self, row: Row) -> Row:
        """Measures and checks one operation from host to host."""
        problem, device = self.problem(row), self.device.name
        operation = getattr(ops, row.op)
        on_device = partial(operation, *problem.arrays, out=problem.out())
        kernel = measure(lambda stream: on_device(stream=stream), device, cold=False, max_seconds=self.seconds)

        def measure_and_check(call: Callable[[], Any], peer: bool) -> tuple[Benchmark, float]:
            error = problem.error(np.asarray(call()), None, peer)
            return measure_host(call, device, max_seconds=5 * self.seconds, **problem.work), error

        ours, error = measure_and_check(partial(operation, *problem.host, device=device), peer=False)
        results, errors = {}, {}
        for name, peer in self.peers.items():
            if call := peer.on_host(problem):
                with self.recording_failures(f"{name} end to end {row.op} {row.case}"):
                    results[name], errors[name] = measure_and_check(call, peer=True)
        best = min(results, key=lambda name: results[name].median, default=None)
        self.log_bound(row, ours.median, problem, kernel.median)
        return measured(row, ours, results, error=error, peer_error=errors.get(best))

    def huge_row(self, row: Row) -> Row:
        """A matmul in parts, once, while all but 8 GiB of the device memory are occupied. No peer can do it."""
        self._problem = None
        problem = self.problem(row)
        ballast = self.fill_memory(HUGE_MEMORY)
        try:
            result, timing = timed(ops.matmul, *problem.host, device=self.device.name)
        finally:
            del ballast
            _core.empty_cache(self.device.name)  # so that other libraries can use it
        error = problem.error(result, None)
        ours = Benchmark((timing.total,), "host", None, 1, self.device.name, **problem.work | {"ceiling": None})
        self.log_bound(row, timing.total, problem, timing.kernel)
        self.say(f"  {timing}")
        self._problem = None
        return measured(row, ours, {}, error=error)

    def fill_memory(self, free: int) -> list[Array]:
        """Allocates blocks until at most `free` bytes of the device memory are free. Returns the blocks."""
        _core.empty_cache(self.device.name)
        blocks = []
        for size in (1 << 30, 1 << 26):
            while self.device.free_bytes >= free + size:
                blocks.append(empty(size, np.uint8, device=self.device.name))
        return blocks

    def log_bound(self, row: Row, seconds: float, problem: Problem, kernel: float) -> None:
        """Logs the time and its bound: 1.2 times the copies or the kernel, whichever takes longer."""
        up, down = problem.nbytes
        copies = up / UPLOAD_RATE + down / DOWNLOAD_RATE
        bound = 1.2 * max(copies, kernel)
        text = f"end to end {row.op} {row.case}: {format_seconds(seconds)}, bound {format_seconds(bound)}"
        limits = f"copies {format_seconds(copies)}, kernel {format_seconds(kernel)}"
        self.say(f"{text} (1.2 x the larger of {limits})", style="green" if seconds <= bound else "yellow")

    def call(self) -> Iterator[Case]:
        """The host's overhead of a call, on operands so small that it is all that counts."""
        for op, shape in (("matmul", (16, 16, 16)), ("reduce", (16,)), ("transpose", (16, 16))):
            row = Row("call", op, "the host's share of a call", shape=list(shape))
            yield f"call {op}", partial(self.call_row, row)
        row = Row("call", "reduce", "sum, to a Python float", shape=[16])
        yield "call to float", partial(self.to_float_row, row)
        if library := self.native_library():
            for way, as_graph in (("launched by cudaLaunchKernel", False), ("launched as a graph", True)):
                row = Row("call", "launch", f"an empty kernel, {way}", dtype=None)
                yield f"call launch {way}", partial(self.launch_row, row, library, as_graph)

    def call_row(self, row: Row) -> Row:
        problem = self.problem(row)
        operands, out = problem.arrays, problem.out()
        operation = getattr(ops, "sum" if row.op == "reduce" else row.op)
        peers = {
            name: peer.direct(problem, problem.out()) for name, peer in self.peers.items() if self.device.is_cuda
        }
        if row.op == "matmul":
            a, b = operands
            timed = self.calls(lambda: operation(a, b, out=out), peers)
        else:
            (x,) = operands
            timed = self.calls(lambda: operation(x, out=out), peers)
        return measured(row, *timed, error=problem.error(asnumpy(out), None))

    def to_float_row(self, row: Row) -> Row:
        """A tiny sum, until its value is on the host."""
        problem = self.problem(row)
        (x,) = problem.arrays
        peers = {name: peer.to_float(x) for name, peer in self.peers.items() if self.device.is_cuda}
        timed = self.calls(lambda: float(ops.sum(x)), peers)
        return measured(row, *timed, error=problem.error(np.float32(ops.sum(x)), None))

    def native_library(self) -> Native | None:
        """NVIDIA's libraries on a GPU; None without nvcc, which `find_peers` has reported."""
        try:
            return native(self.device) if self.device.is_cuda else None
        except _core.Error:
            return None

    def launch_row(self, row: Row, library: Native, as_graph: bool) -> Row:
        """What CUDA itself takes for the launch of a kernel that does nothing."""
        count = 200
        samples = self.on_each_core(partial(library.launch_empty, as_graph, count), self.seconds)
        return measured(row, Benchmark(samples, "host", None, count, self.device.name), {})

    def calls(
        self, ours: Callable[[], Any], peers: dict[str, Callable[[], Any] | None], inner: int = 200
    ) -> tuple[Benchmark, dict[str, Benchmark]]:
        """The host's time per call, over `inner` calls; the device is synchronised between samples. smemkit and
        the peers are measured alternately."""
        device, measured_calls = self.device.name, {"ours": ours} | {name: c for name, c in peers.items() if c}

        def sample(call: Callable[[], Any]) -> float:
            for _ in range(inner // 10):  # warms up the core's caches
                call()
            start = time.perf_counter()
            for _ in range(inner):
                call()
            seconds = time.perf_counter() - start
            _core.synchronize(device)
            return seconds / inner

        for call in measured_calls.values():  # the first call starts threads, which may use all cores
            call()
        rounds = self.on_each_core(
            lambda: [sample(call) for call in measured_calls.values()], len(measured_calls) * self.seconds
        )
        timed = {
            name: Benchmark(own, "host", None, inner, device)
            for name, own in zip(measured_calls, zip(*rounds, strict=True), strict=True)
        }
        return timed.pop("ours"), timed

    def on_each_core(self, sample: Callable[[], Sample], seconds: float) -> tuple[Sample, ...]:
        """Collects samples, each on the next of the process's cores, because a core that is shared with another
        process may be 1.5 times slower for seconds or minutes."""
        pins = self.device.is_cuda and hasattr(os, "sched_setaffinity")  # the CPU device needs all cores
        cores = os.sched_getaffinity(0) if pins else set()
        next_core = cycle(sorted(cores))

        def on_next_core() -> Sample:
            if pins:
                os.sched_setaffinity(0, {next(next_core)})
            return sample()

        try:
            return collect(on_next_core, None, seconds)
        finally:
            if pins:
                os.sched_setaffinity(0, cores)

    def executor(self) -> Iterator[Case]:
        """The CPU device, compared with plain C on one core, the kernel `sequential`."""
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

    def suites(self) -> dict[str, Callable[[], Iterator[Case]]]:
        """The suites that this device supports, in order."""
        device = {op: partial(self.ladder, op) for op in SIZES}
        device |= {"planner": partial(planner.cases, self.device, self.quick)}
        device |= {"transfer": self.transfer, "end_to_end": self.end_to_end, "hierarchy": self.experiments}
        return (device if self.device.is_cuda else {}) | {"call": self.call, "executor": self.executor}

    def measure(self, names: list[str]) -> list[Row]:
        """The rows of the suites, with a progress bar. Cases that fail are listed in `failures`. Ctrl-C stops it,
        and returns the rows so far."""
        rows: list[Row] = []
        cases = {name: list(self.suites()[name]()) for name in names}
        columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task("", total=sum(map(len, cases.values())))
            for name in names:
                start = time.perf_counter()
                try:
                    for label, case in cases[name]:
                        progress.update(task, description=label)
                        with self.recording_failures(label):
                            made = case()
                            rows += made if isinstance(made, list) else [made]
                        progress.advance(task)
                except KeyboardInterrupt:
                    self.interrupted = True
                    self.failures.append(f"{name}: interrupted, with {len(rows)} rows in all")
                    break
                self.say(f"{name}: {len(cases[name])} rows in {format_seconds(time.perf_counter() - start)}")
        return rows

    @contextmanager
    def recording_failures(self, what: str) -> Iterator[None]:
        """Records and logs an exception of the block, so that the other cases are still measured."""
        try:
            yield
        except Exception as error:
            self.failures.append(f"{what}: {type(error).__name__}: {error}")
            self.say(f"✗ {self.failures[-1]}", style="red")


def describe(peer: str, problem: Problem) -> str:
    """A peer and a problem, for the log."""
    return f"{peer} {problem.op} {problem.shape} {problem.dtype}"


def eager(call: Callable[[int], Any], device: str, inner: int) -> float:
    """Seconds per call between two events on the default stream, for calls that cannot be captured."""
    call(0)  # not measured: while it runs the host enqueues the others, and its own time does not count
    begin = _core.mark(device)
    for _ in range(inner):
        call(0)
    return _core.mark(device).seconds_since(begin) / inner


def single_option_variants(info: KernelInfo) -> list[dict[str, int]]:
    """The variants that differ from the default in one option at most."""
    default = info.variants[0]
    return [v for v in info.variants if sum(v[name] != default[name] for name in v) <= 1]


def problem_bytes(op: str, shape: tuple[int, ...], dtype: str, axis: int | None) -> tuple[int, int]:
    """Bytes of a problem's operands, and of its result."""
    size, result_size = (np.dtype(name).itemsize for name in dtypes_of(dtype))
    if op == "matmul":
        *batch, m, n, k = shape
        return size * math.prod(batch) * (m * k + k * n), result_size * math.prod(batch) * m * n
    nbytes = size * math.prod(shape)
    if op == "transpose":
        return nbytes, nbytes
    return nbytes, 8 if axis is None else 8 * math.prod(shape) // shape[axis]


def operation_bytes(op: str, shape: tuple[int, ...]) -> int:
    """Bytes that a float32 operation touches."""
    return sum(problem_bytes(op, shape, "float32", None))
