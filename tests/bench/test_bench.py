"""The benchmark: what it measures, how it checks results, and what it writes. A GPU's suites run on the CPU
device."""

import json
import math
import os
import sys
import time
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from tiers import times

import smemkit
from smemkit import _core
from smemkit.bench import by_name, figures, native, peers, planner, report, suites
from smemkit.bench import rows as rows_module
from smemkit.bench.rows import Problem, Row, measured, reduced, transposed
from smemkit.measure.benchmarks import Benchmark, measure_host
from smemkit.measure.operands import random
from smemkit.measure.sampling import Sampler

LIMITS = smemkit.Ceilings(
    "a GPU", copy_bandwidth=4e12, read_bandwidth=5e12, fp32=6e13, f16=8e14, h2d=5e10, d2h=4e10
)


# ---- problems ---------------------------------------------------------------------------------------------------

PROBLEMS = [
    ("matmul", (33, 20, 40), "float32", None),
    ("matmul", (70, 20, 40), "float16", None),
    ("reduce", (1000,), "float32", None),
    ("reduce", (1000,), "float16", None),
    ("reduce", (1000,), "float64", None),
    ("reduce", (1000,), "int32", None),
    ("reduce", (30, 50), "float32", 0),
    ("reduce", (30, 50), "float32", 1),
    ("transpose", (30, 50), "float32", None),
    ("transpose", (300, 7), "uint8", None),
    ("transpose", (30, 50), "complex128", None),
    ("reduce", (1000,), "int8", None),
    ("min", (1000,), "int8", None),
    ("max", (30, 50), "float16", 0),
    ("argmin", (1000,), "float32", None),
    ("argmax", (30, 50), "int8", 1),
    ("var", (1000,), "float32", None),
    ("var", (1000,), "float16", None),
    ("var", (1000,), "float64", None),
    ("reduce", (20, 30, 40), "float32", 1),
]


def each_problem(test):
    return pytest.mark.parametrize(("op", "shape", "dtype", "axis"), PROBLEMS)(test)


def solve(problem, operands=None):
    return np.asarray(problem.call(*(operands or problem.host), device="cpu")())


@each_problem
def test_correct_results_pass(op, shape, dtype, axis):
    problem = Problem(op, shape, "cpu", dtype, axis)
    result = solve(problem)
    assert result.shape == problem.out().shape == problem.out_shape
    assert result.dtype == problem.out().dtype == problem.out_dtype
    assert problem.nbytes == (sum(x.nbytes for x in problem.host), result.nbytes)
    assert problem.error(result, None) <= problem.bound(promised=True, peer=False)
    assert problem.error(solve(problem, problem.arrays), None) == problem.error(result, None)


@each_problem
def test_wrong_results_fail(op, shape, dtype, axis):
    problem = Problem(op, shape, "cpu", dtype, axis)
    right = solve(problem)
    wrong = right.copy()
    wrong[(0,) * wrong.ndim] += wrong.dtype.type(3 if shape[0] < 1000 or op == "reduce" else 1)
    with pytest.raises(ArithmeticError, match=r"relative error .* exceeds the bound "):
        problem.error(wrong, None)
    for kernel, peer in ((None, False), ("naive", False), (None, True)):  # an output that was never written
        with pytest.raises(ArithmeticError):
            problem.error(problem.out().numpy(), kernel, peer)


def test_a_matmul_is_checked_to_the_last_row():
    problem = Problem("matmul", (1000, 8, 8), "cpu")
    assert (problem.rows[0], problem.rows[-1], len(problem.rows)) == (0, 999, 64)
    assert np.allclose(problem.expected, (problem.host[0].astype(float) @ problem.host[1])[problem.rows])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32", "float64"])
@pytest.mark.covering(most=3)
def test_random_values_fill_their_range(dtype):
    x = random((3, 1 << 21), dtype)  # more than one thread fills
    assert x.dtype == dtype
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if x.dtype.kind in "iu" else (0, 1)
    assert low <= x.min() < low + 0.01 * (high - low)
    assert high - 0.01 * (high - low) < x.max() <= high
    assert np.array_equal(x, random((3, 1 << 21), dtype))
    assert not np.array_equal(x, random((3, 1 << 21), dtype, seed=1))
    assert not np.array_equal(x.ravel()[: 1 << 20], x.ravel()[1 << 22 : (1 << 22) + (1 << 20)])


def test_normal_values_are_normal():
    x = random((1 << 20,), "float16", "normal")
    assert abs(x.mean(dtype=float)) < 0.01
    assert abs(x.std(dtype=float) - 1) < 0.01


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1, 1), None),
        ((5, 700), None),
        ((1000, 3), None),
        ((0, 4), None),
        ((3, 4, 500), (2, 0, 1)),
        ((9, 5, 7), None),
    ],
)
def test_parallel_transpose(shape, axes):
    x = random(shape, "uint8")
    assert np.array_equal(transposed(x, axes), x.transpose(axes))
    assert transposed(x, axes).flags.c_contiguous


@pytest.mark.parametrize("dtype", ["uint8", "float16", "complex128"])
def test_same_bits(monkeypatch, dtype):
    monkeypatch.setattr(rows_module, "CHUNK", 64)  # many chunks
    x = random((30, 7), dtype)
    assert rows_module.same_bits(x, x.copy()) and rows_module.same_bits(x.T, x.T.copy())
    for other in (x[:-1], x.reshape(7, 30), x.view("i1")):
        assert not rows_module.same_bits(x, other)
    for index in (0, 63, 64, 209):
        y = x.copy()
        y.reshape(-1)[index] += 1
        assert not rows_module.same_bits(x, y)


