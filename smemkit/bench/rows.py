"""The measured problems with their expected results, and the rows of the reference file."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from smemkit import ops
from smemkit.arrays import Array, asarray
from smemkit.measure.benchmarks import Benchmark, operation_work
from smemkit.measure.operands import CHUNK, random
from smemkit.table.planning import plan

U, TF32_U = 2.0**-24, 2.0**-11  # the unit roundoffs of float32 and TF32


@dataclass(frozen=True)
class Row:
    """A row of the reference file; fields that do not apply are None. Times are medians in microseconds. dtype: of
    the operands; "int8 to int32" if the result has another."""

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
    us: float | None = None
    unit: str | None = None
    value: float | None = None
    peers: dict[str, float] = field(default_factory=dict)
    ratio: float | None = None
    ceiling_fraction: float | None = None
    error: float | None = None
    peer_error: float | None = None


def measured(row: Row, ours: Benchmark, peers: dict[str, Benchmark], **facts: Any) -> Row:
    """`row` with the measured values filled in."""
    unit, value = ours.unit_and_value
    times = {name: 1e6 * peer.median for name, peer in peers.items()}
    ratio = min(times.values()) / (1e6 * ours.median) if times else None
    return replace(row, us=1e6 * ours.median, unit=unit, value=value, peers=times, ratio=ratio, **facts)


def transposed(x: np.ndarray, axes: tuple[int, ...] | None = None) -> np.ndarray:
    """The transpose in C order, computed on all cores."""
    view = x.transpose(axes)
    out = np.empty(view.shape, x.dtype)
    longest = int(np.argmax(view.shape))  # the axis that is divided among the cores
    step = max(1, min(64, out.shape[longest] // 64))

    def copy_part(i: int) -> None:
        part = (slice(None),) * longest + (slice(i, i + step),)
        out[part] = view[part]

    with ThreadPoolExecutor() as pool:
        list(pool.map(copy_part, range(0, out.shape[longest], step)))
    return out


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have equal shapes, dtypes and bits; compared on all cores."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    a, b = (np.ascontiguousarray(x).reshape(-1).view(f"u{min(x.itemsize, 8)}") for x in (a, b))
    with ThreadPoolExecutor() as pool:
        chunks = (slice(start, start + CHUNK) for start in range(0, a.size, CHUNK))
        return all(pool.map(lambda chunk: np.array_equal(a[chunk], b[chunk]), chunks))


def reduced(x: np.ndarray, name: str, axis: int | None, wide: Any) -> np.ndarray:
    """NumPy's reduction, computed on all cores: each reduces a chunk of the whole array or, along an axis, some of
    the rows. Sums, means and variances are computed in the dtype `wide`."""
    keywords = {"dtype": wide} if name in ("sum", "var", "mean") else {}

    def reduce_part(part: np.ndarray, **more: Any) -> np.ndarray:
        return getattr(np, name)(part, **keywords, **more)

    with ThreadPoolExecutor() as pool:
        if axis is not None:
            kept = [length if d != axis else 0 for d, length in enumerate(x.shape)]
            split_axis = int(np.argmax(kept))
            parts = np.array_split(x, min(256, max(1, kept[split_axis])), split_axis)
            results = list(pool.map(lambda part: reduce_part(part, axis=axis), parts))
            return np.concatenate(results, split_axis - (axis < split_axis))
        chunks = np.array_split(x.reshape(-1), -(-x.size // CHUNK))
        if name in ("mean", "var"):
            mean = np.sum(list(pool.map(lambda chunk: chunk.sum(dtype=wide), chunks))) / x.size
            squares = pool.map(lambda chunk: ((chunk - mean) ** 2).sum(), chunks)
            return np.asarray(mean if name == "mean" else np.sum(list(squares)) / x.size)
        found = np.array(list(pool.map(reduce_part, chunks)))
    if name not in ("argmin", "argmax"):
        return np.asarray(getattr(np, name)(found))
    best = reduce_part(np.array([chunk[i] for chunk, i in zip(chunks, found, strict=True)]))
    return np.asarray(sum(chunk.size for chunk in chunks[:best]) + found[best])


def dtypes_of(text: str) -> tuple[str, str]:
    """The dtypes of the operands and of a matmul's result: "int8 to int32", or one for both."""
    operands, _, result = text.partition(" to ")
    return operands, result or operands


