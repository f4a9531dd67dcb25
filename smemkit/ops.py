"""The operations: names, defaults and docstrings. Each is one call into the C extension.

What holds for all of them: NumPy operands give NumPy results, and the call returns when they are there;
an `Array` gives an `Array` on its device, in the order of the stream. Operands are C-contiguous, of dtype
float32 or int32, and of one device. A wrong argument raises before anything is launched or written.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike

from smemkit import _core

__all__ = ["add_one", "matmul", "max", "min", "reduce", "reverse", "sum", "transpose"]


def matmul(
    x1: Any,
    x2: Any,
    /,
    *,
    dtype: DTypeLike = None,
    precision: str = "highest",
    kernel: str | None = None,
    tile: int | None = None,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The matrix product ``x1 @ x2``.

    Parameters
    ----------
    x1 : array_like of float32 or int32, shape (m, k)
    x2 : array_like of the same dtype, shape (k, n)
    dtype : dtype, optional
        Of the result; the operands' if None.
    precision : {"highest"}
        The arithmetic for float32 operands: "highest" is that of float32.
    kernel : str, optional
        A rung of the ladder, as `smemkit.kernels("matmul")` lists them; the fastest for this device if None.
    tile : int, optional
        The tile is (tile, tile); it selects the kernel "tiled".
    out : Array or numpy.ndarray, shape (m, n), optional
        Where the result goes; of the result's dtype.
    device : str, optional
        Where NumPy operands are multiplied: "cuda:0", "cpu"; the default device if None.
    stream : optional
        A CUDA stream as an integer; the default stream if None.

    Returns
    -------
    numpy.ndarray or Array, shape (m, n)
        `out` where it is given.

    Raises
    ------
    TypeError, ValueError
        An argument is not what is required; the message names it.
    NoDeviceError
        `device` is not here.

    Notes
    -----
    Integers wrap around, as NumPy's do. The tiled kernel is that of the CUDA C++ Programming Guide, chapter
    "Shared Memory".

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> a = np.arange(6, dtype=np.int32).reshape(2, 3)
    >>> smemkit.matmul(a, a.T.copy(), tile=16, device="cpu")
    array([[ 5, 14],
           [14, 50]], dtype=int32)
    """
    return _core.matmul(x1, x2, dtype, precision, kernel, tile, out, device, stream)


