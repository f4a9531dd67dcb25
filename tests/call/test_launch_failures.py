"""Failed launches of every kernel of the table: the call raises, the exception says whether `out` has been
written, and the next call is right.

A test makes the n-th launch from now fail, or raise a signal (`_core.fail_launch`), for every n up to the call's
number of launches; protects the kernel's memory against access; or sends Ctrl-C while the kernel runs.
"""

import contextlib
import ctypes
import functools
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
from setup_file import ROOT, build
from tiers import DEVICES, times

import smemkit
from smemkit import _core

OPS = [op for op in dict.fromkeys(row.op for row in smemkit.kernels()) if op != "ceiling"]
IN_PART = "out has been written in part"


def each_launched_kernel(devices=DEVICES):
    """Runs a test on each device × kernel of every op, except kernels that are loops on the host."""
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
    """The forms of a call: with host or device operands, with or without `out`."""

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

    def check_out(self, message, form):
        """`out` is unchanged, or the message says that it has been written."""
        if "out" in form:
            out = self.out if "host" in form else self.out.numpy()
            assert is_poison(out) or IN_PART in message


def call_with_failing_launch(call, n, signum):
    """Makes the n-th launch of the call fail: (exception, None); (None, result) if the call has fewer launches."""
    _core.fail_launch(n, signum)
    try:
        result, _ = call()
    except (smemkit.Error, KeyboardInterrupt) as error:
        assert _core.fail_launch(0) == 0
        return error, None
    assert _core.fail_launch(0) > 0
    return None, result


def message_and_notes(error):
    return " ".join([str(error), *getattr(error, "__notes__", ())])


@each_launched_kernel()
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("signum", [0, int(signal.SIGINT)], ids=["refused", "interrupted"])
@pytest.mark.covering(1)
def test_a_failed_launch_is_reported(op, device, kernel, warm, signum):
    gc.collect()  # garbage of the last test
    forms, raised = CallForms(op, device, kernel), KeyboardInterrupt if signum else smemkit.Error
    allocations = _core.allocations()
    for name, call in forms.calls.items():
        for _ in range(3 * warm):
            forms.check(call()[0])
        for n in itertools.count(1):
            error, result = call_with_failing_launch(call, n, signum)
            if error is None:
                break
            assert isinstance(error, raised)
            assert signum or "for a test" in str(error)
            forms.check_out(message_and_notes(error), name)
            forms.check(call()[0])  # the next call works
        assert n > 1, name
        forms.check(result)
        del error, result
    forms.out = None
    assert _core.allocations() == allocations


@pytest.mark.parametrize("signum", [0, int(signal.SIGINT)], ids=["refused", "interrupted"])
def test_a_failed_launch_of_a_call_in_parts_is_reported(device, signum):
    x = np.arange(70 * 60, dtype=np.float32).reshape(70, 60)
    for fn, expected in ((smemkit.sum, x.sum(0)), (smemkit.transpose, x.T)):
        keywords = {"axis": 0} if fn is smemkit.sum else {}
        reported = set()

        def call(fn=fn, expected=expected, keywords=keywords):
            nonlocal out
            out = poison(expected.shape, np.float32)
            with parts_of(2000):
                return fn(x, out=out, device=device, **keywords), out

        out = None
        for n in itertools.count(1):
            error, result = call_with_failing_launch(call, n, signum)
            if error is None:
                break
            reported.add(IN_PART in message_and_notes(error))
            assert IN_PART in message_and_notes(error) or is_poison(out)
        assert n > 1
        assert False in reported
        assert_array_equal(result, expected)


# ---- illegal accesses -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def unreadable(array):
    """Protects the whole pages in the second half of the array's memory against access."""
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


