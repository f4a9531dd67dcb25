"""What the tests run: every kernel of the table on each device that supports it, and operands for it.

`each_kernel` and `each_variant` take their kernels only from `smemkit.kernels()`, so that a new row of the
table is tested without a new test.
"""

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes  # noqa: F401  makes "bfloat16" a name of a dtype
import numpy as np
import pytest
from calls import NEEDS, TF32_KERNELS
from tiers import DEVICES

import smemkit
from smemkit import _core

ROOT = Path(__file__).resolve().parents[1]
DTYPES = tuple(next(row.dtypes for row in smemkit.kernels("matmul")))  # all dtypes
DTYPE = "expected dtype " + ", ".join(DTYPES[:-1]) + f" or {DTYPES[-1]}, got "  # the start of error messages
TWO_DTYPES = ("float32", "int32")  # for tests that do not depend on the dtype
POISON = {"f": np.nan, "V": np.nan, "c": np.nan, "i": -91, "u": 165, "b": True}  # values that no test computes


@dataclass(frozen=True)
class Kernel:
    """A kernel as a test calls it: a row of the table, the operands' dtype and options. `default`: without
    kernel=."""

    row: smemkit.KernelInfo
    dtype: str
    options: tuple = ()
    default: bool = False

    def __call__(self, *operands, **keywords):
        if self.row.op == "elementwise":  # Array's operators, which are not functions of smemkit
            options = (keywords.get(name) for name in ("out", "device", "stream"))
            return _core.elementwise("add", *operands, *options)
        if self.row.op not in ("add_one", "convert"):  # these have one kernel and no kernel=
            keywords["kernel"] = None if self.default else self.row.name
        return getattr(smemkit, self.row.op)(*operands, **dict(self.options), **keywords)

    def __str__(self):
        options = [f"{name}{value}" for name, value in self.options]
        return "-".join(["default" if self.default else self.row.name, self.dtype, *options])

    @property
    def precision(self):
        """In which it multiplies float32."""
        return "high" if self.row.name in TF32_KERNELS and not self.default else "highest"

    def is_available_on(self, device):
        """Whether this build has the kernel for the device, and the device has what the kernel needs."""
        if device == "cpu":
            return "cpu" in self.row.devices
        return "cuda" in self.row.devices and NEEDS[self.row.needs](smemkit.Device(device).capability)


def _parametrise(kernels, devices):
    cases = [
        pytest.param(device, kernel, marks=DEVICES[device], id=f"{device}-{kernel}")
        for device in devices
        for kernel in kernels
        if device in DEVICES and kernel.is_available_on(device)
    ]
    return pytest.mark.parametrize(("device", "kernel"), cases, indirect=True)


def each_kernel(op, *, dtypes=TWO_DTYPES, devices=DEVICES):
    """Runs a test on each device × kernel × dtype of `op`, and with kernel=None. Without `in_place`, which has
    tests of its own."""
    rows = [row for row in smemkit.kernels(op) if row.name != "in_place"]
    rows = [(row, dtype) for row in rows for dtype in dtypes if dtype in row.dtypes]
    default = [Kernel(row, dtype, default=True) for row, dtype in rows if row.default]
    return _parametrise([*default, *(Kernel(row, dtype) for row, dtype in rows)], devices)


def each_variant(op, *, dtypes=TWO_DTYPES):
    """Runs a test on each device × kernel × dtype × tile, block size and pad of `op`."""
    rows = [(row, dtype) for row in smemkit.kernels(op) for dtype in dtypes if dtype in row.dtypes]
    variants = [(row, dtype, tuple(o.items())) for row, dtype in rows for o in row.variants if o]
    return _parametrise([Kernel(*variant) for variant in variants], DEVICES)


def rung_refuses(kernel, op, axis, ndim):
    """Whether a kernel of reduce is a rung that does not compute `op`, or not along `axis`: rungs take sum, prod,
    min and max over the whole array or its last axes."""
    if kernel.default or kernel.row.role != "rung":
        return False
    axes = range(ndim) if axis is None else sorted(a % ndim for a in np.atleast_1d(np.array(axis, int)))
    return op not in ("sum", "prod", "min", "max") or list(axes) != list(range(ndim - len(axes), ndim))


@contextlib.contextmanager
def refusal(kernel, op, axis=None, ndim=1):
    """Expects ValueError from a rung that refuses this; runs the block for all other kernels."""
    if rung_refuses(kernel, op, axis, ndim):
        with pytest.raises(ValueError, match=f"kernel: '{kernel.row.name}' .* expected kernel=None for"):
            yield
    else:
        yield


def on(device, x):
    """`x` as an Array on the device."""
    return smemkit.asarray(x, device=device)


def poison(shape, dtype):
    """A NumPy array filled with a value that no test computes."""
    return np.full(shape, POISON[np.dtype(dtype).kind], dtype)


def is_poison(x):
    """Whether `x` is still poisoned everywhere."""
    return np.array_equal(x, poison(np.shape(x), x.dtype), equal_nan=True)


def integers(shape, dtype, seed=0):
    """Small integers: sums of a few of them or of their products are exact in any dtype that holds them."""
    low, high = (0, 2) if np.dtype(dtype).kind == "b" else (-9, 10)
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def integers_for(name, shape, dtype, seed=0):
    """`integers` that a kernel of matmul multiplies as it is meant to: for `wgmma_residues`, which sums in float64
    where rows or columns have zeros or a wide range, 12 to 15 with a sign."""
    x = integers(shape, dtype, seed)
    return np.where(x < 0, x % 4 - 15, x % 4 + 12).astype(dtype) if name == "wgmma_residues" else x


def tf32(x):
    """The 11 leading bits of numbers of float32."""
    return (x.view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32)


def numbered(shape, dtype):
    """1, 2, 3, …: each element identifies its position."""
    return np.arange(1, np.prod(shape, dtype=int) + 1).reshape(shape).astype(dtype)


@contextlib.contextmanager
def expect_launches(count):
    """Fails unless the block launches `count` kernels."""
    before = smemkit.launches()
    yield
    assert smemkit.launches() - before == count


@contextlib.contextmanager
def parts_of(n):
    """Divides the calls in the block into parts of about n bytes."""
    before = _core.set_part_bytes(n)
    try:
        yield
    finally:
        _core.set_part_bytes(before)


def in_threads(count, work):
    """Calls work(i) in `count` threads at once, and raises the first exception of any of them."""
    start, failures = threading.Barrier(count), []

    def run(i):
        start.wait()
        try:
            work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@functools.cache
def small_problem(op, dtype):
    """Operands of `op`, and NumPy's result."""
    x, y = numbered((5, 7), dtype), integers((7, 3), dtype)
    return {
        "matmul": lambda: ((x, y), x @ y),
        "reduce": lambda: ((x,), x.sum(dtype=np.float32).astype(dtype) if dtype == "bfloat16" else x.sum()),
        "transpose": lambda: ((x,), x.T.copy()),
        "reverse": lambda: ((x.ravel(),), x.ravel()[::-1].copy()),
        "add_one": lambda: ((x,), x + x.dtype.type(1)),
        "elementwise": lambda: ((x, x[:, ::-1].copy()), x + x[:, ::-1]),
        "convert": lambda: ((x,), x),
    }[op]()


def run_python(*arguments, timeout=60, **environment):
    """Runs a new Python process with the smemkit under test. SMEMKIT_DEVICE is set only if it is given. The
    process starts outside the source tree because smemkit/ there need not be built."""
    inherited = {name: value for name, value in os.environ.items() if name != "SMEMKIT_DEVICE"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tempfile.gettempdir(),
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