@pytest.mark.parametrize("name", ["sum", "min", "max", "argmin", "argmax", "mean", "var"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((1000,), None), ((7, 300), 0), ((7, 300), 1), ((5, 6, 7), 1)], ids=str
)
def test_parallel_reduce(monkeypatch, name, shape, axis):
    monkeypatch.setattr(rows_module, "CHUNK", 64)  # many chunks
    for dtype in ("float32", "int8"):  # int8 has equal values in several chunks
        x = random(shape, dtype)
        wanted = getattr(x.astype(float), name)(axis)
        np.testing.assert_allclose(reduced(x, name, axis, np.float64), wanted, rtol=1e-12)


def test_peers_may_return_any_tied_argmax():
    problem = Problem("argmax", (1000,), "cpu", "int8")
    first, *_, last = np.flatnonzero(problem.host[0] == problem.host[0].max())
    assert problem.error(first, None) == problem.error(last, None, peer=True) == 0
    for index, peer in ((last, False), (last - 1, True), (1000, True), (-1, True)):
        with pytest.raises(ArithmeticError):
            problem.error(index, None, peer)


def test_operands_are_reused():
    problem = Problem("min", (1000,), "cpu", "float16")
    arrays = problem.arrays
    assert Problem("var", (1000,), "cpu", "float16", like=problem).arrays is arrays
    for other in (("var", (1000,), "cpu", "float32"), ("transpose", (10, 100), "cpu", "float16")):
        assert Problem(*other, like=problem).host[0] is not problem.host[0]
    small = Problem("reduce", (1000,), "cpu", "float16", like=problem)  # so that the sum fits float16
    assert small.host[0].max() < 2**-9 < problem.host[0].max()


# ---- a GPU's suites, on the CPU ---------------------------------------------------------------------------------


class LikeAGpu(smemkit.Device):
    """The CPU device, reporting that it is a GPU."""

    is_cuda = True
    l2_bytes = 1000


class FakeTorchPeer(peers.Peer):
    """A peer that supports everything, in NumPy. It computes twice, so that smemkit is faster."""

    name, version = "torch", "1.0"

    def on_device(self, problem, out):
        return lambda stream: self.direct(problem, out)()

    def direct(self, problem, out):
        def call():
            for _ in range(2):
                smemkit.convert(smemkit.asarray(solve(problem), device="cpu"), out=out)

        return call

    def to_float(self, x):
        return lambda: float(x.numpy().sum())

    def on_host(self, problem):
        return partial(solve, problem)

    def upload(self, x):
        return lambda: x.copy()

    download = upload


def measure_with_host_clock(call, device, *, cold, max_seconds, **work):
    result = measure_host(lambda: call(None), device, repeat=1, **work)
    return replace(result, clock="device", cold=cold)


def sampler_of_the_host(call, device, *, cold):
    def sample():
        start = time.perf_counter()
        call(None)
        return time.perf_counter() - start

    sample()
    return Sampler(sample, 1)


@pytest.fixture
def run(monkeypatch):
    """A benchmark run with small suites."""
    small = {"matmul": [(20, 20, 20)], "reduce": [(1000,)], "transpose": [(20, 30)]}
    rows = [replace(row, devices=("cuda",)) for row in smemkit.kernels() if "cpu" in row.devices]
    monkeypatch.setattr(by_name, "PROBLEMS", {})
    for name, value in {
        "SIZES": small,
        "LADDERS": small,
        "NAMED": {"simt": [(70, 20, 30)], "tiny": [(5, 16, 16, 16)]},
        "EXTRAS": {
            "matmul": [((20,) * 3, "float16"), ((6, 4, 5, 3),)],
            "reduce": [((30, 40), "float32", 0), ((1000,), "int8", None, None, "argmax")],
            "transpose": [((3, 20, 30), "uint8", None, (2, 0, 1))],
        },
        "TRANSFERS": [4096, 1024],
        "HUGE": 70,
        "HUGE_MEMORY": 1 << 60,
        "kernels": lambda op: [row for row in rows if row.op == op and row.needs != "host"],
        "measure": measure_with_host_clock,
        "device_sampler": sampler_of_the_host,
        "ceilings": lambda device: LIMITS,
        "find_peers": lambda device, say: {"numpy": peers.Numpy(), "torch": FakeTorchPeer()},
    }.items():
        monkeypatch.setattr(suites, name, value)
    with smemkit.Device("cpu"):
        run = suites.Run(LikeAGpu("cpu"), quick=False, console=Console(stderr=True, width=200))
        run.seconds = 0.001
        yield run


def measure_rows(run, suite):
    rows = run.measure([suite])
    assert run.failures == []
    assert {row.suite for row in rows} == {suite}
    for row in rows:
        assert row.us > 0
        assert row.op == "launch" or row.error is not None
        assert row.ratio is None or row.ratio == pytest.approx(min(row.peers.values()) / row.us)
    return rows


