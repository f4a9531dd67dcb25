"""A launch that fails is told, by every kernel of the table: no result without it, no `out` that has changed in
silence, and the next call is right.

A test makes the n-th launch from now fail, or a signal come with it (`_core.fail_launch`), for every n that there
is; takes the memory away from under the kernel; or sends Ctrl-C while it runs.
"""

import contextlib
import ctypes
import gc
import itertools
import mmap
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest
from cases import each_kernel, is_poison, on, parts_of, poison, small_problem
from numpy.testing import assert_array_equal
from test_build import ROOT, build
from tiers import DEVICES

import smemkit
from smemkit import _core

OPS = [op for op in dict.fromkeys(row.op for row in smemkit.kernels()) if op != "ceiling"]
IN_PART = "out has been written in part"


def each_row(devices=DEVICES):
    """Runs a test on each device × kernel of every operation that is launched; not on loops on the host."""
    marks = [(op, each_kernel(op, dtypes=("float32",), devices=devices).mark) for op in OPS]
    cases = [
        pytest.param(op, *case.values, marks=case.marks, id=f"{op}-{case.id}")
        for op, mark in marks
        for case in mark.args[1]
        if case.values[1].row.needs != "host"
    ]
    return pytest.mark.parametrize(("op", "device", "kernel"), cases, indirect=["device", "kernel"])


@pytest.fixture(autouse=True)
def reset_failing_launch():
    yield
    _core.fail_launch(0)


class CallForms:
    """The ways in which a kernel is called: with operands of the host or of the device, with `out` or without."""

    def __init__(self, op, device, kernel):
        self.kernel, self.device = kernel, device
        self.host, self.expected = small_problem(op, "float32")
        self.arrays = [on(device, x) for x in self.host]
        self.has_out = op not in ("reverse",)
        if kernel.row.role == "ceiling":
            self.expected = self.host[0]
        self.calls = {"host": self.on_host, "array": self.on_array}
        if self.has_out:
            self.calls |= {"host out": self.host_out, "array out": self.array_out}
        if op == "add":  # the + of Array takes no arrays of the host
            self.calls = {name: call for name, call in self.calls.items() if "array" in name}

    def on_host(self):
        return self.kernel(*self.host, device=self.device), None

    def on_array(self):
        return self.kernel(*self.arrays), None

    def host_out(self):
        self.out = poison(np.shape(self.expected), np.float32)
        return self.kernel(*self.host, out=self.out, device=self.device), self.out

    def array_out(self):
        self.out = on(self.arrays[0].device, poison(np.shape(self.expected), np.float32))
        return self.kernel(*self.arrays, out=self.out), self.out

    def check(self, result):
        assert_array_equal(np.asarray(result.numpy() if hasattr(result, "numpy") else result), self.expected)

    def check_out(self, told, where):
        """`out` is untouched, or the exception says that it is not."""
        if "out" in where:
            out = self.out if "host" in where else self.out.numpy()
            assert is_poison(out) or IN_PART in told


def fails(call, n, by):
    """What the call raises whose n-th launch fails; None where it has fewer."""
    _core.fail_launch(n, by)
    try:
        result, _ = call()
    except (smemkit.Error, KeyboardInterrupt) as error:
        assert _core.fail_launch(0) == 0
        return error, None
    assert _core.fail_launch(0) > 0
    return None, result


def words(error):
    return " ".join([str(error), *getattr(error, "__notes__", ())])


@each_row()
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("by", [0, int(signal.SIGINT)], ids=["refused", "interrupted"])
def test_a_launch_that_fails_is_told(op, device, kernel, warm, by):
    gc.collect()  # what the last test has left
    forms, raised = CallForms(op, device, kernel), KeyboardInterrupt if by else smemkit.Error
    living = _core.allocations()
    for name, call in forms.calls.items():
        for _ in range(3 * warm):
            forms.check(call()[0])
        for n in itertools.count(1):
            error, result = fails(call, n, by)
            if error is None:
                break
            assert isinstance(error, raised)
            assert by or "as a test wants it" in str(error)
            forms.check_out(words(error), name)
            forms.check(call()[0])  # the next call works
        assert n > 1, name
        forms.check(result)
        del error, result
    forms.out = None
    assert _core.allocations() == living