def reduce(
    x: Any,
    /,
    op: str = "sum",
    axis: int | tuple[int, ...] | None = None,
    *,
    dtype: DTypeLike = None,
    keepdims: bool = False,
    initial: Any = None,
    kernel: str | None = None,
    block_size: int | None = None,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """All elements of `x`, combined by `op`.

    Parameters
    ----------
    x : array_like of float32 or int32, any shape
    op : {"sum", "min", "max"}
    axis : None
        The whole array is reduced.
    dtype : dtype, optional
        Of the result. If None, NumPy's: int64 for sums of int32, `x`'s otherwise.
    keepdims : bool
        Whether the result has as many dimensions as `x`, each of length 1.
    initial : scalar, optional
        Not in this version: None.
    kernel : str, optional
        A rung of the ladder, as `smemkit.kernels("reduce")` lists them; the fastest for this device if None.
    block_size : int, optional
        Threads a block; it selects the kernel "tree".
    out : Array or numpy.ndarray, shape (), optional
        Where the result goes; of the result's dtype.
    device : str, optional
        Where a NumPy operand is reduced: "cuda:0", "cpu"; the default device if None.
    stream : optional
        A CUDA stream as an integer; the default stream if None.

    Returns
    -------
    NumPy scalar, or Array of shape ()
        `out` where it is given.

    Raises
    ------
    TypeError, ValueError
        An argument is not what is required, or `x` is empty and `op` has no identity; the message says which.
    NoDeviceError
        `device` is not here.

    Notes
    -----
    ``kernel=None`` gives the same bits on every run, and sums float32 with an error of at most half an ulp
    of the result and n·2⁻⁵³·Σ|x|. The tree is Mark Harris's ("Optimizing Parallel Reduction in CUDA", 2007).

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> int(smemkit.reduce(np.arange(10, dtype=np.int32), "max", device="cpu"))
    9
    """
    return _core.reduce(x, op, axis, dtype, keepdims, initial, kernel, block_size, out, device, stream)


def sum(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    *,
    dtype: DTypeLike = None,
    keepdims: bool = False,
    initial: Any = None,
    kernel: str | None = None,
    block_size: int | None = None,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The sum of all elements; `reduce` with ``op="sum"``, which explains the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> int(smemkit.sum(np.arange(1000, dtype=np.int32), block_size=256, device="cpu"))
    499500
    """
    return _core.reduce(x, "sum", axis, dtype, keepdims, initial, kernel, block_size, out, device, stream)


def min(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    kernel: str | None = None,
    block_size: int | None = None,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The smallest element, or NaN where there is one; `reduce` with ``op="min"``, which explains the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> float(smemkit.min(np.array([3, -1, 2], dtype=np.float32), device="cpu"))
    -1.0
    """
    return _core.reduce(x, "min", axis, None, keepdims, initial, kernel, block_size, out, device, stream)


def max(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    kernel: str | None = None,
    block_size: int | None = None,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The largest element, or NaN where there is one; `reduce` with ``op="max"``, which explains the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> float(smemkit.max(np.array([3, -1, 2], dtype=np.float32), device="cpu"))
    3.0
    """
    return _core.reduce(x, "max", axis, None, keepdims, initial, kernel, block_size, out, device, stream)


def transpose(
    x: Any,
    axes: tuple[int, ...] | None = None,
    *,
    kernel: str | None = None,
    tile: int | None = None,
    pad: int | None = None,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """`x` turned, in a new C-contiguous array: not a view, as NumPy's transpose is.

    Parameters
    ----------
    x : array_like of float32 or int32, shape (rows, columns)
    axes : tuple of int, optional
        None or (1, 0).
    kernel : str, optional
        A rung of the ladder, as `smemkit.kernels("transpose")` lists them; the fastest for this device if None.
        "copy" is no transpose but the ceiling of one: it gives back `x`'s own shape.
    tile : int, optional
        The tile in shared memory is (tile, tile + pad); it selects the kernel "padded".
    pad : int, optional
        Columns of padding; it selects the kernel "padded". With ``pad=0`` a column of the tile lies in one bank.
    out : Array or numpy.ndarray, shape (columns, rows), optional
        Where the result goes; of `x`'s dtype.
    device : str, optional
        Where a NumPy operand is turned: "cuda:0", "cpu"; the default device if None.
    stream : optional
        A CUDA stream as an integer; the default stream if None.

    Returns
    -------
    numpy.ndarray or Array, shape (columns, rows)
        `out` where it is given.

    Raises
    ------
    TypeError, ValueError
        An argument is not what is required; the message names it.
    NoDeviceError
        `device` is not here.

    Notes
    -----
    The tile and its padding are those of Ruetsch and Micikevicius, "Optimizing Matrix Transpose in CUDA" (2009).

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.transpose(np.array([[1, 2, 3], [4, 5, 6]], dtype=np.int32), kernel="padded", device="cpu")
    array([[1, 4],
           [2, 5],
           [3, 6]], dtype=int32)
    """
    return _core.transpose(x, axes, kernel, tile, pad, out, device, stream)


def reverse(x: Any, *, kernel: str | None = None, device: str | None = None, stream: Any = None) -> Any:
    """`x` with its last element first, as ``numpy.flip(x)``: the tutorials' first use of shared memory.

    Parameters
    ----------
    x : array_like of float32 or int32, of any shape
    kernel : {"static", "dynamic", "carved"}, optional
        How the shared memory is declared; the planner's choice if None.
    device : str, optional
        Where a NumPy operand is reversed: "cuda:0", "cpu"; the default device if None.
    stream : optional
        A CUDA stream as an integer; the default stream if None.

    Returns
    -------
    numpy.ndarray or Array, of x's shape

    Raises
    ------
    TypeError, ValueError
        An argument is not what is required; the message names it.
    NoDeviceError
        `device` is not here.

    Notes
    -----
    After Mark Harris, "Using Shared Memory in CUDA C/C++" (NVIDIA, 2013).

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.reverse(np.arange(5, dtype=np.int32), kernel="dynamic", device="cpu")
    array([4, 3, 2, 1, 0], dtype=int32)
    """
    return _core.reverse(x, kernel, device, stream)


def add_one(x: Any, *, out: Any = None, device: str | None = None, stream: Any = None) -> Any:
    """`x` with 1 added to every element: the first kernel of every course.

    Parameters
    ----------
    x : array_like of float32 or int32, any shape
    out : Array or numpy.ndarray of `x`'s shape and dtype, optional
        Where the result goes; `x` itself is allowed.
    device : str, optional
        Where a NumPy operand is computed: "cuda:0", "cpu"; the default device if None.
    stream : optional
        A CUDA stream as an integer; the default stream if None.

    Returns
    -------
    numpy.ndarray or Array of `x`'s shape
        `out` where it is given.

    Raises
    ------
    TypeError, ValueError
        An argument is not what is required; the message names it.
    NoDeviceError
        `device` is not here.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.add_one(np.array([1, 2, 3], dtype=np.int32), device="cpu")
    array([2, 3, 4], dtype=int32)
    """
    return _core.add_one(x, out, device, stream)
