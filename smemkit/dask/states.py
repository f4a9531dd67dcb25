"""What the tasks of a reduction pass on: the results of chunks, until one task has combined them all."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from smemkit import arrays, ops
from smemkit._core import Array
from smemkit.dask.chunks import empty, gathered, in_kind, joined, operand, task, widest, without_axes

__all__: list[str] = []


def itself(x: Any, axis: Any, keepdims: bool) -> Any:
    """Returns a chunk unchanged: for `dask.array.reduction`, where a chunk is already a state."""
    return x


@dataclasses.dataclass(frozen=True)
class State:
    """A reduction: `result` is the dtype of its result, `kind` the library of its chunks."""

    op: str
    result: np.dtype
    options: dict[str, Any]
    device: str | None
    kind: str
    flat: bool  # without an axis

    def cast(self, x: np.ndarray | Array) -> np.ndarray | Array:
        """The elements in the caller's dtype, if that is not the same after adding: it rounds or wraps."""
        dtype = self.options["dtype"]
        if dtype is None or np.can_cast(x.dtype, dtype):
            return x
        return ops.convert(x, dtype, device=self.device)

    def finished(self, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        """The result of the last task."""
        return in_kind(without_axes(x.astype(self.result, copy=False), axis, keepdims), self.kind)


class Combined(State):
    """sum, prod, min, max, any, all, count_nonzero: the partial results of chunks are reduced like elements."""

    def keywords(self) -> dict[str, Any]:
        if self.op in ("sum", "prod"):
            return {"dtype": widest(self.result)}
        return {}

    @task
    def chunk(self, x: Any, *, axis: tuple[int, ...]) -> Any:
        x = operand(x)
        rung = {name: self.options[name] for name in ("kernel", "block_size")}
        if self.op in ("min", "max") and not all(x.shape[a] for a in axis):
            return x  # no elements: nothing to compare
        return ops.reduce(
            self.cast(x), self.op, axis, keepdims=True, **self.keywords(), **rung, device=self.device
        )

    @task
    def combine(self, nested: Any, axis: tuple[int, ...], keepdims: bool, initial: Any = None) -> Any:
        every = gathered(nested)
        parts = [part for part in every if all(part.shape[a] for a in axis)]
        if not parts:  # an error, unless there is an initial value
            return every[0]
        op = "sum" if self.op == "count_nonzero" else self.op
        return ops.reduce(joined(parts), op, 0, **self.keywords(), initial=initial, device=self.device)

    @task
    def aggregate(self, nested: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        initial = self.options["initial"]
        total = self.combine(nested, axis, keepdims, initial)
        if not all(total.shape[a] for a in axis):
            total = ops.reduce(total, self.op, axis, keepdims=True, initial=initial, device=self.device)
        return self.finished(total, axis, keepdims)


class Moments(State):
    """mean: counts and sums; var, std: counts, means and sums of squared differences to the mean."""

    @task
    def chunk(self, x: Any, *, axis: tuple[int, ...]) -> dict[str, Any]:
        x = self.cast(operand(x))
        n = int(np.prod([x.shape[a] for a in axis]))
        dtype = np.dtype(np.complex128 if x.dtype.kind == "c" else np.float64)
        if self.op == "mean":
            return {"n": n, "sum": self.reduced(x, "sum", axis, dtype)}
        squares = self.reduced(x, "var", axis, np.dtype(np.float64)) * n
        return {"n": n, "mean": self.reduced(x, "mean", axis, dtype), "squares": squares}

    def reduced(self, x: np.ndarray | Array, op: str, axis: tuple[int, ...], dtype: np.dtype) -> Any:
        shape = tuple(1 if d in axis else n for d, n in enumerate(x.shape))
        out = empty(x, shape, dtype)
        with warnings.catch_warnings():  # of an empty chunk, which counts nothing
            warnings.simplefilter("ignore", RuntimeWarning)
            return ops.reduce(x, op, axis, keepdims=True, out=out, device=self.device)

    @task
    def combine(self, nested: Any, axis: tuple[int, ...], keepdims: bool) -> dict[str, Any]:
        first, *rest = gathered(nested)
        for part in rest:
            first = chan(first, part)
        return first

    @task
    def aggregate(self, nested: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        total = self.combine(nested, axis, keepdims)
        if self.op == "mean":
            with np.errstate(all="ignore"):
                return self.finished(total["sum"] / total["n"], axis, keepdims)
        with np.errstate(all="ignore"):
            variance = total["squares"] / max(total["n"] - self.options["ddof"], 0.0)
        return self.finished(square_root(variance) if self.op == "std" else variance, axis, keepdims)


def chan(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """The state of all elements of two states."""
    if not a["n"] or not b["n"]:
        return a if a["n"] else b
    n = a["n"] + b["n"]
    if "sum" in a:
        return {"n": n, "sum": a["sum"] + b["sum"]}
    difference = b["mean"] - a["mean"]
    between = squared_magnitude(difference) * (a["n"] * (b["n"] / n))
    return {
        "n": n,
        "mean": a["mean"] + difference * (b["n"] / n),
        "squares": a["squares"] + b["squares"] + between,
    }


def on_host(x: np.ndarray | Array, function: Any) -> np.ndarray | Array:
    """A function of few elements, which smemkit does not have."""
    if isinstance(x, Array):
        return arrays.asarray(function(x.numpy()), device=x.device)
    return function(x)


def squared_magnitude(x: np.ndarray | Array) -> np.ndarray | Array:
    if x.dtype.kind != "c":
        return x * x
    return on_host(x, lambda x: (x * x.conj()).real)


def square_root(x: np.ndarray | Array) -> np.ndarray | Array:
    return on_host(x, np.sqrt)


class First(State):
    """argmin, argmax: the smallest or largest elements of chunks, and their first indices.

    They are combined on the host, which can look up by an index.
    """

    @task
    def chunk(
        self, x: Any, *, axis: tuple[int, ...], shape: tuple[int, ...], block_info: Any = None
    ) -> dict[str, Any] | None:
        """The state of a chunk of an array of this shape."""
        begins = [begin for begin, _ in block_info[0]["array-location"]]
        x = operand(x)
        if not all(x.shape[a] for a in axis):
            return None
        along = None if self.flat else axis[0]
        best = {"argmin": "min", "argmax": "max"}[self.op]
        values = ops.reduce(x, best, along, keepdims=True, device=self.device)
        index = arrays.asnumpy(ops.reduce(x, self.op, along, keepdims=True, device=self.device))
        if self.flat:
            at = [start + i for start, i in zip(begins, np.unravel_index(index, x.shape), strict=True)]
            index = np.ravel_multi_index(at, shape) if shape else index
        else:
            index = index + begins[axis[0]]
        return {"values": arrays.asnumpy(values), "index": index, "device": getattr(x, "device", None)}

    @task
    def combine(self, nested: Any, axis: tuple[int, ...], keepdims: bool) -> dict[str, Any] | None:
        parts = [part for part in gathered(nested) if part is not None]
        if len(parts) < 2:
            return parts[0] if parts else None
        if self.flat:  # equal elements: the first one in C order, whatever the order of the chunks
            parts.sort(key=lambda part: part["index"].item())
        values = np.stack([part["values"] for part in parts])
        chosen = ops.reduce(values, self.op, 0, keepdims=True, device="cpu")
        indices = np.stack([part["index"] for part in parts])
        return parts[0] | {
            "values": np.take_along_axis(values, chosen, 0)[0],
            "index": np.take_along_axis(indices, chosen, 0)[0],
        }

    @task
    def aggregate(self, nested: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        total = self.combine(nested, axis, keepdims)
        index = total["index"]
        if isinstance(total["device"], str):
            index = arrays.asarray(index, device=total["device"])
        return self.finished(index, axis, keepdims)


STATES = {
    **dict.fromkeys(("sum", "prod", "min", "max", "any", "all", "count_nonzero"), Combined),
    **dict.fromkeys(("mean", "var", "std"), Moments),
    **dict.fromkeys(("argmin", "argmax"), First),
}