@pytest.mark.parametrize("by", [0, int(signal.SIGINT)], ids=["refused", "interrupted"])
def test_a_launch_that_fails_in_a_call_in_parts_is_told(device, by):
    x = np.arange(70 * 60, dtype=np.float32).reshape(70, 60)
    for fn, expected in ((smemkit.sum, x.sum(0)), (smemkit.transpose, x.T)):
        keywords = {"axis": 0} if fn is smemkit.sum else {}
        told = set()

        def call(fn=fn, expected=expected, keywords=keywords):
            nonlocal out
            out = poison(expected.shape, np.float32)
            with parts_of(2000):
                return fn(x, out=out, device=device, **keywords), out

        out = None
        for n in itertools.count(1):
            error, result = fails(call, n, by)
            if error is None:
                break
            told.add(IN_PART in words(error))
            assert IN_PART in words(error) or is_poison(out)
        assert n > 1
        assert False in told
        assert_array_equal(result, expected)


# ---- illegal accesses -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def unreadable(array):
    """The second half of the Array's memory, but for what is left of its last page, may not be touched."""
    start, stop = array.ctypes.data + array.nbytes // 2, array.ctypes.data + array.nbytes
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (stop - first) // mmap.PAGESIZE * mmap.PAGESIZE
    protect, whole = ctypes.CDLL(None).mprotect, (ctypes.c_void_p(first), ctypes.c_size_t(length))
    assert length > 0
    assert protect(*whole, 0) == 0
    try:
        yield
    finally:
        assert protect(*whole, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@each_row(devices=("cpu",))  # an illegal access costs a GPU's context: test_failure.py has one
@pytest.mark.parametrize("own_out", [False, True], ids=["new", "out"])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.covering(1)
def test_an_illegal_access_is_told(op, device, kernel, warm, own_out):
    n = 20_000
    shape = (n,) if op == "reverse" else (200, 100)
    x = on("cpu", np.ones(shape, np.float32))
    operands = {"matmul": lambda: (x, x.T), "add": lambda: (x, x), "compare": lambda: (x, x)}.get(
        op, lambda: (x,)
    )()
    keywords = {"axis": 0} if op == "reduce" and kernel.row.name in ("columns", "small_columns") else {}
    expected = kernel(*operands, **keywords).numpy()
    empty = poison(expected.shape, expected.dtype)
    if own_out and op not in ("add", "compare", "reverse"):  # which take none
        keywords["out"] = on("cpu", empty)
    for _ in range(2 * warm):
        kernel(*operands, **keywords)
    if own_out and "out" in keywords:
        keywords["out"][...] = empty
    with unreadable(np.asarray(x)), pytest.raises(smemkit.Error, match="illegal access") as caught:
        kernel(*operands, **keywords)
    if "out" in keywords and keywords["out"].numpy().tobytes() != empty.tobytes():
        assert IN_PART in words(caught.value)
    assert_array_equal(kernel(*operands, **keywords).numpy(), expected)


# ---- Ctrl-C in the middle of a kernel ---------------------------------------------------------------------------

CTRL_C = """
import signal, sys
import numpy as np
import smemkit

kernel, warm, host = sys.argv[1] if sys.argv[1] != "None" else None, sys.argv[2] == "warm", sys.argv[3] == "host"
signal.signal(signal.SIGINT, signal.default_int_handler)  # the background job of a shell ignores it
n = 900
x = np.ones((n, n), np.float32)
out = np.full_like(x, np.nan)
if not host:
    x, out = smemkit.asarray(x, device="cpu"), smemkit.asarray(out, device="cpu")
if warm:
    small = smemkit.asarray(np.ones((8, 8), np.float32), device="cpu")
    for _ in range(3):
        smemkit.matmul(small, small, kernel=kernel, out=smemkit.empty((8, 8), np.float32, device="cpu"))
print("begins", flush=True)
try:
    while True:  # until it comes while a kernel runs
        out[...] = np.nan
        smemkit.matmul(x, x, kernel=kernel, out=out, device="cpu" if host else None)
except KeyboardInterrupt as error:
    told = " ".join([str(error), *getattr(error, "__notes__", ())])
    done = ~np.isnan(out if host else out.numpy())
    print("interrupted", done.mean(), "told" if "out has been written in part" in told else "", flush=True)
    assert not done.any() or "out has been written in part" in told or done.all()
assert smemkit.matmul(np.ones((3, 4)), np.ones((4, 3)), device="cpu").sum() == 36
print("goes on", flush=True)
"""


@pytest.mark.parametrize("host", ["host", "array"])
@pytest.mark.parametrize("warm", ["cold", "warm"])
@pytest.mark.parametrize("kernel", ["naive", "tiled", "None"])
@pytest.mark.covering(1)
def test_ctrl_c_in_the_middle_of_a_product(kernel, warm, host):
    command = [sys.executable, "-c", CTRL_C, kernel, warm, host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tempfile.gettempdir()) as process:
        try:
            assert process.stdout.readline() == "begins\n"
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            start = time.perf_counter()
            assert re.fullmatch(r"interrupted \S+ (told)?\n", process.stdout.readline())
            assert time.perf_counter() - start < 2
            assert process.stdout.readline() == "goes on\n"
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


# ---- the watchdog -----------------------------------------------------------------------------------------------

SLOW = [
    ("matmul", {"kernel": "naive"}),
    ("matmul", {"kernel": "tiled"}),
    ("matmul", {}),
    ("sum", {"kernel": "rowwise"}),
    ("transpose", {}),
]


@pytest.mark.parametrize(("op", "keywords"), SLOW, ids=str)
def test_watchdog_does_not_end_package_kernels(op, keywords, monkeypatch):
    """Blocks that take longer than the watchdog allows are slow, and right."""
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "0.001")
    n = 300_000 if op == "matmul" else 3_000_000
    x = np.ones(n if op != "transpose" else (3, n // 3), np.float32)
    operands = (x, x) if op == "matmul" else (x,)
    assert np.sum(getattr(smemkit, op)(*operands, **keywords, device="cpu")) == n


# ---- a launcher that drops an error does not compile ------------------------------------------------------------

ERROR_DROPPED = {
    "of a launch": "launch<nothing>(dim3(1), dim3(1), 0, stream);",
    "of a grid of launches": "cover(1, 1, 1, 32, [&](dim3 grid, int64_t, corner) { return launch<nothing>(grid, dim3(1), 0, stream); });",  # noqa: E501
    "of a launch in a grid": "if (cudaError_t error = cover(1, 1, 1, 32, [&](dim3 grid, int64_t, corner) { launch<nothing>(grid, dim3(1), 0, stream); })) return error;",  # noqa: E501
    "of a kernel in a grid": "if (cudaError_t error = cover(1, 1, 1, 32, [&](dim3 grid, int64_t, corner) { nothing<<<grid, 1>>>(); })) return error;",  # noqa: E501
    "of a dispatch": "dispatch_size(4, [&](auto) { return launch<nothing>(dim3(1), dim3(1), 0, stream); });",
}
ERROR_RETURNED = "if (cudaError_t error = launch<nothing>(dim3(1), dim3(1), 0, stream)) return error;"


def compile_launcher(tmp_path, body, *, nvcc):
    """The compiler's exit status and what it says of a launcher with this body."""
    text = f"""
#include <cuda_runtime.h>
#include "common/dispatch.cuh"
#include "common/grid.cuh"
#include "common/launch.cuh"
__global__ void nothing() {{}}
cudaError_t launcher(cudaStream_t stream)
{{
    {body}
    return cudaSuccess;
}}
"""
    if nvcc:
        source = tmp_path / "launcher.cu"
        source.write_text(text)
        command = ["nvcc", "-std=c++17", *build.NVCC_UNUSED_RESULT, "-arch=sm_80", "-cuda", source]
        command += [f"-I{ROOT}/kernels", "-o", tmp_path / "launcher.ii"]
    else:
        source = tmp_path / "launcher.cpp"
        dialect = build.load_dialect()
        source.write_text(dialect.rewrite(text, "launcher.cu"))
        compiler = build.words("CXX", "c++")
        flags = dialect.compile_flags(lambda flag: build.accepts(compiler, flag))
        command = [*compiler, *flags, *build.OUR_KERNELS, "-fsyntax-only", source]
        command += [f"-I{ROOT}/{folder}" for folder in ("csrc/executor/include", "csrc", "kernels")]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stderr


COMPILERS = [
    pytest.param(False, id="cpu"),
    pytest.param(True, id="nvcc", marks=pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")),
]


@pytest.mark.parametrize("nvcc", COMPILERS)
def test_launcher_that_returns_errors_compiles(tmp_path, nvcc):
    assert compile_launcher(tmp_path, ERROR_RETURNED, nvcc=nvcc)[0] == 0


@pytest.mark.parametrize("nvcc", COMPILERS)
@pytest.mark.parametrize("what", ERROR_DROPPED)
@pytest.mark.covering(1)
def test_a_launcher_that_drops_the_error_does_not_compile(tmp_path, what, nvcc):
    code, said = compile_launcher(tmp_path, ERROR_DROPPED[what], nvcc=nvcc)
    assert code != 0
    assert re.search(r"unused-result|nodiscard|a failed launch must be reported", said)