@each_launched_kernel(devices=("cpu",))  # an illegal access destroys a GPU's context: test_failure.py tests one
@pytest.mark.parametrize("with_out", [False, True], ids=["new", "out"])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.covering(1)
def test_an_illegal_access_is_reported(op, device, kernel, warm, with_out):
    n = 20_000
    shape = (n,) if op == "reverse" else (200, 100)
    x = on("cpu", np.ones(shape, np.float32))
    operands = {"matmul": (x, x.T), "elementwise": (x, x)}.get(op, (x,))
    keywords = {"axis": 0} if op == "reduce" and kernel.row.name in ("columns", "small_columns") else {}
    expected = kernel(*operands, **keywords).numpy()
    poisoned = poison(expected.shape, expected.dtype)
    if with_out and op != "reverse":  # which takes none
        keywords["out"] = on("cpu", poisoned)
    for _ in range(2 * warm):
        kernel(*operands, **keywords)
    if with_out and "out" in keywords:
        keywords["out"][...] = poisoned
    with unreadable(np.asarray(x)), pytest.raises(smemkit.Error, match="illegal access") as caught:
        kernel(*operands, **keywords)
    if "out" in keywords and keywords["out"].numpy().tobytes() != poisoned.tobytes():
        assert IN_PART in message_and_notes(caught.value)
    assert_array_equal(kernel(*operands, **keywords).numpy(), expected)


# ---- Ctrl-C during a kernel -------------------------------------------------------------------------------------

CTRL_C = """
import signal, sys
import numpy as np
import smemkit

kernel, warm, host = sys.argv[1] if sys.argv[1] != "None" else None, sys.argv[2] == "warm", sys.argv[3] == "host"
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores SIGINT
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
    while True:  # until the signal arrives during a kernel
        out[...] = np.nan
        smemkit.matmul(x, x, kernel=kernel, out=out, device="cpu" if host else None)
except KeyboardInterrupt as error:
    message = " ".join([str(error), *getattr(error, "__notes__", ())])
    done = ~np.isnan(out if host else out.numpy())
    print("interrupted", done.mean(), "partial" if "out has been written in part" in message else "", flush=True)
    assert not done.any() or "out has been written in part" in message or done.all()
assert smemkit.matmul(np.ones((3, 4)), np.ones((4, 3)), device="cpu").sum() == 36
print("goes on", flush=True)
"""


@pytest.mark.parametrize("host", ["host", "array"])
@pytest.mark.parametrize("warm", ["cold", "warm"])
@pytest.mark.parametrize("kernel", ["naive", "tiled", "None"])
@pytest.mark.covering(1, most=2)
def test_ctrl_c_during_matmul(kernel, warm, host):
    command = [sys.executable, "-c", CTRL_C, kernel, warm, host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tempfile.gettempdir()) as process:
        try:
            assert process.stdout.readline() == "begins\n"
            time.sleep(times(0.3, 0.1))
            process.send_signal(signal.SIGINT)
            start = time.perf_counter()
            assert re.fullmatch(r"interrupted \S+ (partial)?\n", process.stdout.readline())
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
    """The watchdog does not end blocks of smemkit's own kernels that take longer than its limit."""
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "0.001")
    n = {"naive": 300_000, "tiled": 60_000}.get(keywords.get("kernel"), 300_000 if op == "matmul" else 3_000_000)
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


@functools.cache
def cpu_compiler():
    """What makes C++ of a kernel's source, and the command that compiles it."""
    dialect, flags = build.load_cuda_source()
    compiler = build.words("CXX", "c++")
    semantics = flags.compile_flags(lambda flag: build.accepts(compiler, flag))
    return dialect, [*compiler, *semantics, *build.OUR_KERNELS, "-fsyntax-only"]


def compile_launcher(tmp_path, body, *, nvcc):
    """Compiles a launcher with this body: the compiler's exit status and its messages."""
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
        dialect, command = cpu_compiler()
        source.write_text(dialect.rewrite(text, "launcher.cu"))
        command = [*command, source]
        command += [f"-I{ROOT}/{folder}" for folder in ("csrc/executor/include", "csrc", "kernels")]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stderr


COMPILERS = [
    pytest.param(False, id="cpu"),
    pytest.param(True, id="nvcc", marks=pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")),
]


@pytest.mark.parametrize("nvcc", COMPILERS)
@pytest.mark.covering(most=1)
def test_launcher_that_returns_errors_compiles(tmp_path, nvcc):
    assert compile_launcher(tmp_path, ERROR_RETURNED, nvcc=nvcc)[0] == 0


@pytest.mark.parametrize("nvcc", COMPILERS)
@pytest.mark.parametrize("what", ERROR_DROPPED)
@pytest.mark.covering(1, most=3)
def test_a_launcher_that_drops_the_error_does_not_compile(tmp_path, what, nvcc):
    status, messages = compile_launcher(tmp_path, ERROR_DROPPED[what], nvcc=nvcc)
    assert status != 0
    assert re.search(r"unused-result|nodiscard|a failed launch must be reported", messages)