@pytest.mark.parametrize("op", ["matmul", "reduce", "transpose"])
def test_ladder_has_every_rung_and_the_default(run, op):
    rows = measure_rows(run, op)
    named = [row.name for row in suites.kernels(op) if row.role != "production"]
    named += ["simt", "tiny"] if op == "matmul" else []  # of `NAMED`
    assert {*named, None} == {row.kernel for row in rows}
    for row in rows:
        ceiling = row.kernel == "copy"
        assert set(row.peers) == (set() if ceiling else {"torch"})
        assert (row.unit, row.cold) == ("TFLOP/s" if op == "matmul" else "GB/s", False)
        assert row.precision == (
            "highest" if op == "matmul" and not row.kernel and row.dtype == "float32" else None
        )
    if op == "transpose":
        assert all(row.ceiling_fraction for row in rows if row.kernel != "copy")


@pytest.mark.parametrize("op", ["matmul", "reduce", "transpose"])
def test_production_kernels_and_rungs_of_tensor_cores_are_measured_in_every_dtype(run, monkeypatch, op):
    monkeypatch.undo()
    monkeypatch.setattr(by_name, "measure", measure_with_host_clock)
    monkeypatch.setattr(by_name, "SECONDS", 1e-4)
    rows = [
        row
        for row in smemkit.kernels(op)
        if row.role == "production" or (row.role == "rung" and row.needs.startswith("sm") and len(row.dtypes) > 1)
    ]
    assert list(by_name.PROBLEMS[op]) == [row.name for row in rows]
    some = times(rows, rows[::6]) if op == "matmul" else rows
    rows = [case() for _, case in by_name.cases(smemkit.Device("cpu"), some)]
    for info in some:
        measured_dtypes = [row.dtype for row in rows if row.kernel == info.name]
        assert measured_dtypes == [
            dtype for dtype in info.dtypes if op != "transpose" or dtype in planner.DTYPES["transpose"]
        ]
    for row in rows:
        assert (row.suite, row.op, row.error, row.peers, row.cold) == (op, op, 0.0, {}, False)
        assert row.us > 0


