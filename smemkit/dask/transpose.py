"""`transpose` of arrays of Dask."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

from smemkit import ops
from smemkit.dask.chunks import check_operand, in_kind, kind_of, meta_of, operand, task

__all__ = ["transpose"]


def transpose(
    x: da.Array,
    axes: tuple[int, ...] | None = None,
    *,
    kernel: str | None = None,
    tile: int | None = None,
    pad: int | None = None,
    device: str | None = None,
) -> da.Array:
    """`x` with its axes permuted: `smemkit.transpose` of each chunk, which describes the parameters.

    Parameters
    ----------
    x : dask.array.Array
    axes : tuple of int, optional
    kernel, tile, pad : optional
    device : str, optional
        The device for NumPy chunks; each worker's default device if None.

    Returns
    -------
    dask.array.Array
        Its chunks are of the kind of `x`'s, and C-contiguous.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        An argument is invalid; the message says which. `x` is not touched.

    Examples
    --------
    >>> import dask.array as da, smemkit.dask
    >>> x = da.arange(6, chunks=3).reshape(2, 3)
    >>> smemkit.dask.transpose(x, device="cpu").compute()
    array([[0, 3],
           [1, 4],
           [2, 5]])
    """
    check_operand(x, "x")
    options = {"axes": axes, "kernel": kernel, "tile": tile, "pad": pad}
    ops.transpose(np.empty((1,) * x.ndim, x.dtype), **options, device="cpu")  # raises if an argument is wrong
    order = tuple(range(x.ndim))[::-1] if axes is None else tuple(axis % x.ndim for axis in axes)
    return da.blockwise(
        _transposed,
        order,
        x,
        tuple(range(x.ndim)),
        token="smemkit-transpose",
        dtype=x.dtype,
        meta=meta_of(x, x.ndim, x.dtype),
        kind=kind_of(x),
        options=options | {"device": device},
    )


@task
def _transposed(x: Any, *, kind: str, options: dict[str, Any]) -> Any:
    return in_kind(ops.transpose(operand(x), **options), kind)
