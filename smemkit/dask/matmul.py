"""`matmul` of arrays of Dask: products of chunks, added by a tree."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any

import dask.array as da
import numpy as np

from smemkit import ops
from smemkit._core import Array
from smemkit.dask.chunks import (
    check_operand,
    gathered,
    in_kind,
    is_floating,
    kind_of,
    meta_of,
    on_device_of,
    operand,
    task,
)
from smemkit.devices import Device

__all__ = ["matmul"]


def matmul(
    x1: da.Array,
    x2: da.Array,
    /,
    *,
    dtype: Any = None,
    precision: str | None = None,
    kernel: str | None = None,
    tile: int | None = None,
    split_every: int | None = None,
    device: str | None = None,
) -> da.Array:
    """The matrix product ``x1 @ x2``: `smemkit.matmul` of pairs of chunks, which describes the parameters.

    Parameters
    ----------
    x1 : dask.array.Array, shape (..., m, k) or (k,)
    x2 : dask.array.Array, shape (..., k, n) or (k,)
        Dask gives both the same chunks along k and along batches.
    dtype, precision, kernel, tile : optional
    split_every : int, optional
        The most partial products that one task adds; Dask's default is 4.
    device : str, optional
        The device for NumPy chunks; each worker's default device if None.

    Returns
    -------
    dask.array.Array, shape (..., m, n)
        Its chunks are of the kind of `x1`'s.

    Raises
    ------
    TypeError, ValueError
        An argument is invalid; the message says which. No operand is touched.

    Notes
    -----
    Each pair of chunks along k gives a partial product; tasks add up to `split_every` of them, as a tree: chunks
    are never concatenated. A task holds two chunks of operands and one of the result, or those that it adds and
    their sum. If Arrays lie on several GPUs of a process, two chunks are multiplied, and products are added, where
    the first of them lies; the others are copied there.

    Partial products of float16 and bfloat16 are float32, and are rounded once. With c chunks along k the sum of
    the c products adds at most c - 1 roundings to the error bound of the plain operation, of 2⁻²⁴ each in float32.

    Examples
    --------
    >>> import dask.array as da, smemkit.dask
    >>> x = da.arange(6, chunks=3).reshape(2, 3).rechunk(1)
    >>> smemkit.dask.matmul(x, x.T, device="cpu").compute()
    array([[ 5, 14],
           [14, 50]])
    """
    check_operand(x1, "x1")
    check_operand(x2, "x2")
    options = {"precision": precision, "kernel": kernel, "tile": tile}
    result = _result_dtype(x1, x2, options | {"dtype": dtype})
    narrow = is_floating(result) and result.itemsize == 2
    options |= {"dtype": np.float32 if narrow and dtype is None and kernel is None else dtype, "device": device}
    a, b = x1[None] if x1.ndim == 1 else x1, x2[:, None] if x2.ndim == 1 else x2
    product = _product(a, b, result, options, split_every)
    if x1.ndim == 1:
        product = product[..., 0, :]
    return product[..., 0] if x2.ndim == 1 else product


def _result_dtype(x1: da.Array, x2: da.Array, options: dict[str, Any]) -> np.dtype:
    """The result's dtype: that of a small product, whose shapes agree where those of x1 and x2 do."""
    lengths = {0: 0, 1: 1}
    small = []
    for x in (x1, x2):
        shape = tuple(lengths.setdefault(n, len(lengths)) if n == n else 1 for n in x.shape)  # NaN: unknown
        small.append(np.zeros(shape, x.dtype))
    try:
        return ops.matmul(*small, **options, device="cpu").dtype
    except ValueError as error:
        if any(part not in str(error) for part in map(str, (small[0].shape, small[1].shape))):
            raise
        expected = str(error).partition(", got ")[0]
        raise ValueError(f"{expected}, got {x1.shape} and {x2.shape}") from None


def _product(
    a: da.Array, b: da.Array, dtype: np.dtype, options: dict[str, Any], split_every: int | None
) -> da.Array:
    """The product of two arrays of matrices."""
    ndim = max(a.ndim, b.ndim)
    batch = tuple(range(ndim - 2))
    row, column, k = ndim - 2, ndim - 1, ndim
    partial = da.blockwise(
        _partial_product,
        (*batch, row, column, k),
        a,
        (*batch[ndim - a.ndim :], row, k),
        b,
        (*batch[ndim - b.ndim :], k, column),
        token="smemkit-matmul",
        dtype=dtype,
        adjust_chunks={k: 1},
        meta=meta_of(a, ndim + 1, dtype),
        options=options,
    )
    return da.reduction(
        partial,
        chunk=_itself,
        combine=_added,
        aggregate=functools.partial(_total, result=dtype, kind=kind_of(a)),
        axis=-1,
        concatenate=False,
        dtype=dtype,
        meta=meta_of(a, ndim, dtype),
        split_every=split_every,
        name="smemkit-matmul-add",
    )


# ---- tasks -----------------------------------------------------------------------------------------------------


_products: dict[str, threading.Lock] = {}


def _turn(x: Any, device: str | None) -> contextlib.AbstractContextManager:
    """Held while a product of `x` runs on a GPU: two at once evict each other's tiles from L2, and are slower than
    one after the other (3.4 s instead of 2.8 for 65,536² on an H100). Products of NumPy's arrays would also take
    the memory that the other counts on."""
    device = x.device if isinstance(x, Array) else Device(device)
    return contextlib.nullcontext() if device == "cpu" else _products.setdefault(device, threading.Lock())


@task
def _partial_product(a: Any, b: Any, *, options: dict[str, Any]) -> Any:
    """The product of two chunks, with an axis of length 1 for those along k."""
    a = operand(a)
    b = on_device_of(a, operand(b))
    with _turn(a, options["device"]):
        return ops.matmul(a, b, **options)[..., None]


def _itself(x: Any, axis: Any, keepdims: bool) -> Any:
    return x


@task
def _added(nested: Any, axis: Any, keepdims: bool) -> Any:
    """The sum of partial products. The first two are other tasks' results, which stay as they are."""
    first, *rest = gathered(nested)
    if not rest:
        return first
    total = first + rest[0]
    for part in rest[1:]:
        total += part
    return total


@task
def _total(nested: Any, axis: Any, keepdims: bool, *, result: np.dtype, kind: str) -> Any:
    return in_kind(_added(nested, axis, keepdims)[..., 0].astype(result, copy=False), kind)
