"""What tasks do with chunks: NumPy's arrays, Arrays, and CuPy's arrays, which smemkit reads in place."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import dask.array as da
import numpy as np

from smemkit import arrays
from smemkit._core import Array, Stream

__all__: list[str] = []


def check_operand(x: Any, name: str) -> None:
    """TypeError if `x` is not an array of Dask."""
    if not isinstance(x, da.Array):
        raise TypeError(
            f"{name}: expected a dask.array.Array, got {type(x).__name__}; dask.array.from_array() makes one"
        )


def kind_of(x: da.Array) -> str:
    """The library of the chunks: "numpy", "smemkit", "cupy"."""
    return type(x._meta).__module__.partition(".")[0]


def meta_of(x: da.Array, ndim: int, dtype: np.dtype) -> Any:
    """An empty array of the kind of `x`'s chunks, which tells Dask what a result's chunks are."""
    if isinstance(x._meta, Array):
        return arrays.empty((0,) * ndim, dtype, device="cpu")
    return import_module(kind_of(x)).empty((0,) * ndim, dtype)


_of_thread = threading.local()


def _stream(device: str) -> Stream:
    """This thread's stream of a GPU."""
    streams = _of_thread.__dict__
    if device not in streams:
        streams[device] = Stream(device=device, synchronous=True)
    return streams[device]


def _gpus(x: Any) -> set[str]:
    """The GPUs of the chunks in a task's argument."""
    if isinstance(x, Array):
        return {x.device} - {"cpu"}
    if isinstance(x, list | tuple | dict):
        return set().union(*map(_gpus, x.values() if isinstance(x, dict) else x))
    return {f"cuda:{x.device.id}"} if type(x).__module__.startswith("cupy") else set()


def task(function: Callable) -> Callable:
    """Makes a function a task of Dask, of positional arguments that are chunks or partial results.

    It ends when its work on GPUs is done, so that Dask knows what can start and what memory is in use. Each thread
    has streams of its own: a task waits for work on its chunks, and later tasks do not wait for it.
    """

    @functools.wraps(function)
    def run(*args: Any, **keywords: Any) -> Any:
        with contextlib.ExitStack() as current:
            for device in _gpus(args):
                current.enter_context(_stream(device))
            return function(*args, **keywords)

    return run


def operand(chunk: Any) -> np.ndarray | Array:
    """A chunk as smemkit computes with it."""
    if isinstance(chunk, np.ndarray | np.generic):
        return np.asarray(chunk)
    return chunk if isinstance(chunk, Array) else arrays.asarray(chunk)


def in_kind(result: Any, kind: str) -> Any:
    """A result for an array whose chunks are of this library."""
    if isinstance(result, Array) and kind != "smemkit":
        return import_module(kind).from_dlpack(result)
    return result


def empty(like: np.ndarray | Array, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | Array:
    """A new array on the device of `like`."""
    if isinstance(like, Array):
        return arrays.empty(shape, dtype, device=like.device)
    return np.empty(shape, dtype)


def joined(parts: Sequence[np.ndarray | Array]) -> np.ndarray | Array:
    """Partial results of one shape as an array with one more axis, the first."""
    result = empty(parts[0], (len(parts), *parts[0].shape), parts[0].dtype)
    for i, part in enumerate(parts):
        result[i] = part
    return result


def on_device_of(first: Any, x: Any) -> Any:
    """`x` on the device of `first`, if both are Arrays, or dicts of Arrays: a process may have chunks on several
    GPUs."""
    if isinstance(first, dict) and isinstance(x, dict):
        return {key: on_device_of(first[key], value) for key, value in x.items()}
    return x.to(first.device) if isinstance(first, Array) and isinstance(x, Array) else x


def gathered(nested: Any) -> list[Any]:
    """The partial results of a tree's node, all on the device of the first."""
    first, *rest = flattened(nested)
    return [first, *(on_device_of(first, part) for part in rest)]


def flattened(nested: Any) -> list[Any]:
    """A list of lists, which Dask makes of a tree's node, one level for each axis, as one list."""
    if not isinstance(nested, list):
        return [nested]
    return [part for inner in nested for part in flattened(inner)]


def without_axes(x: np.ndarray | Array, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Removes the reduced axes, which have length 1, from a result; a NumPy result without axes becomes a
    scalar."""
    if not keepdims:
        x = x.squeeze(axis)
    return x[()] if isinstance(x, np.ndarray) else x


def widest(dtype: np.dtype) -> np.dtype:
    """The dtype in which partial results of a dtype are added."""
    if dtype.kind == "c":
        return np.dtype(np.complex128)
    return np.dtype(np.float64) if is_floating(dtype) else dtype


def is_floating(dtype: np.dtype) -> bool:
    """Whether it is a real floating dtype; bfloat16 is one."""
    return dtype.kind == "f" or dtype.name == "bfloat16"