class Problem:
    """An operation's operands on the host and on a device, the expected result, and the check of a result."""

    def __init__(
        self,
        op: str,
        shape: tuple[int, ...],
        device: str,
        dtype: str = "float32",
        axis: int | None = None,
        axes: tuple[int, ...] | None = None,
        precision: str | None = None,
        like: Problem | None = None,
    ) -> None:
        self.precision = precision  # of matmul: None stands for "highest"
        self.dtypes, (dtype, result) = dtype, dtypes_of(dtype)
        self.result = None if result == dtype else result
        self.op, self.shape, self.device, self.dtype, self.axis, self.axes = op, shape, device, dtype, axis, axes
        if op == "matmul":
            *batch, m, n, k = shape
            shapes = (*batch, m, k), (*batch, k, n)
            self.host = [random(s, dtype, "normal", seed) for seed, s in enumerate(shapes)]
            if self.result:  # cuBLAS multiplies bytes only if both operands are contiguous along k
                self.host[1] = np.asfortranarray(self.host[1])
            self.rows = np.unique(np.linspace(0, m - 1, 64, dtype=int))  # checked, because all would take too long
            self.out_shape, self.out_dtype = (*batch, m, n), result
        else:
            if like and (like.operand, like.device) == (self.operand, device):
                self.host = like.host
                if "arrays" in like.__dict__:
                    self.arrays = like.arrays
            else:
                self.host = [random(shape, dtype)]
                if self.is_scaled:
                    self.host[0] *= np.float16(2.0 ** -max(10, math.prod(shape).bit_length() - 17))
            if self.reduction:
                self.out_shape = () if axis is None else shape[:axis] + shape[axis + 1 :]
                self.out_dtype = getattr(np, self.reduction)(np.ones(1, dtype)).dtype.name
            else:
                self.out_shape = tuple(shape[d] for d in axes) if axes else shape[::-1]
                self.out_dtype = dtype
        self._poison: np.ndarray | None = None
        self.work = operation_work(op, *self.host)
        if self.reduction:
            # along a short axis the result is nearly as large as the operand
            self.work["bytes"] = sum(self.nbytes)

    @property
    def reduction(self) -> str | None:
        """The reduction's name for `smemkit.reduce`: "sum", "min", …; None for other operations."""
        return None if self.op in ("matmul", "transpose") else "sum" if self.op == "reduce" else self.op

    @property
    def operand(self) -> tuple[Any, ...]:
        """Equal for problems with the same operands."""
        return self.op == "matmul", self.is_scaled, self.shape, self.dtype

    @property
    def is_scaled(self) -> bool:
        """Whether the elements are scaled down so that their sum fits float16."""
        return self.reduction == "sum" and self.dtype == "float16"

    @property
    def key(self) -> tuple[Any, ...]:
        """Identifies the problem."""
        return self.op, self.shape, self.dtypes, self.axis, self.axes, self.precision

    def call(self, *operands: Any, **options: Any) -> Callable[..., Any]:
        """The operation as a function of further keywords; on the problem's own operands if none are given."""
        operands = operands or tuple(self.arrays)
        if self.op == "matmul":
            return partial(ops.matmul, *operands, precision=self.precision, dtype=self.result, **options)
        if self.op == "transpose":
            return partial(ops.transpose, *operands, self.axes, **options)
        return partial(ops.reduce, *operands, self.reduction, self.axis, **options)

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes of the operands, and of the result."""
        return sum(x.nbytes for x in self.host), math.prod(self.out_shape) * np.dtype(self.out_dtype).itemsize

    @cached_property
    def expected(self) -> np.ndarray:
        """The correct result, in double precision; for matmul only the `rows`."""
        if self.op == "matmul":
            return self._product(np.asarray)
        (x,) = self.host
        if self.op == "transpose":
            return transposed(x, self.axes)
        wide = np.int64 if "int" in self.dtype else np.longdouble if self.dtype == "float64" else np.float64
        return reduced(x, self.reduction, self.axis, wide)

    @cached_property
    def _magnitude(self) -> float:
        """The norm of |a| @ |b| divided by that of a @ b: how much the rounding errors of the products are
        amplified."""
        return float(np.linalg.norm(self._product(np.abs)) / np.linalg.norm(self.expected))

    def _product(self, f: Any) -> np.ndarray:
        """The `rows` of f(a) @ f(b) in double precision, or of integers in the dtype of the result, which wrap
        around; by blocks of columns: converting all of b would double its size."""
        a, b = self.host
        wide = self.out_dtype if self.is_exact else self._wide
        some = f(a[..., self.rows, :].astype(wide))

        def block(j: int) -> np.ndarray:
            return some @ f(b[..., j : j + 256].astype(wide))

        with ThreadPoolExecutor() as pool:
            return np.concatenate(list(pool.map(block, range(0, b.shape[-1], 256))), axis=-1)

    @property
    def _wide(self) -> str:
        """The dtype of a product in double precision."""
        return "complex128" if "complex" in self.out_dtype else "float64"

    @cached_property
    def arrays(self) -> list[Array]:
        """The operands on the device."""
        device = self.device
        return [asarray(x.T, device=device).T if x.flags.fnc else asarray(x, device=device) for x in self.host]

    def out(self, transposed: bool = True) -> Array:
        """A new output on the device, filled with NaN, or with an integer that few elements of a result have."""
        shape = self.out_shape if transposed else self.shape
        if self._poison is None:
            poison = np.nan if np.dtype(self.out_dtype).kind in "fc" else 91
            self._poison = np.full(self.out_shape, poison, self.out_dtype)
        return asarray(self._poison.reshape(shape), device=self.device)

    def bound(self, promised: bool, peer: bool, kernel: str | None = None) -> float:
        """The allowed relative error. `promised`: the bound that smemkit promises for kernel=None. A named kernel
        computes in its own precision."""
        rounding = 2.0**-11 if self.out_dtype == "float16" else 0.0
        if self.is_exact:
            return 0.0
        if self.op == "matmul":
            tf32 = self.dtype == "float32" and "high" in (self.precision, kernel and self._precision_of(kernel))
            unit = 2.0**-53 if self.dtype in ("float64", "complex128") else U
            bound = (self.shape[-1] + 2) * unit * self._magnitude + (2 * TF32_U if tf32 else 0)
            return bound + rounding * (4 if peer else 1)
        n = self.host[0].size // max(1, math.prod(self.out_shape))
        log = math.ceil(math.log2(n))
        if promised:
            bounds = {"float64": 2 * (log + 8) * 2.0**-53, "float16": rounding + 2 * log * U}
            bound = bounds.get(self.dtype, U + n * 2.0**-53)
        else:
            # n - 1 additions, a division, and the rounding of the expected value
            bound = (n + 1) * (2.0**-53 if self.dtype == "float64" else U) + 2 * rounding
        return 4 * bound if self.reduction == "var" else bound  # its squared differences round several times more

    def _precision_of(self, kernel: str) -> str | None:
        return plan(ops.matmul, *self.arrays, kernel=kernel).precision

    def error(self, result: np.ndarray, kernel: str | None, peer: bool = False, transposed: bool = True) -> float:
        """The relative error; ArithmeticError if it exceeds the bound or is NaN."""
        if self.op == "matmul" and not self.is_exact:
            difference = np.linalg.norm(result[..., self.rows, :].astype(self._wide) - self.expected)
            error = difference / np.linalg.norm(self.expected)
        elif not self.is_exact:
            with np.errstate(over="ignore", invalid="ignore"):  # a result may overflow float16
                overflowed = np.isinf(result) & (result == self.expected.astype(result.dtype))
                difference = np.where(overflowed, 0.0, np.abs(result - self.expected))
            # the variance of two elements may be close to 0
            scale = np.max(self.expected) if self.reduction == "var" else self.expected
            relative = np.divide(difference, scale, out=np.zeros_like(difference), where=difference != 0)
            error = float(np.max(relative))
        else:
            expected = self.expected if transposed else self.host[0]
            result = result[..., self.rows, :] if self.op == "matmul" else result
            if self.op == "transpose" and same_bits(result, expected):
                return 0.0
            if peer and self.reduction in ("argmin", "argmax"):  # a peer may return any of several equal elements
                result, expected = (self._elements(np.asarray(indices)) for indices in (result, expected))
            error = 0.0 if np.array_equal(result, expected) else self._distance(result, expected)
        bound = self.bound(promised=not (kernel or peer), peer=peer, kernel=kernel)
        if not error <= bound:
            raise ArithmeticError(f"relative error {error:.3g} exceeds the bound {bound:.3g}")
        return float(error)

    @property
    def is_exact(self) -> bool:
        """Whether the result is exact, without rounding."""
        if self.reduction in ("sum", "mean", "var"):
            return self.reduction == "sum" and "int" in self.dtype
        return self.op != "matmul" or "int" in self.dtype

    def _elements(self, indices: np.ndarray) -> np.ndarray:
        """The elements at the indices that argmin or argmax returned; none if an index is out of range."""
        (x,) = self.host
        x, axis = (x.reshape(-1), 0) if self.axis is None else (x, self.axis)
        if np.any((indices < 0) | (indices >= x.shape[axis])):
            return x[:0]
        return np.take_along_axis(x, np.expand_dims(indices, axis), axis)

    @staticmethod
    def _distance(result: np.ndarray, expected: np.ndarray) -> float:
        """The largest difference; infinite if the shapes differ."""
        if np.shape(result) != np.shape(expected):
            return math.inf
        wide = np.complex128 if np.dtype(expected.dtype).kind == "c" else np.float64
        return float(np.abs(np.subtract(result, expected, dtype=wide)).max())
