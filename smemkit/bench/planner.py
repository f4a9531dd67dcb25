"""The suite `planner`: on random problems, the policy's choice compared with every kernel that takes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from smemkit import _core
from smemkit.arrays import asnumpy
from smemkit.bench.rows import Problem, Row
from smemkit.devices import Device
from smemkit.measure.benchmarks import measure
from smemkit.table.kernel_table import KernelInfo, kernels
from smemkit.table.planning import plan

COUNT, QUICK_COUNT = 160, 20  # reductions and transposes, and half as many products: all suites take ten minutes
MIN_BYTES, MAX_BYTES = 1 << 10, 1 << 28  # bytes of x, or of all three matrices
WITHIN = {"transpose": 1.15, "reduce": 1.15, "matmul": 1.10}  # times the fastest kernel's: a good choice
SMALL = 1 << 16  # elements of the small problem on which much slower kernels are found,
SMALL_PRODUCT = 1 << 24  # or its m * n * k
MAX_PRODUCT = 1 << 36  # m * n * k of all matrices of a batch
HOPELESS = 20  # times the fastest kernel's time there
FAR = 4  # times the time of the policy's choice: such a kernel is measured only once,
ONCE = 2e-5  # if it also takes more seconds than this, so that the start of a graph adds little
SECONDS = 0.01  # for each kernel

REDUCTIONS = ("reduce", "reduce", "reduce", "min", "max", "argmax", "var")  # "reduce" is a sum
DTYPES = {
    "reduce": ("int8", "int32", "int64", "float16", "float32", "float32", "float64"),
    "transpose": ("uint8", "float16", "float32", "float64", "complex128"),
}
PRODUCTS = (  # dtype and precision of a matmul
    *[("float32", "highest")] * 5,
    *[("float32", "high")] * 3,
    *[("float16", None)] * 3,
    *[("float64", None)] * 2,
    *((dtype, None) for dtype in ("int8", "int16", "int32", "int64", "complex64")),
)


def random_problems(count: int, most: int, seed: int = 0) -> Iterator[Row]:
    """Rows to be filled in, reproducible: reductions and transposes alternately, with sizes of every magnitude."""
    rng = np.random.default_rng(seed)
    for index in range(count):
        op = "transpose" if index % 2 else str(rng.choice(REDUCTIONS))
        dtype = str(rng.choice(DTYPES["transpose" if index % 2 else "reduce"]))
        shape = random_shape(rng, int(rng.integers(2 if index % 2 else 1, 5)), np.dtype(dtype).itemsize, most)
        words, axis, axes = [" x ".join(map(str, shape)), dtype], None, None
        if op == "transpose":
            while axes is None or axes == sorted(axes):  # the identity
                axes = rng.permutation(len(shape)).tolist()
            words.append(f"axes {' '.join(map(str, axes))}")
        elif len(shape) > 1 and rng.random() < 0.8:
            axis = int(rng.integers(len(shape)))
            words.append(f"axis {axis}")
        if op == "var" and ("int" in dtype or (shape[axis] if axis is not None else math.prod(shape)) == 1):
            op = "max"  # the variance would be 0, or not a float
        text = ", ".join(words)
        yield Row("planner", op, text, dtype=dtype, shape=list(shape), axis=axis, axes=axes, cold=False)


def random_products(count: int, most: int, seed: int = 0) -> Iterator[Row]:
    """Rows to be filled in, reproducible: products of matrices of every shape. Of seven, one has few rows or
    columns, one is a batch, half of the time of square matrices, and one of square matrices."""
    rng = np.random.default_rng([seed, 1])
    for _ in range(count):
        dtype, precision = PRODUCTS[rng.integers(len(PRODUCTS))]
        itemsize = np.dtype(dtype).itemsize
        while True:
            kind = rng.choice(("thin", "batch", "square", "plain", "plain", "plain", "plain"))
            shape = [product_length(rng, 9 if kind == "batch" else 13) for _ in range(3)]
            if kind == "thin":
                shape[rng.integers(2)] = int(rng.integers(1, 17))
            elif kind == "batch":
                shape = [int(2 ** rng.uniform(1, 12)), *(shape if rng.random() < 0.5 else shape[:1] * 3)]
            elif kind == "square":
                shape = [round(2 ** rng.uniform(4, 8.5)) * 16] * 3
            *batch, m, n, k = shape
            batches = math.prod(batch)
            if batches * m * n * k <= MAX_PRODUCT and batches * itemsize * (m * k + k * n + m * n) <= most:
                break
        words = [" x ".join(map(str, shape)), dtype, *([f"precision {precision}"] if precision == "high" else [])]
        yield Row("planner", "matmul", ", ".join(words), dtype=dtype, shape=shape, precision=precision, cold=False)


def product_length(rng: np.random.Generator, magnitude: int) -> int:
    """A length of up to 2**magnitude: a power of two, a multiple of 16, or any."""
    length = 2 ** rng.uniform(4, magnitude)
    how = rng.random()
    if how < 0.2:
        return 2 ** round(math.log2(length))
    return max(1, round(length / 16)) * 16 if how < 0.7 else int(length)


def random_shape(rng: np.random.Generator, ndim: int, itemsize: int, most: int) -> tuple[int, ...]:
    """Lengths of every magnitude, some of them powers of two."""
    elements = 2 ** rng.uniform(math.log2(MIN_BYTES), math.log2(most)) / itemsize
    shares = rng.dirichlet([1.0] * ndim) * math.log2(max(2.0, elements))
    lengths = [round(share) if rng.random() < 0.3 else share for share in shares]
    shape = [max(1, int(2**length)) for length in lengths]
    while math.prod(shape) * itemsize > most:
        shape[int(np.argmax(shape))] //= 2
    return tuple(shape)


def cases(device: Device, quick: bool) -> Iterator[tuple[str, Callable[[], Row]]]:
    """The cases of the suite: for each problem, a label and a function that measures the row."""
    count = QUICK_COUNT if quick else COUNT
    for row in chain(random_problems(count, MAX_BYTES), random_products(count // 2, MAX_BYTES)):
        yield f"planner {row.op} {row.case}", partial(grade, row, device)


def grade(row: Row, device: Device) -> Row:
    """The time of the policy's choice, and as `peers` the times of all kernels; every result is checked."""
    problem = problem_of(row, tuple(row.shape), device)
    out = problem.out()
    ours = measured_time(problem, out, None, device)
    error = problem.error(asnumpy(out), None)
    _core.synchronize(device.name)
    measured_seconds = {}
    for info in hopeful(row, device):
        named, out = for_kernel(problem, info), problem.out()
        seconds = once(named.call(out=out, kernel=info.name), device)
        named.error(asnumpy(out), info.name)
        if seconds <= max(FAR * ours, ONCE):
            seconds = measured_time(named, out, info.name, device)
        measured_seconds[info.name] = seconds
    chosen = chosen_kernel(problem.call(out=out))
    if chosen:  # its own measurement is one more of the same kernel
        measured_seconds[chosen] = min(ours, measured_seconds.get(chosen, ours))
    times = {name: 1e6 * seconds for name, seconds in measured_seconds.items()}
    ratio = min(times.values()) / (1e6 * ours) if times else None
    of_products = row.op == "matmul"
    value = problem.work["flops" if of_products else "bytes"] / ours / (1e12 if of_products else 1e9)
    unit = "TFLOP/s" if of_products else "GB/s"
    return replace(row, us=1e6 * ours, unit=unit, value=value, peers=times, ratio=ratio, error=error)


