"""Runs each production kernel by name, in each dtype that it takes: recorded.py reads these rows.

One small problem each, whose numbers are so small that nothing is rounded: the result is NumPy's, to the last bit.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from smemkit import ops
from smemkit.arrays import asarray, asnumpy
from smemkit.bench.planner import DTYPES
from smemkit.bench.rows import Row, measured
from smemkit.devices import Device
from smemkit.measure.benchmarks import measure, operation_work
from smemkit.table.kernel_table import KernelInfo

SECONDS = 0.01  # of measuring, for each row


class Exact(NamedTuple):
    """A problem: the shape is (m, n, k) or (batch, m, n, k) of a matmul."""

    shape: tuple[int, ...]
    axis: int | None = None  # of a sum
    axes: tuple[int, ...] | None = None  # of a transpose


PROBLEMS = {
    "matmul": {
        "mma": Exact((130, 135, 80)),
        "imma": Exact((130, 135, 300)),
        "wgmma": Exact((130, 144, 608)),  # the TMA copies rows of multiples of 16 bytes
        "wgmma_specialized": Exact((130, 272, 608)),
        "persistent": Exact((130, 272, 608)),
        "simt": Exact((70, 75, 80)),
        "simt_large": Exact((130, 135, 80)),
        "pipelined_large": Exact((130, 135, 80)),
        "pipelined_small": Exact((70, 75, 80)),
        "pipelined_batch": Exact((50, 70, 75, 80)),
        "mma_large": Exact((130, 135, 80)),
        "mma_small": Exact((70, 75, 80)),
        "mma_split": Exact((130, 135, 80)),
        "wgmma_large": Exact((130, 270, 80)),
        "wgmma_small": Exact((130, 70, 80)),
        "wgmma_single": Exact((130, 270, 80)),
        "wgmma_tf32": Exact((130, 272, 304)),
        "wgmma_tf32_small": Exact((70, 144, 304)),
        "wgmma_split": Exact((130, 135, 80)),
        "wgmma_split_small": Exact((130, 70, 80)),
        "dmma_large": Exact((130, 135, 80)),
        "dmma_small": Exact((130, 70, 80)),
        "wgmma_digits": Exact((130, 270, 80)),
        "wgmma_digits_small": Exact((130, 135, 80)),
        "wgmma_residues": Exact((130, 270, 80)),
        "matvec": Exact((300, 1, 100)),
        "tiny": Exact((50, 12, 13, 14)),
    },
    "reduce": {
        "rows": Exact((70, 75), axis=1),
        "rowwise": Exact((75, 7), axis=1),
        "columns": Exact((70, 75), axis=0),
        "small_columns": Exact((70, 75), axis=0),
    },
    "transpose": {
        "tiles": Exact((70, 75)),
        "in_place": Exact((96, 96)),
        "segments": Exact((5, 7, 16), axes=(1, 0, 2)),
        "narrow": Exact((1000, 3)),
        "small": Exact((50, 5, 7), axes=(0, 2, 1)),
        "boxes": Exact((9, 10, 11, 12), axes=(2, 3, 0, 1)),
    },
}


def cases(device: Device, rows: Iterable[KernelInfo]) -> Iterator[tuple[str, Callable[[], Row]]]:
    """A label and what measures the row, for each production kernel and each rung of tensor cores of several
    dtypes, in each dtype; of transposes, which move bytes, for each size of elements."""
    for info in rows:
        problem = PROBLEMS.get(info.op, {}).get(info.name)
        for dtype in filter(known_to_numpy, info.dtypes if problem else ()):
            if info.op != "transpose" or dtype in DTYPES["transpose"]:
                text = f"{' x '.join(map(str, problem.shape))}, {dtype}"
                row = Row(info.op, info.op, text, dtype, list(problem.shape), kernel=info.name, cold=False)
                row = replace(row, axis=problem.axis, axes=problem.axes and list(problem.axes))
                yield f"{info.op} {text} {info.name}", partial(exact_row, row, device)


def known_to_numpy(dtype: str) -> bool:
    """Whether NumPy has arrays of this dtype: bfloat16 needs ml_dtypes."""
    if dtype == "bfloat16" and importlib.util.find_spec("ml_dtypes"):
        importlib.import_module("ml_dtypes")
    elif dtype == "bfloat16":
        return False
    return True


def exact_row(row: Row, device: Device) -> Row:
    """Checks and measures one kernel."""
    host = operands(row)
    arrays = [asarray(x, device=device.name) for x in host]
    wanted = expected(row, host)
    out = arrays[0] if row.kernel == "in_place" else asarray(poison(wanted), device=device.name)
    call = partial(function(row), *arrays, out=out, kernel=row.kernel)
    call()
    result = asnumpy(out)
    if (result.shape, result.dtype) != (wanted.shape, wanted.dtype) or not np.array_equal(result, wanted):
        raise ArithmeticError(f"{np.count_nonzero(result != wanted)} of {wanted.size} elements are wrong")
    work = operation_work(row.op, *host)
    ours = measure(lambda stream: call(stream=stream), device.name, cold=False, max_seconds=SECONDS, **work)
    return measured(row, ours, {}, error=0.0)


def function(row: Row) -> Callable[..., Any]:
    """The operation, which takes operands, `out`, `kernel` and `stream`."""
    if row.op == "reduce":
        return partial(ops.reduce, op="sum", axis=row.axis)
    if row.op == "transpose" and row.axes:
        return partial(ops.transpose, axes=tuple(row.axes))
    return getattr(ops, row.op)


def operands(row: Row) -> list[np.ndarray]:
    """Random -1, 0 and 1; 0 and 1 of dtypes without a sign. For `wgmma_residues`, which sums in float64 where rows
    have zeros, 12 to 15."""
    dtype, rng = np.dtype(row.dtype), np.random.default_rng(0)
    shapes = [row.shape]
    if row.op == "matmul":
        *batch, m, n, k = row.shape
        shapes = [(*batch, m, k), (*batch, k, n)]
    limits = (12, 16) if row.kernel == "wgmma_residues" else (0 if dtype.kind in "bu" else -1, 2)
    return [rng.integers(*limits, shape).astype(dtype) for shape in shapes]


def expected(row: Row, host: list[np.ndarray]) -> np.ndarray:
    """NumPy's result, computed in complex128 or float64."""
    x = host[0]
    if row.op == "transpose":
        return np.ascontiguousarray(x.transpose(row.axes))
    wide = [part.astype(np.complex128 if part.dtype.kind == "c" else np.float64) for part in host]
    if row.op == "matmul":
        return np.matmul(*wide).astype(x.dtype)
    return wide[0].sum(axis=row.axis).astype(np.sum(np.ones(1, x.dtype)).dtype)


def poison(wanted: np.ndarray) -> np.ndarray:
    """An array like the result, in which every element is wrong."""
    return np.logical_not(wanted) if wanted.dtype.kind == "b" else wanted + wanted.dtype.type(1)