def test_a_wrong_production_kernel_has_no_row(run, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(by_name, "measure", measure_with_host_clock)
    rows = [row for row in smemkit.kernels("transpose") if row.name in ("tiles", "in_place")]
    for name in ("transpose", "asnumpy"):  # nothing is written; the last element is lost
        with monkeypatch.context() as patch:
            if name == "transpose":
                patch.setattr(by_name.ops, "transpose", lambda *args, **keywords: None)
            else:
                patch.setattr(by_name, "asnumpy", lambda x: np.where(np.arange(x.shape[-1]) == 3, 7, x.numpy()))
            for _, case in by_name.cases(smemkit.Device("cpu"), rows):
                with pytest.raises(ArithmeticError, match="elements are wrong"):
                    case()


def test_the_ladders_suite_ends_with_the_production_kernels(run, monkeypatch):
    monkeypatch.setattr(by_name, "PROBLEMS", {"transpose": {"in_place": by_name.Exact((8, 8))}})
    labels = [label for label, _ in run.ladder("transpose")]
    assert labels[-5:] == [
        f"transpose 8 x 8, {dtype} in_place" for dtype in ("uint8", "float16", "float32", "float64", "complex128")
    ]


def test_rows_of_other_dtypes_and_axes(run):
    (half,) = (row for row in measure_rows(run, "matmul") if row.dtype == "float16" and row.kernel is None)
    assert half.case == "n = 20, float16"
    assert half.ceiling_fraction == pytest.approx(1e12 * half.value / LIMITS.f16)
    along_axis, argmax = (row for row in measure_rows(run, "reduce") if row.axis == 0 or row.op != "reduce")
    assert (along_axis.case, along_axis.shape, along_axis.kernel) == ("30 x 40, axis 0", [30, 40], None)
    assert along_axis.ceiling_fraction == pytest.approx(1e9 * along_axis.value / LIMITS.read_bandwidth)
    assert along_axis.value == pytest.approx(4 * (30 * 40 + 40) / along_axis.us / 1e3)  # written bytes count too
    assert (argmax.op, argmax.case, argmax.dtype) == ("argmax", "argmax of n = 1,000, int8", "int8")
    copied, permuted = (row for row in measure_rows(run, "transpose") if row.axes)
    assert (copied.kernel, permuted.kernel, permuted.axes) == ("copy", None, [2, 0, 1])
    assert permuted.case == "3 x 20 x 30, uint8, axes 2 0 1"
    assert permuted.ceiling_fraction == pytest.approx(copied.us / permuted.us)


def test_cases_beyond_device_memory_are_skipped_and_reported(run, monkeypatch, capsys):
    monkeypatch.setattr(suites, "SPARE", 1 << 42)
    assert run.measure(["reduce"]) == run.failures == []
    assert "reduce 30 x 40 float32: left out: it needs 4 TiB of cpu's memory, and only " in capsys.readouterr().err


def test_cases_within_l2_have_no_ceiling(run, monkeypatch):
    monkeypatch.setattr(LikeAGpu, "l2_bytes", 1 << 20)
    rows = measure_rows(run, "reduce")
    assert all(row.ceiling_fraction is None for row in rows if not row.cold)
    assert any(row.cold and row.ceiling_fraction for row in rows)


def test_transfers(run):
    rows = measure_rows(run, "transfer")
    assert [row.case for row in rows] == [
        f"{direction}, pageable, {size}" for size in ("4 KiB", "1 KiB") for direction in ("upload", "download")
    ]
    for row in rows:
        limit = LIMITS.h2d if row.op == "upload" else LIMITS.d2h
        assert (row.unit, list(row.peers)) == ("GB/s", ["torch"])
        assert row.value == pytest.approx(4 * row.shape[0] / row.us / 1e3)
        assert row.ceiling_fraction == pytest.approx(1e9 * row.value / limit)


def test_corrupted_transfer_is_found(run, monkeypatch):
    monkeypatch.setattr(suites, "asarray", lambda x, device: smemkit.asarray(x * 0, device=device))
    assert run.measure(["transfer"]) == []
    assert len(run.failures) == 4
    assert all("ArithmeticError: the received bytes differ from those sent" in failure for failure in run.failures)


def test_end_to_end(run, monkeypatch, capsys):
    jobs = [(1 << 27,), (256,) * 3, (1024,) * 3, (4096,) * 3, (8192,) * 3, (8192, 8192), (70,) * 3]
    labels = [label for label, _ in run.end_to_end()]
    assert len(labels) == len(jobs)
    assert labels[-1] == "end to end matmul n = 70, with 8 GiB of device memory"
    cases = list(run.end_to_end())
    monkeypatch.setattr(run, "end_to_end", lambda: [cases[1], cases[-1]])
    rows = measure_rows(run, "end_to_end")
    assert [row.shape for row in rows] == [[256] * 3, [70] * 3]
    assert [set(row.peers) for row in rows] == [{"numpy", "torch"}, set()]
    log = capsys.readouterr().err
    assert log.count(", bound ") == 2
    assert "end_to_end: 2 rows in " in log


def test_the_bound_of_an_end_to_end_row(run, capsys):
    problem = Problem("matmul", (100, 200, 300), "cpu")
    row = Row("end_to_end", "matmul", "n = 1")
    up, down = 4 * (100 * 300 + 300 * 200), 4 * 100 * 200
    for kernel, bound in ((1e-9, 1.2 * (up / 44e9 + down / 35e9)), (2.0, 2.4)):
        run.log_bound(row, 1.0, problem, kernel)
        assert f"end to end matmul n = 1: 1.00 s, bound {report.format_seconds(bound)} " in capsys.readouterr().err


def test_fill_memory_leaves_the_requested_bytes(run, monkeypatch):
    taken = []

    class Block:
        def __init__(self, size, dtype, device):
            taken.append(size)

    monkeypatch.setattr(suites, "empty", Block)
    monkeypatch.setattr(LikeAGpu, "free_bytes", property(lambda self: (20 << 30) - sum(taken)))
    assert len(run.fill_memory(8 << 30)) == len(taken) == 12
    assert run.device.free_bytes == 8 << 30


def test_host_tables_are_of_the_newest_run_of_each_suite():
    def run(gpu, date, *suites):
        rows = [asdict(suites_row(suite)) for suite in suites]
        return {"environment": {"gpu": gpu, "date": f"{date}T00:00:00"}, "rows": rows}

    def suites_row(suite):
        return suites.Row(suite, "reduce", "sum of 512 MiB", us=10.0, unit="GB/s", value=1.0)

    old, new = run("A", "2026-01-01", "transfer", "end_to_end", "call"), run("B", "2026-02-02", "end_to_end")
    lines = [line for line in report.host_tables([old, new]) if line.startswith(("By", "| a", "| s"))]
    assert lines == [
        "By the host's clock on an A, 2026-01-01: copies; what a call costs on device arrays:",
        "| sum of 512 MiB | 1.00 GB/s |  |  |",
        "| a call of sum of 512 MiB | 10.0 µs |  |  |",
        "By the host's clock on an B, 2026-02-02: NumPy in and NumPy out:",
        "| sum of 512 MiB | 10.0 µs |  |  |",
    ]


@pytest.fixture
def launches(monkeypatch):
    """CUDA's own launches take a microsecond as a graph, and two otherwise."""
    fake = SimpleNamespace(launch_empty=lambda as_graph, count: 1e-6 if as_graph else 2e-6)
    monkeypatch.setattr(suites, "native", lambda device: fake)


def test_calls(run, launches):
    rows = measure_rows(run, "call")
    assert [row.op for row in rows] == ["matmul", "reduce", "transpose", "reduce", "launch", "launch"]
    assert all(set(row.peers) == ({"torch"} if row.op != "launch" else set()) for row in rows)
    assert rows[3].case == "sum, to a Python float"
    assert [round(row.us, 3) for row in rows[4:]] == [2, 1]


def test_calls_without_nvcc(run, monkeypatch):
    monkeypatch.setattr(native, "find_nvcc", lambda: (_ for _ in ()).throw(_core.Error("there is no nvcc here")))
    native.native.cache_clear()
    assert [row.op for row in measure_rows(run, "call")] == ["matmul", "reduce", "transpose", "reduce"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no sched_setaffinity")
def test_calls_are_measured_on_every_core(run, launches, monkeypatch):
    cores, set_affinity, seen = os.sched_getaffinity(0), os.sched_setaffinity, []
    if len(cores) == 1:
        pytest.skip("there is only one core")

    def record(pid, mask):
        seen.append(set(mask))
        set_affinity(pid, mask)

    monkeypatch.setattr(os, "sched_setaffinity", record)
    run.measure(["call"])
    visited = seen[: seen.index(cores)]
    assert visited == [{core} for core in sorted(cores) * len(visited)][: len(visited)]
    assert seen.count(cores) == 6 and seen[-1] == os.sched_getaffinity(0) == cores


def test_wrong_peer_is_skipped_and_reported(run, monkeypatch):
    monkeypatch.setattr(FakeTorchPeer, "on_device", lambda self, problem, out: lambda stream: None)
    rows = run.measure(["transpose"])
    assert rows and all(row.peers == {} and row.ratio is None for row in rows)
    assert run.failures[0].startswith("torch transpose (20, 30) float32: ArithmeticError: relative error nan")


def test_a_peer_that_fails_while_it_is_sampled_costs_no_row(run, monkeypatch):
    calls = []

    def fails_late(self, problem, out):
        def call(stream):
            calls.append(problem)
            if calls.count(problem) > 2:
                raise RuntimeError("an illegal memory access")
            self.direct(problem, out)()

        return call

    monkeypatch.setattr(FakeTorchPeer, "on_device", fails_late)
    rows = run.measure(["transpose"])
    assert rows and all(row.value > 0 and row.peers == {} for row in rows)
    assert run.failures == [
        f"torch transpose {shape}: RuntimeError: an illegal memory access"
        for shape in ("(20, 30) float32", "(3, 20, 30) uint8")
    ]
    assert all(calls.count(problem) == 3 for problem in calls)  # it is not called again


def test_a_peer_that_becomes_wrong_while_it_is_sampled_is_reported(run, monkeypatch):
    def wrong_later(self, problem, out):
        calls = []

        def call(stream):
            calls.append(None)
            if len(calls) <= 2:
                self.direct(problem, out)()
            else:
                smemkit.convert(smemkit.asarray(0 * solve(problem), device="cpu"), out=out)

        return call

    monkeypatch.setattr(FakeTorchPeer, "on_device", wrong_later)
    rows = run.measure(["transpose"])
    assert rows and all(row.peers == {} for row in rows)
    assert run.failures[0].startswith("torch transpose (20, 30) float32: ArithmeticError: relative error")


def test_a_peer_that_refuses_a_capture_is_measured_eagerly(run, monkeypatch):
    def refuse(call, device, *, cold):
        if call.__qualname__.startswith("FakeTorchPeer."):
            raise RuntimeError("not while a stream is captured")
        return sampler_of_the_host(call, device, cold=cold)

    monkeypatch.setattr(suites, "device_sampler", refuse)
    rows = run.measure(["matmul"])
    assert run.failures == []
    assert all(row.case.endswith("; torch eager") and row.peers["torch"] > 0 for row in rows)


def test_the_chosen_kernel_and_its_peers_are_measured_alternately(run, monkeypatch):
    order = []

    def logged(call, device, *, cold):
        name = "torch" if call.__qualname__.startswith("FakeTorchPeer.") else "ours"
        return Sampler(lambda: order.append(name) or 1e-6, 1)

    monkeypatch.setattr(suites, "device_sampler", logged)
    monkeypatch.setattr(Problem, "error", lambda *args, **keywords: 0.0)
    problem = run.problem(Row("reduce", "reduce", "", shape=[1000], cold=False))
    for kernel, expected in ((None, {"ours", "torch"}), ("tree", {"ours"})):  # the second shares the peers' times
        order.clear()
        row = Row("reduce", "reduce", "", shape=[1000], kernel=kernel, cold=False)
        ours, peers, *_ = run.compare(problem, problem.call(kernel=kernel), row)
        size = len(expected)
        rounds = len(order) // size
        assert rounds >= 3 and all({*order[i : i + size]} == expected for i in range(0, size * rounds, size))
        assert {order[i] for i in range(0, size * rounds, size)} == expected  # none is always the first
        assert len(ours.samples) == rounds and set(peers) == {"torch"}


def test_suite_durations_are_reported(run, capsys):
    rows = run.measure(["transpose"])
    assert rows
    assert f"transpose: {len(rows)} rows in " in capsys.readouterr().err


# ---- the policy compared with every kernel ----------------------------------------------------------------------


def test_random_problems_are_reproducible_and_cover_all_kinds():
    rows = list(planner.random_problems(200, 1 << 28))
    assert rows == list(planner.random_problems(200, 1 << 28))
    assert len({row.case for row in rows}) > 190
    assert {row.op for row in rows} == {*planner.REDUCTIONS, "transpose"}
    assert {row.dtype for row in rows} == {dtype for dtypes in planner.DTYPES.values() for dtype in dtypes}
    sizes = [math.prod(row.shape) * np.dtype(row.dtype).itemsize for row in rows]
    assert max(sizes) <= 1 << 28
    assert min(sizes) < 1 << 14 and max(sizes) > 1 << 26
    for row in rows:
        assert (row.axes is not None) == (row.op == "transpose")
        assert row.axis is None or row.axis < len(row.shape)
        assert row.axes is None or (sorted(row.axes) == list(range(len(row.shape))) != row.axes)
        if row.op == "var":
            assert "float" in row.dtype and (row.shape[row.axis] if row.axis is not None else max(row.shape)) > 1
    assert any(row.axis is not None for row in rows) and any(len(row.shape) == 4 for row in rows)


def test_random_products_are_reproducible_and_cover_all_kinds():
    rows = list(planner.random_products(300, 1 << 28))
    assert rows == list(planner.random_products(300, 1 << 28))
    assert len({row.case for row in rows}) > 290
    assert {(row.dtype, row.precision) for row in rows} == set(planner.PRODUCTS)
    for row in rows:
        *batch, m, n, k = row.shape
        assert math.prod(row.shape) <= planner.MAX_PRODUCT
        matrices = math.prod(batch) * (m * k + k * n + m * n)
        assert matrices * np.dtype(row.dtype).itemsize <= 1 << 28
    assert any(len(row.shape) == 4 for row in rows) and any(min(row.shape) < 16 for row in rows)
    assert max(math.prod(row.shape) for row in rows) > planner.MAX_PRODUCT / 4


@pytest.mark.parametrize("shape", [(8192, 4096, 2048), (4000, 64, 64, 64), (1, 1, 1 << 26), (7, 5, 3)])
def test_shrunk_product_keeps_multiples(shape):
    small = planner.shrunk_product(shape)
    assert math.prod(small) <= planner.SMALL_PRODUCT
    assert math.prod(small) >= min(math.prod(shape), planner.SMALL_PRODUCT // 3)
    assert all(s % 16 == 0 for s, n in zip(small, shape, strict=True) if n % 16 == 0)


@pytest.mark.parametrize("shape", [(5,), (1 << 28,), (10**8, 2), (3, 16384, 16384), (2, 3, 10**7)])
def test_shrunk_shape_keeps_proportions(shape):
    small = planner.shrunk(shape)
    assert math.prod(small) <= planner.SMALL
    assert math.prod(small) >= min(math.prod(shape), planner.SMALL // 3)
    assert all(0 < s <= n for s, n in zip(small, shape, strict=True))
    assert small[-1] == 2 or shape[-1] != 2


@pytest.fixture
def graded(run, monkeypatch):
    """A run with a small planner suite, the kernels' times by name, which a test may change, and the timed
    calls."""
    times = {"rowwise": 3e-3}
    timed = []

    def seconds(problem, out, kernel, device):
        problem.call(out=out, kernel=kernel)()
        timed.append((problem.op, math.prod(problem.shape), kernel))
        return times.get(kernel, 1e-3)

    def once(call, device):
        call()
        return times.get(call.keywords["kernel"], 1e-3)

    for name, value in {
        "COUNT": 14,
        "MAX_BYTES": 1 << 14,
        "MAX_PRODUCT": 1 << 15,
        "SMALL": 64,
        "SMALL_PRODUCT": 1 << 13,
        "once": once,
        "measured_time": seconds,
        "kernels": suites.kernels,
    }.items():
        monkeypatch.setattr(planner, name, value)
    return run, times, timed


def taken(row):
    """Whether the rungs take a row's problem."""
    return row.op in ("transpose", "reduce", "prod", "min", "max") and row.axis in (None, len(row.shape) - 1)


def test_policy_is_compared_with_every_kernel(graded):
    run, times, _ = graded
    rows = measure_rows(run, "planner")
    assert len(rows) == 21
    products, rows = [row for row in rows if row.op == "matmul"], [row for row in rows if row.op != "matmul"]
    assert len(products) == 7
    for row in products:
        named = [k for k in suites.kernels("matmul") if row.dtype in k.dtypes]
        assert {"naive", "tiled", "simt"} <= set(row.peers) <= {k.name for k in named}
        assert row.precision != "highest" or all(k.precision == "highest" for k in named if k.name in row.peers)
        assert (row.kernel, row.us, row.unit, row.ratio) == (None, 1000, "TFLOP/s", 1)
    for row in rows:
        op = "transpose" if row.op == "transpose" else "reduce"
        named = {k for k in suites.kernels(op) if k.role != "ceiling" and row.dtype in k.dtypes}
        named = {
            k
            for k in named
            if k.name != "in_place" and (op == "transpose" or k.role == "production" or taken(row))
        }
        assert set(row.peers) == {info.name for info in named}
        assert (row.kernel, row.us, row.cold, row.unit) == (None, 1000, False, "GB/s")
        assert row.ratio == 1
    times["tiled"] = times["padded"] = 0.5e-3
    for row in measure_rows(run, "planner"):
        assert row.ratio == (0.5 if {"tiled", "padded"} & set(row.peers) else 1)


def test_ctrl_c_keeps_what_was_measured(run, monkeypatch):
    def interrupt(*args, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "transfer_row", interrupt)
    rows = run.measure(["reduce", "transfer", "transpose"])
    assert run.interrupted
    assert run.failures == [f"transfer: interrupted, with {len(rows)} rows in all"]
    assert {row.suite for row in rows} == {"reduce"}


def test_slow_rungs_are_screened_out(graded):
    run, times, timed = graded
    times |= {"rowwise": 21e-3, "naive": 19e-3}
    rows = measure_rows(run, "planner")
    assert not any("rowwise" in row.peers for row in rows)
    assert all(row.peers["naive"] == pytest.approx(19_000) for row in rows if row.op == "transpose")
    # a rung that is far behind runs once, untimed
    assert not {"rowwise", "naive"} & {kernel for *_, kernel in timed}


def test_wrong_result_of_the_policy_is_found(graded, monkeypatch):
    run, _, _ = graded
    monkeypatch.setattr(planner, "asnumpy", lambda out: out.numpy() * 0 - 1)
    assert run.measure(["planner"]) == []
    assert len(run.failures) == 21
    assert all("ArithmeticError" in failure for failure in run.failures)


def test_wrong_result_of_a_candidate_is_found(graded, monkeypatch):
    """Kernels that write nothing: what an earlier one wrote does not pass for their result."""
    run, _, _ = graded

    def once(call, device):
        if call.keywords["kernel"] not in ("tree", "naive"):
            call()
        return 1e-3

    monkeypatch.setattr(planner, "once", once)
    rows = run.measure(["planner"])
    assert not any({"tree", "naive"} & set(row.peers) for row in rows)
    assert len(rows) + len(run.failures) == 21
    assert len(run.failures) > 12 and all("ArithmeticError" in failure for failure in run.failures)


def test_policy_summary_and_worst_cases():
    rows = [
        Row("planner", "reduce", f"case {i}", us=100.0, peers={"tree": 100.0 * ratio}, ratio=ratio)
        for i, ratio in enumerate([1.3, 0.88, 0.86, 0.5, 1.0, 0.9, 2.0])
    ]
    text, worst = planner.summary(rows)
    assert text == "5 of 7 within 15% (matmul 10%) of the fastest kernel"
    assert [row.ratio for row in worst] == [0.5, 0.86, 0.88, 0.9, 1.0]
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(report.table("planner", rows))
    shown = console.export_text()
    assert shown.startswith("planner: 5 of 7 within 15% (matmul 10%) of the fastest kernel; the worst ones")
    assert "case 3" in shown and "case 6" not in shown


def test_every_suite_has_a_name():
    with smemkit.Device("cpu"):
        run = suites.Run(smemkit.Device("cpu"), True, Console(stderr=True))
    assert set(run.suites()) == {"call", "executor"} < set(suites.SUITES)


# ---- rows and tables --------------------------------------------------------------------------------------------


def test_a_row_of_a_measurement():
    row = measured(
        Row("reduce", "reduce", "n"),
        Benchmark((1e-3, 2e-3, 3e-3), "device", False, 1, "cuda:0", bytes=10**9),
        {
            "torch": Benchmark((4e-3,), "device", False, 1, "cuda:0"),
            "cupy": Benchmark((6e-3,), "device", False, 1, ""),
        },
        error=0.5,
    )
    assert (row.us, row.unit, row.value, row.ratio, row.error) == pytest.approx((2000, "GB/s", 500, 2, 0.5))
    assert row.peers == pytest.approx({"torch": 4000, "cupy": 6000})
    json.dumps(asdict(row), allow_nan=False)


def full_report():
    """A reference file's content with a row of each kind."""

    def row(suite, op, case, us, value=None, **more):
        row = Row(suite, op, case, us=us, value=value, peers={"torch": 2 * us, "cub": 4 * us}, ratio=2.0, **more)
        return asdict(row)

    rows = [
        row(
            op,
            op,
            "x",
            100.0,
            20.0 if kernel == "conflicting" else 10.0,
            unit="GB/s",
            shape=shape,
            kernel=kernel,
            cold=False,
        )
        for op, shape in (("transpose", [8192, 8192]), ("reduce", [16_777_216]), ("matmul", [4096] * 3))
        for kernel in (None, *(info.name for info in smemkit.kernels(op) if info.needs != "host"))
    ]
    rows += [
        row("reduce", "reduce", "x", 1.0, 99.0, unit="GB/s", shape=[16_777_216], dtype="float64", cold=False),
        row("transfer", "upload", "upload, pageable, 512 MiB", 1e4, 50.0, unit="GB/s"),
        row("transfer", "upload", "upload, pageable, 4 MiB", 1e3, 40.0, unit="GB/s"),
        row("end_to_end", "matmul", "n = 4,096", 5000.0, 27.0, unit="TFLOP/s"),
        row("end_to_end", "reduce", "sum of 512 MiB", 11_000.0, 48.0, unit="GB/s"),
        row("call", "reduce", "the host's share of a call", 2.0),
        row("call", "reduce", "sum, to a Python float", 9.0),
    ]
    return {"environment": {"gpu": "NVIDIA H200", "date": "2026-11-22T01:02:03"}, "rows": rows}


def test_the_readme_has_all_tables():
    text = report.results(full_report())
    for line in (
        "Device time on an NVIDIA H200, float32, warm; 2026-11-22, one run of `python -m smemkit bench`:",
        "| | the ladder, up to its fastest rung | smemkit | PyTorch | CUB | speed-up |",
        "| reduce 16777216, GB/s | `atomic` 10.0 → `divergent` 10.0 → `conflicting` 20.0 "
        "| 10.0 | 5.00 | 2.50 | 2.00 × |",
        "| transpose 8192 × 8192, GB/s | `naive` 10.0; `copy` 10.0 is the ceiling | 10.0 | 5.00 | 2.50 | 2.00 × |",
        "| | smemkit | PyTorch | CUB | speed-up |",
        "| upload, pageable, 512 MiB | 50.0 GB/s | 25.0 GB/s | 12.5 GB/s | 2.00 × |",
        "| matmul n = 4,096 | 5.00 ms | 10.0 ms | 20.0 ms | 2.00 × |",
        "| sum of 512 MiB | 11.0 ms | 22.0 ms | 44.0 ms | 2.00 × |",
        "| a call of sum | 2.00 µs | 4.00 µs | 8.00 µs | 2.00 × |",
        "| a call of sum, to a Python float | 9.00 µs | 18.0 µs | 36.0 µs | 2.00 × |",
    ):
        assert line in text.splitlines()
    assert "4 MiB" not in text
    assert "99" not in text  # rows of another dtype are not used


def test_a_table_without_rows_is_left_out():
    content = full_report()
    content["rows"] = [row for row in content["rows"] if row["suite"] in suites.SIZES]
    text = report.results(content)
    assert "the ladder" in text
    assert "host's clock" not in text
    assert not text.endswith("\n\n")


def test_the_terminal_shows_every_row():
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    rows = [Row(**row) for row in full_report()["rows"] if row["suite"] == "end_to_end"]
    console.print(report.table("end_to_end", rows))
    text = console.export_text()
    assert text.startswith("end to end")
    for word in ("n = 4,096", "27.0 TFLOP/s", "torch 10,000.00", "2.00 x"):
        assert word in text


def test_plot():
    pytest.importorskip("matplotlib")
    rows = [Row("a", "sum", f"n = {n}", us=2.0, ratio=n / 70) for n in range(1, 101)]
    others = [
        Row("a", "sum", "without peers", us=3.0),
        Row("a", "sum", "a rung", us=3.0, kernel="tree", ratio=0.1),
    ]
    figure = figures.plot([*rows, *others], "a GPU")
    assert figure.get_suptitle() == (
        "a GPU: at least as fast as every peer in 31 of 100 rows; 60 of them are shown, the slowest"
    )
    (axes,) = figure.axes
    assert [round(bar.get_width() * 70) for bar in axes.patches] == list(range(1, 61))
    assert axes.get_yticklabels()[0].get_text() == "sum n = 1, float32"
    alone = figures.plot([Row("a", "sum", "n = 1", us=3.0, kernel="tree")], "the CPU device")
    assert alone.get_suptitle() == "the CPU device: no peer to compare with"
    assert [bar.get_width() for bar in alone.axes[0].patches] == [3.0]
    executor = figures.plot([Row("executor", "sum", "n = 1", us=3.0)], "cpu")
    assert executor.get_suptitle() == "cpu: the times of the CPU device, not a GPU's"
    assert figures.plot([], "a GPU")._repr_png_().startswith(b"\x89PNG")


# ---- NVIDIA's libraries -----------------------------------------------------------------------------------------


def test_without_nvcc_the_libraries_are_left_out(monkeypatch):
    monkeypatch.setattr(native, "find_nvcc", lambda: (_ for _ in ()).throw(_core.Error("there is no nvcc here")))
    for name in ("torch", "cupy"):  # they would look for the GPU
        monkeypatch.setitem(sys.modules, name, None)
    messages = []
    found = peers.find_peers(LikeAGpu("cpu"), messages.append)
    assert "numpy" in found and "cublas" not in found
    assert messages[-1] == "without cublas and cub: there is no nvcc here"


def test_an_nvcc_that_fails_is_quoted(monkeypatch, tmp_path):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho 'fatal error: cublas_v2.h: No such file' >&2\nexit 1\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("SMEMKIT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(_core.Error, match=r"nvcc cannot compile native\.cu: fatal error: cublas_v2\.h"):
        native.build((9, 0))
    assert [path.name for path in (tmp_path / "cache").iterdir()] == []


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_cublas_and_cub_compute_what_is_requested(device):
    messages = []
    found = peers.find_peers(smemkit.Device(device), messages.append)
    if "cublas" not in found:
        pytest.skip(str(messages))
    for op, shape, dtype, axis in (
        ("matmul", (33, 20, 40), "float32", None),
        ("matmul", (64, 32, 40), "float16", None),
        ("transpose", (30, 50), "float32", None),
        ("transpose", (30, 50), "float64", None),
        ("reduce", (1000,), "float32", None),
        ("reduce", (1000,), "float64", None),
        ("reduce", (1000,), "int32", None),
        ("reduce", (30, 50), "float32", 1),
        ("transpose", (30, 50), "complex128", None),
        ("reduce", (1000,), "int8", None),
        ("min", (1000,), "float32", None),
        ("max", (1000,), "float32", None),
    ):
        problem = Problem(op, shape, device, dtype, axis)
        outs = [problem.out(), problem.out()]
        calls = [
            peer.on_device(problem, out) for peer, out in zip((found["cublas"], found["cub"]), outs, strict=True)
        ]
        assert sum(call is not None for call in calls) == 1
        for call, out in zip(calls, outs, strict=True):
            if call:
                call(0)
                smemkit.synchronize(device)
                assert math.isfinite(problem.error(out.numpy(), None, peer=True))


def test_experiments_are_recorded(monkeypatch):
    """The suite `hierarchy`: a row per number that an experiment measures; an experiment that fails is listed."""
    experiment = smemkit.lab.carveout("cpu")
    measured = replace(experiment, rows=tuple(row | {"seconds": 2e-6} for row in experiment.rows))

    def fails(device):
        raise ValueError("no such memory")

    monkeypatch.setattr(
        "smemkit.lab.catalogue.EXPERIMENTS", {"carveout": lambda device: measured, "broken": fails}
    )
    run = suites.Run(smemkit.Device("cpu"), True, Console(quiet=True))
    monkeypatch.setattr(run, "suites", lambda: {"hierarchy": run.experiments})
    rows = run.measure(["hierarchy"])
    assert [(row.suite, row.op, row.us, row.unit, row.kernel) for row in rows] == [
        ("hierarchy", "carveout", pytest.approx(2), None, None)
    ] * len(experiment.rows)
    assert (rows[1].case, rows[1].dtype) == ("8, 25", None)
    (failure,) = run.failures
    assert "no such memory" in failure
    assert report.table("hierarchy", rows).title == "hierarchy"