def may_be_chosen(op: str, shape: Sequence[int], kernel: str) -> bool:
    """Whether the sums along k are long enough for a kernel of matmul: shorter ones would be less accurate than
    promised, and its time is no measure of the choice."""
    return op != "matmul" or shape[-1] >= _core.least_k_of_matmul(kernel)


def problem_of(row: Row, shape: tuple[int, ...], device: Device) -> Problem:
    """The row's problem, with operands of this shape."""
    precision = None if row.precision == "highest" else row.precision
    return Problem(row.op, shape, device.name, row.dtype, row.axis, row.axes and tuple(row.axes), precision)


def chosen_kernel(call: partial[Any]) -> str | None:
    """The kernel that a call with kernel=None takes; None if it takes several launches."""
    names = plan(call.func, *call.args, **call.keywords).kernels
    return names[0] if len(names) == 1 else None


def for_kernel(problem: Problem, info: KernelInfo) -> Problem:
    """The problem as a kernel takes it by name: one that multiplies in float32 refuses another precision."""
    if problem.precision is None or info.precision != "highest":
        return problem
    at_highest = copy(problem)
    at_highest.precision = None
    return at_highest


def hopeful(row: Row, device: Device) -> list[KernelInfo]:
    """The kernels that take the problem at its precision, without those that may not be chosen for it, and without
    those that would take seconds, such as a serial loop. A small problem of the same kind shows which these are.
    """
    op = row.op if row.op in ("transpose", "matmul") else "reduce"
    candidates = [
        info for info in kernels(op) if info.role != "ceiling" and may_be_chosen(row.op, row.shape, info.name)
    ]
    if row.precision == "highest":
        candidates = [info for info in candidates if info.precision == "highest"]
    small = shrunk_product if op == "matmul" else shrunk
    problem = problem_of(row, small(tuple(row.shape)), device)
    out, times = problem.out(), {}
    for info in candidates:
        if "cuda" in info.devices and row.dtype in info.dtypes:
            call = for_kernel(problem, info).call(out=out, kernel=info.name)
            try:
                times[info] = min(once(call, device) for _ in range(3))
            except (ValueError, TypeError, NotImplementedError):  # the kernel does not take this problem
                continue
    return [info for info, seconds in times.items() if seconds <= HOPELESS * min(times.values())]


