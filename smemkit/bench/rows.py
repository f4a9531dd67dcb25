"""What is measured: the problems, with what is right about their results, and the rows of the reference file."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from smemkit.arrays import Array, asarray
from smemkit.timing import Benchmark, operation_work

U = 2.0**-24  # the unit roundoff of float32
_CHUNK = 1 << 22  # elements that one thread makes at a time


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
    unit, value = ours.unit_and_value
    times = {name: 1e6 * peer.median for name, peer in peers.items()}
    ratio = min(times.values()) / (1e6 * ours.median) if times else None
    return replace(row, us=1e6 * ours.median, unit=unit, value=value, peers=times, ratio=ratio, **facts)


def random(shape: tuple[int, ...], dtype: str, kind: str = "uniform", seed: int = 0) -> np.ndarray:
    """Random values, by all cores: "uniform" in [0, 1), or any of an integer type; or "normal"."""
    x = np.empty(shape, dtype)
    flat = x.reshape(-1)

    def fill(start: int) -> None:
        rng = np.random.default_rng([seed, start])
        part = flat[start : start + _CHUNK]
        if x.dtype.kind in "iu":
            info = np.iinfo(dtype)
            part[:] = rng.integers(info.min, info.max, part.size, dtype, endpoint=True)
        elif kind == "normal":
            part[:] = rng.standard_normal(part.size, dtype=np.float64 if dtype == "float64" else np.float32)
        else:
            part[:] = rng.random(part.size, dtype=np.float64 if dtype == "float64" else np.float32)

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(0, x.size, _CHUNK)))
    return x


def turned(x: np.ndarray) -> np.ndarray:
    """The transpose in C order, by all cores."""
    out = np.empty(x.shape[::-1], x.dtype)
    step = max(64, len(x) // 256)

    def turn(i: int) -> None:
        out[:, i : i + step] = x[i : i + step].T

    with ThreadPoolExecutor() as pool:
        list(pool.map(turn, range(0, len(x), step)))
    return out


class Problem:
    """Operands of one operation, shape and dtype, on the host and on a device, and how wrong a result is."""

    def __init__(
        self, op: str, shape: tuple[int, ...], device: str, dtype: str = "float32", axis: int | None = None
    ) -> None:
        self.op, self.shape, self.device, self.dtype, self.axis = op, shape, device, dtype, axis
        if op == "matmul":
            m, n, k = shape
            self.host = [random(s, dtype, "normal", seed) for seed, s in enumerate(((m, k), (k, n)))]
            self.rows = np.unique(np.linspace(0, m - 1, 64, dtype=int))  # NumPy takes long for all of them
            self.out_shape, self.out_dtype = (m, n), dtype
        else:
            self.host = [random(shape, dtype)]
            if op == "reduce":
                if dtype == "float16":
                    self.host[0] *= np.float16(2.0**-10)  # the sum of 2^27 of them is a float16
                self.out_shape = () if axis is None else shape[:axis] + shape[axis + 1 :]
                self.out_dtype = "int64" if dtype == "int32" else dtype
            else:
                self.out_shape, self.out_dtype = shape[::-1], dtype
        self.work = operation_work(op, *self.host)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others."""
        return self.op, self.shape, self.dtype, self.axis

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes of the operands, and of the result."""
        return sum(x.nbytes for x in self.host), math.prod(self.out_shape) * np.dtype(self.out_dtype).itemsize

    @cached_property
    def expected(self) -> np.ndarray:
        """What is right: in double precision; of a matmul the `rows`."""
        if self.op == "matmul":
            return self._product(np.asarray)
        (x,) = self.host
        if self.op == "transpose":
            return turned(x)
        wide = {"float64": np.longdouble, "int32": np.int64}.get(self.dtype, np.float64)
        return np.asarray(x.sum(axis=self.axis, dtype=wide))

    @cached_property
    def _magnitude(self) -> float:
        """The norm of |a| @ |b| by that of a @ b: what rounding each product once may cost."""
        return float(np.linalg.norm(self._product(np.abs)) / np.linalg.norm(self.expected))

    def _product(self, of: Any) -> np.ndarray:
        """The `rows` of of(a) @ of(b) in float64, by blocks of columns: all of b would be twice its size."""
        a, b = self.host
        some = of(a[self.rows].astype(np.float64))

        def block(j: int) -> np.ndarray:
            return some @ of(b[:, j : j + 1024].astype(np.float64))

        with ThreadPoolExecutor() as pool:
            return np.concatenate(list(pool.map(block, range(0, b.shape[1], 1024))), axis=1)

    @cached_property
    def arrays(self) -> list[Array]:
        """The operands on the device."""
        return [asarray(x, device=self.device) for x in self.host]

    def out(self, turned: bool = True) -> Array:
        """A new output on the device, full of what is no result."""
        shape = self.out_shape if turned else self.shape
        poison = np.nan if np.dtype(self.out_dtype).kind == "f" else 91
        return asarray(np.full(shape, poison, self.out_dtype), device=self.device)

    def bound(self, exact: bool, peer: bool) -> float:
        """The relative error that is allowed. `exact`: what is promised of the sums that the planner makes."""
        rounding = 2.0**-11 if self.out_dtype == "float16" else 0.0
        if self.op == "transpose" or self.dtype == "int32":
            return 0.0
        if self.op == "matmul":
            return (self.shape[2] + 2) * U * self._magnitude + rounding * (4 if peer else 1)
        n = self.host[0].size // max(1, math.prod(self.out_shape))
        log = math.ceil(math.log2(n))
        if not exact:
            return n * (2.0**-53 if self.dtype == "float64" else U) + 2 * rounding
        return {"float64": 2 * (log + 8) * 2.0**-53, "float16": rounding + 2 * log * U}.get(
            self.dtype, U + n * 2.0**-53
        )

    def error(self, result: np.ndarray, kernel: str | None, peer: bool = False, turned: bool = True) -> float:
        """The relative error; ArithmeticError where it is larger than the bound, or no number."""
        if self.op == "matmul":
            difference = np.linalg.norm(result[self.rows].astype(np.float64) - self.expected)
            error = difference / np.linalg.norm(self.expected)
        elif self.op == "reduce" and self.dtype != "int32":
            error = float(np.max(np.abs(result - self.expected) / self.expected))
        else:
            expected = self.expected if turned else self.host[0]
            error = 0.0 if np.array_equal(result, expected) else self._distance(result, expected)
        bound = self.bound(exact=not (kernel or peer), peer=peer)
        if not error <= bound:
            raise ArithmeticError(f"relative error {error:.3g}, allowed is {bound:.3g}")
        return float(error)

    @staticmethod
    def _distance(result: np.ndarray, expected: np.ndarray) -> float:
        """The largest difference; endless where the shapes differ."""
        if np.shape(result) != np.shape(expected):
            return math.inf
        return float(np.abs(np.subtract(result, expected, dtype=np.float64)).max())
