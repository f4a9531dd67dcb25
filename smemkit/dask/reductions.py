"""`reduce` of arrays of Dask, and its named reductions: chunks are reduced, and a tree combines what they give.

A reduction is described by a `State`: what a chunk gives, how two of those are combined, and the result of all.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import dask.array as da
import numpy as np

from smemkit import ops
from smemkit.dask import states
from smemkit.dask.chunks import check_operand, kind_of, meta_of

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "prod",
    "reduce",
    "std",
    "sum",
    "var",
]

Axis = int | tuple[int, ...] | None


def reduce(
    x: da.Array,
    /,
    op: str = "sum",
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    ddof: float = 0,
    kernel: str | None = None,
    block_size: int | None = None,
    split_every: int | None = None,
    device: str | None = None,
) -> da.Array:
    """The elements of `x` along some axes, combined by `op`: `smemkit.reduce`, which describes the parameters.

    Parameters
    ----------
    x : dask.array.Array
    op : {"sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "argmin", "argmax", "count_nonzero"}
    axis : int or tuple of int, optional
    dtype, keepdims, initial, ddof, kernel, block_size : optional
    split_every : int, optional
        The most partial results that one task combines. The default is 16 if so many take no more than a chunk's
        bytes, else Dask's, which is 4.
    device : str, optional
        The device for NumPy chunks; each worker's default device if None.

    Returns
    -------
    dask.array.Array
        Its chunks are of the kind of `x`'s.

    Raises
    ------
    TypeError, ValueError, OverflowError, numpy.exceptions.AxisError
        An argument is invalid, or `x` is empty and `op` has no identity; the message says which. `x` is
        not touched.

    Warns
    -----
    RuntimeWarning
        "mean" of no elements, and "var" or "std" with n - ddof ≤ 0, as in NumPy.

    Notes
    -----
    Partial sums, products, means and variances of floats are float64 or complex128, so that the result has the
    error bound of the plain operation, and one more rounding of 2⁻⁵³ of the sum of magnitudes for each chunk.
    Means and variances are combined from counts, means and sums of squares by the formula of Chan, Golub and
    LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979). argmin and argmax
    give the first index in C order, as NumPy does. A task holds one chunk, or up to `split_every` partial results.

    Examples
    --------
    >>> import dask.array as da, smemkit.dask
    >>> x = da.arange(6, chunks=2)
    >>> float(smemkit.dask.reduce(x, "mean", device="cpu").compute())
    2.5
    """
    check_operand(x, "x")
    options = {"dtype": dtype, "initial": initial, "ddof": ddof, "kernel": kernel, "block_size": block_size}
    result = _result_dtype(x, op, axis, options)
    axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in np.atleast_1d(axis).tolist())
    state = states.STATES[op](op, result, options, device, kind_of(x), axis is None)
    _warn_of_few(x, op, axes, ddof)
    return da.reduction(
        _of_chunks(x, state, axes),
        chunk=states.itself,
        combine=state.combine,
        aggregate=state.aggregate,
        axis=axes,
        keepdims=keepdims,
        concatenate=False,
        dtype=result,
        meta=meta_of(x, x.ndim if keepdims else x.ndim - len(axes), result),
        split_every=split_every or _usual_split(x, axes),
        name=f"smemkit-{op}",
    )


def _usual_split(x: da.Array, axes: tuple[int, ...]) -> int | None:
    """`split_every` if it is not given: fewer tasks, while partial results take no more than a chunk's bytes."""
    many, result_bytes = 16, 32  # at most: two complex128, of a variance
    reduced = math.prod(x.shape[a] / x.numblocks[a] for a in axes)  # elements of a chunk for each partial result
    return many if reduced * x.dtype.itemsize >= many * result_bytes else None


def _result_dtype(x: da.Array, op: str, axis: Axis, options: dict[str, Any]) -> np.dtype:
    """The result's dtype: that of a small array, which is empty where `x` is."""
    small = np.ones(tuple(min_length(n) for n in x.shape), x.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(ops.reduce(small, op, axis, **options, device="cpu")).dtype


def min_length(n: float) -> int:
    """0 or 1; 1 for an unknown length, which is NaN."""
    return 0 if n == 0 else 1


def _warn_of_few(x: da.Array, op: str, axes: tuple[int, ...], ddof: float) -> None:
    n = np.prod([float(x.shape[axis]) for axis in axes])
    if op == "mean" and n == 0:
        warnings.warn("Mean of empty slice.", RuntimeWarning, stacklevel=4)
    if op in ("var", "std") and n <= ddof:
        warnings.warn("Degrees of freedom <= 0 for slice.", RuntimeWarning, stacklevel=4)


def _of_chunks(x: da.Array, state: states.State, axes: tuple[int, ...]) -> da.Array:
    """The states of the chunks."""
    reduce_chunk = functools.partial(state.chunk, axis=axes)
    if isinstance(state, states.First):
        if any_of(n != n for lengths in x.chunks for n in lengths):
            raise ValueError(
                f"x: expected known lengths of chunks, got {x.chunks}; compute_chunk_sizes() finds them"
            )
        reduce_chunk = functools.partial(reduce_chunk, shape=x.shape)
    chunks = tuple((1,) * len(lengths) if d in axes else lengths for d, lengths in enumerate(x.chunks))
    return x.map_blocks(
        reduce_chunk, chunks=chunks, dtype=x.dtype, meta=x._meta, token=f"smemkit-{state.op}-chunk"
    )


any_of = any  # Python's own, before the reduction of that name


def sum(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """The sum of the elements; `reduce` with ``op="sum"``, which describes the keywords.

    Examples
    --------
    >>> import dask.array as da, smemkit.dask
    >>> int(smemkit.dask.sum(da.arange(1000, chunks=100), device="cpu").compute())
    499500
    """
    return reduce(x, "sum", axis, **keywords)


def prod(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """The product of the elements; `reduce` with ``op="prod"``, which describes the keywords."""
    return reduce(x, "prod", axis, **keywords)


def min(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """The smallest element, or NaN if there is one; `reduce` with ``op="min"``, which describes the keywords."""
    return reduce(x, "min", axis, **keywords)


def max(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """The largest element, or NaN if there is one; `reduce` with ``op="max"``, which describes the keywords."""
    return reduce(x, "max", axis, **keywords)


def mean(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """The arithmetic mean; `reduce` with ``op="mean"``, which describes the keywords."""
    return reduce(x, "mean", axis, **keywords)


def var(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """The variance; `reduce` with ``op="var"``, which describes the keywords."""
    return reduce(x, "var", axis, **keywords)


def std(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """The standard deviation; `reduce` with ``op="std"``, which describes the keywords."""
    return reduce(x, "std", axis, **keywords)


def any(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """Whether an element is not 0; `reduce` with ``op="any"``, which describes the keywords."""
    return reduce(x, "any", axis, **keywords)


def all(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """Whether no element is 0; `reduce` with ``op="all"``, which describes the keywords."""
    return reduce(x, "all", axis, **keywords)


def argmin(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """The index of the smallest element; `reduce` with ``op="argmin"``, which describes the keywords."""
    return reduce(x, "argmin", axis, **keywords)


def argmax(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """The index of the largest element; `reduce` with ``op="argmax"``, which describes the keywords."""
    return reduce(x, "argmax", axis, **keywords)


def count_nonzero(x: da.Array, axis: Axis = None, **keywords: Any) -> da.Array:
    """The number of elements that are not 0; `reduce` with ``op="count_nonzero"`` describes the keywords."""
    return reduce(x, "count_nonzero", axis, **keywords)