def shrunk(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, with its longest length halved repeatedly until there are few elements."""
    lengths = list(shape)
    while math.prod(lengths) > SMALL:
        longest = int(np.argmax(lengths))
        lengths[longest] = -(-lengths[longest] // 2)
    return tuple(lengths)


def shrunk_product(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape (…, m, n, k) of a product, with its longest length halved repeatedly until there are few
    multiplications. Multiples of 16 stay so: some kernels take no others."""
    lengths = list(shape)
    while math.prod(lengths) > SMALL_PRODUCT:
        longest = int(np.argmax(lengths))
        half = -(-lengths[longest] // 2)
        lengths[longest] = -(-half // 16) * 16 if lengths[longest] % 16 == 0 else half
    return tuple(lengths)


def once(call: Callable[..., Any], device: Device) -> float:
    """Seconds of one call, captured in a graph that is replayed once."""
    return _core.Graph(lambda stream: call(stream=stream), device.name, 1, 0, 0).replay()


def measured_time(problem: Problem, out: Any, kernel: str | None, device: Device) -> float:
    """The median time in seconds, by the device's clock."""
    call = problem.call(out=out, kernel=kernel)
    return measure(lambda stream: call(stream=stream), device.name, cold=False, max_seconds=SECONDS).median


def summary(rows: list[Row], worst: int = 5) -> tuple[str, list[Row]]:
    """The grade in words, and the rows whose choice is slowest compared with the fastest kernel."""
    graded = sorted((row for row in rows if row.ratio), key=lambda row: row.ratio)
    good = sum(row.ratio >= 1 / within(row.op) for row in graded)
    text = f"{good} of {len(graded)} within {limits()} of the fastest kernel"
    return text, graded[:worst]


def within(op: str) -> float:
    """The limit for a good choice of an operation, in times of the fastest kernel; that of the reductions for each
    of them."""
    return WITHIN.get(op, WITHIN["reduce"])


def limits() -> str:
    """The limits in words."""
    return f"{WITHIN['reduce'] - 1:.0%} (matmul {WITHIN['matmul'] - 1:.0%})"
