"""The operations: names, defaults and docstrings. Each is one call into the C extension.

For all of them: operands are arrays of bool, integers, float16, bfloat16 (of ml_dtypes), float32, float64,
complex64 or complex128, with any strides, alignment and byte order. NumPy arrays and their subclasses, sequences
and scalars give plain NumPy arrays, and the call returns when the result is complete. An `Array` gives an `Array`
on its device, in stream order. So do arrays of CuPy, torch, Numba and JAX on a GPU, which are read in place
through DLPack or the CUDA Array Interface; `out` may be such an array, too, and is returned. Shapes, dtypes and
errors are NumPy's. `out` may have any layout, any dtype to which NumPy casts the result by its "same_kind" rule,
and may overlap the operands. A wrong argument raises before anything is launched or written.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike

from smemkit import _core

__all__ = [
    "add_one",
    "all",
    "any",
    "argmax",
    "argmin",
    "convert",
    "count_nonzero",
    "matmul",
    "max",
    "mean",
    "min",
    "prod",
    "reduce",
    "reverse",
    "std",
    "sum",
    "transpose",
    "var",
]

Axis = int | tuple[int, ...] | None


def matmul(
    x1: Any,
    x2: Any,
    /,
    *,
    dtype: DTypeLike = None,
    precision: str | None = None,
    kernel: str | None = None,
    tile: int | None = None,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The matrix product ``x1 @ x2``.

    Parameters
    ----------
    x1 : array_like, shape (..., m, k) or (k,)
    x2 : array_like, shape (..., k, n) or (k,)
        The dimensions before the last two are batches, which are broadcast. A vector is a row on the left and a
        column on the right; its other dimension, of length 1, is not in the result.
    dtype : dtype, optional
        The dtype of the result, to which the operands are cast ("same_kind"); if None, the dtype to which both
        promote: int8 operands give int8, which wraps around, and int32 with ``dtype="int32"``.
    precision : {"highest", "high", "medium"}, optional
        The least precision in which float32 operands may be multiplied: that of float32, TF32 (11 significant
        bits) or bfloat16 (8). None: "highest", or the precision of the kernel that is selected by name. On
        Hopper, tensor cores multiply float32 in full precision, too; they need scratch memory of two and a
        half times the operands' bytes. `smemkit.plan` shows the precision in use.
    kernel : str, optional
        A kernel's name, as `smemkit.kernels("matmul")` lists them; None: the one that suits the problem best.
        On Hopper, large products of float64 arrays on the GPU are multiplied by "wgmma_residues": as integers, on
        the tensor cores for bytes, where no row of x1 or column of x2 has a wide range of numbers; other parts of
        the result are sums in float64. Both have errors of at most (k + 2) 2^-53 ``|x1| @ |x2|``, unless numbers
        are too small for float64. It needs scratch memory of 23 bytes for each element of both operands and 15
        for each of the result, for as many rows of x1 at once as fit 4 GiB; "dmma_large", which only sums in
        float64 and multiplies NumPy arrays, needs 8 for each element of the operands.
    tile : int, optional
        Tiles of (tile, tile) elements; selects the kernel "tiled".
    out : Array or numpy.ndarray, shape (..., m, n), optional
        The array for the result.
    device : str, optional
        The device for NumPy operands: "cuda:0", "cpu"; the default device if None.
    stream : optional
        A `Stream`, a stream of torch or CuPy, an object with ``__cuda_stream__``, or a CUDA stream as an integer.
        If None, the thread's current stream (``with Stream():``), or else the default stream.

    Returns
    -------
    numpy.ndarray or Array, shape (..., m, n)
        `out` if it is given; a NumPy scalar for two vectors.

    Raises
    ------
    TypeError, ValueError
        An argument is invalid; the message names it, what was expected and what was given.
    NoDeviceError
        This machine has no such device.
    OutOfMemoryError
        The device has too little free memory.

    Notes
    -----
    Integers wrap around, as NumPy's do. For bool the sum is "or" and the product "and". float16 and bfloat16 are
    accumulated in float32 and rounded once. bfloat16 operands give bfloat16, as `numpy.result_type` says
    (`numpy.matmul` gives float32). The tiled kernel is that of the CUDA C++ Programming Guide, chapter "Shared
    Memory".

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> a = np.arange(6).reshape(2, 3)
    >>> smemkit.matmul(a, a.T, tile=16, device="cpu")
    array([[ 5, 14],
           [14, 50]])
    """
    return _core.matmul(x1, x2, dtype, precision, kernel, tile, out, device, stream)


def reduce(
    x: Any,
    /,
    op: str = "sum",
    axis: Axis = None,
    *,
    dtype: DTypeLike = None,
    keepdims: bool = False,
    initial: Any = None,
    ddof: float = 0,
    kernel: str | None = None,
    block_size: int | None = None,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The elements of `x` along some axes, combined by `op`.

    Parameters
    ----------
    x : array_like
    op : {"sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "argmin", "argmax", "count_nonzero"}
    axis : int or tuple of int, optional
        The axes to reduce; all if None. "argmin" and "argmax" take one axis, or None for indices into the
        flattened array.
    dtype : dtype, optional
        For "sum", "prod", "mean", "min", "max", "var" and "std": the dtype of the result, to which the elements
        are cast first; floating or complex for "var" and "std". If None, NumPy's: sums and products of bool and
        integers are int64 or uint64, means and variances of those float64.
    keepdims : bool
        Whether the reduced axes remain in the result, with length 1.
    initial : scalar, optional
        For "sum", "prod", "min" and "max": one more element, before the others. ValueError or OverflowError if
        the dtype of the result cannot hold it, as in NumPy.
    ddof : float
        For "var" and "std": the sum of squares is divided by n - ddof. 0 for the other operations.
    kernel : str, optional
        A kernel's name, as `smemkit.kernels("reduce")` lists them; None: the one that suits the problem best.
    block_size : int, optional
        Threads per block; selects the kernel "tree".
    out : Array or numpy.ndarray of the result's shape, optional
        The array for the result; of a signed integer dtype for "argmin" and "argmax".
    device : str, optional
        The device for a NumPy operand: "cuda:0", "cpu"; the default device if None.
    stream : optional
        A `Stream`, a stream of torch or CuPy, an object with ``__cuda_stream__``, or a CUDA stream as an integer.
        If None, the thread's current stream (``with Stream():``), or else the default stream.

    Returns
    -------
    numpy.ndarray, NumPy scalar or Array
        `out` if it is given.

    Raises
    ------
    TypeError, ValueError, OverflowError, numpy.exceptions.AxisError
        An argument is invalid, or `x` is empty and `op` has no identity; the message says which.
    NoDeviceError
        This machine has no such device.
    OutOfMemoryError
        The device has too little free memory.

    Warns
    -----
    RuntimeWarning
        "mean" of no elements, and "var" or "std" with n - ddof ≤ 0, as in NumPy.

    Notes
    -----
    NaN is less and greater than all numbers, and argmin and argmax give the first one. Complex numbers are
    ordered by their real parts, then by their imaginary ones.

    ``kernel=None`` chooses "rows" where the elements of a result are contiguous, or "small_columns" or "rowwise"
    if they are few; otherwise "columns" or "small_columns". It gives the same bits on every run, from any address.
    Its error for float32 is at most half an ulp of the result plus n·2⁻⁵³·Σ|x|; float64 sums are compensated
    (Knuth, The Art of Computer Programming 2, 4.2.2), and their error is about half an ulp of the result; plus,
    where the blocks of a long row round their sums, 2⁻⁵³·Σ|x| at most. Variances are computed around an element of
    each short segment (small integers': exactly), and combined by the formula of Chan, Golub and LeVeque (1979).
    Factors are multiplied in an order that depends on the kernel, and so does whether a partial product overflows;
    with an `initial` of 0 or infinity they are multiplied in NumPy's order, by "rowwise".

    The rungs of the ladder compute sum, prod, min and max of real dtypes over the whole array or its last axes, in
    float32 for float16, bfloat16 and float32. For everything else they raise ValueError. The tree is Mark Harris's
    ("Optimizing Parallel Reduction in CUDA", 2007).

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.reduce(np.arange(6).reshape(2, 3), "max", axis=1, device="cpu")
    array([2, 5])
    """
    return _core.reduce(x, op, axis, dtype, keepdims, initial, ddof, kernel, block_size, out, device, stream)


def sum(
    x: Any,
    axis: Axis = None,
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
    """The sum of the elements; `reduce` with ``op="sum"``, which describes the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> int(smemkit.sum(np.arange(1000), block_size=256, device="cpu"))
    499500
    """
    return _core.reduce(x, "sum", axis, dtype, keepdims, initial, 0, kernel, block_size, out, device, stream)


def prod(
    x: Any,
    axis: Axis = None,
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
    """The product of the elements; `reduce` with ``op="prod"``, which describes the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> int(smemkit.prod(np.array([2, 3, 7]), device="cpu"))
    42
    """
    return _core.reduce(x, "prod", axis, dtype, keepdims, initial, 0, kernel, block_size, out, device, stream)


def min(
    x: Any,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    kernel: str | None = None,
    block_size: int | None = None,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The smallest element, or NaN if there is one; `reduce` with ``op="min"``, which describes the
    parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> float(smemkit.min(np.array([3.0, -1.0, 2.0]), device="cpu"))
    -1.0
    """
    return _core.reduce(x, "min", axis, None, keepdims, initial, 0, kernel, block_size, out, device, stream)


def max(
    x: Any,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    kernel: str | None = None,
    block_size: int | None = None,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The largest element, or NaN if there is one; `reduce` with ``op="max"``, which describes the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> float(smemkit.max(np.array([3.0, -1.0, 2.0]), device="cpu"))
    3.0
    """
    return _core.reduce(x, "max", axis, None, keepdims, initial, 0, kernel, block_size, out, device, stream)


def mean(
    x: Any,
    axis: Axis = None,
    *,
    dtype: DTypeLike = None,
    keepdims: bool = False,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The arithmetic mean; `reduce` with ``op="mean"``, which describes the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.mean(np.array([[1, 2], [3, 5]]), axis=0, device="cpu")
    array([2. , 3.5])
    """
    return _core.reduce(x, "mean", axis, dtype, keepdims, None, 0, None, None, out, device, stream)


def var(
    x: Any,
    axis: Axis = None,
    *,
    dtype: DTypeLike = None,
    ddof: float = 0,
    keepdims: bool = False,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The variance; `reduce` with ``op="var"``, which describes the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> float(smemkit.var(np.array([1, 2, 3, 4]), ddof=1, device="cpu"))
    1.6666666666666667
    """
    return _core.reduce(x, "var", axis, dtype, keepdims, None, ddof, None, None, out, device, stream)


def std(
    x: Any,
    axis: Axis = None,
    *,
    dtype: DTypeLike = None,
    ddof: float = 0,
    keepdims: bool = False,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The standard deviation; `reduce` with ``op="std"``, which describes the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> float(smemkit.std(np.array([1, 1, 3, 3]), device="cpu"))
    1.0
    """
    return _core.reduce(x, "std", axis, dtype, keepdims, None, ddof, None, None, out, device, stream)


def any(
    x: Any,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """Whether an element is not 0; `reduce` with ``op="any"``, which describes the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.any(np.array([[0, 0], [0, 2]]), axis=1, device="cpu")
    array([False,  True])
    """
    return _core.reduce(x, "any", axis, None, keepdims, None, 0, None, None, out, device, stream)


def all(
    x: Any,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """Whether no element is 0; `reduce` with ``op="all"``, which describes the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.all(np.array([[1, 0], [3, 2]]), axis=1, device="cpu")
    array([False,  True])
    """
    return _core.reduce(x, "all", axis, None, keepdims, None, 0, None, None, out, device, stream)


def argmin(
    x: Any,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The index of the smallest element; `reduce` with ``op="argmin"``, which describes the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> int(smemkit.argmin(np.array([3, -1, 2]), device="cpu"))
    1
    """
    return _core.reduce(x, "argmin", axis, None, keepdims, None, 0, None, None, out, device, stream)


def argmax(
    x: Any,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The index of the largest element; `reduce` with ``op="argmax"``, which describes the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> int(smemkit.argmax(np.array([3, -1, 2]), device="cpu"))
    0
    """
    return _core.reduce(x, "argmax", axis, None, keepdims, None, 0, None, None, out, device, stream)


def count_nonzero(
    x: Any,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    out: Any = None,
    device: str | None = None,
    stream: Any = None,
) -> Any:
    """The number of elements that are not 0; `reduce` with ``op="count_nonzero"``, which describes the parameters.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.count_nonzero(np.array([[0, 7], [3, 2]]), axis=1, device="cpu")
    array([1, 2])
    """
    return _core.reduce(x, "count_nonzero", axis, None, keepdims, None, 0, None, None, out, device, stream)


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
    """`x` with its axes permuted, in a new C-contiguous array: not a view, as NumPy's transpose is.

    Parameters
    ----------
    x : array_like
    axes : tuple of int, optional
        Axis i of the result is axis ``axes[i]`` of `x`; in reverse order if None.
    kernel : str, optional
        A kernel's name, as `smemkit.kernels("transpose")` lists them; None: the one that suits the problem best.
        Production kernels take any permutation, and any strides of `x` and `out`. A rung swaps the last two axes,
        after adjacent axes that stay together are merged; `x` is rearranged before if the permutation needs more.
        "copy" does not transpose: it is the ceiling, and gives `x` in its own shape.
    tile : int, optional
        Tiles of (tile, tile + pad) elements in shared memory; selects the kernel "padded".
    pad : int, optional
        Columns of padding; selects the kernel "padded". With ``pad=0`` a column of the tile lies in one bank.
    out : Array or numpy.ndarray of the result's shape, optional
        The array for the result. It may be `x`: an Array of square matrices is transposed in place.
    device : str, optional
        The device for a NumPy operand: "cuda:0", "cpu"; the default device if None.
    stream : optional
        A `Stream`, a stream of torch or CuPy, an object with ``__cuda_stream__``, or a CUDA stream as an integer.
        If None, the thread's current stream (``with Stream():``), or else the default stream.

    Returns
    -------
    numpy.ndarray or Array
        With `x`'s dtype, byte order included; `out` if it is given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        An argument is invalid; the message names it, what was expected and what was given.
    NoDeviceError
        This machine has no such device.
    OutOfMemoryError
        The device has too little free memory.

    Notes
    -----
    The tile and its padding are those of Ruetsch and Micikevicius, "Optimizing Matrix Transpose in CUDA" (2009).

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.transpose(np.array([[1, 2, 3], [4, 5, 6]]), kernel="padded", device="cpu")
    array([[1, 4],
           [2, 5],
           [3, 6]])
    """
    return _core.transpose(x, axes, kernel, tile, pad, out, device, stream)


def reverse(
    x: Any, *, kernel: str | None = None, out: Any = None, device: str | None = None, stream: Any = None
) -> Any:
    """`x` with its last element first along every axis, as ``numpy.flip(x)``: the tutorials' first shared
    memory.

    Parameters
    ----------
    x : array_like
    kernel : {"static", "dynamic", "carved"}, optional
        How the shared memory is declared; "dynamic" if None.
    out : Array or numpy.ndarray of `x`'s shape, optional
        The array for the result.
    device : str, optional
        The device for a NumPy operand: "cuda:0", "cpu"; the default device if None.
    stream : optional
        A `Stream`, a stream of torch or CuPy, an object with ``__cuda_stream__``, or a CUDA stream as an integer.
        If None, the thread's current stream (``with Stream():``), or else the default stream.

    Returns
    -------
    numpy.ndarray or Array of `x`'s shape and dtype
        `out` if it is given.

    Raises
    ------
    TypeError, ValueError
        An argument is invalid; the message names it, what was expected and what was given.
    NoDeviceError
        This machine has no such device.

    Notes
    -----
    After Mark Harris, "Using Shared Memory in CUDA C/C++" (NVIDIA, 2013).

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.reverse(np.arange(5), kernel="dynamic", device="cpu")
    array([4, 3, 2, 1, 0])
    """
    return _core.reverse(x, kernel, out, device, stream)


def add_one(x: Any, *, out: Any = None, device: str | None = None, stream: Any = None) -> Any:
    """``x + 1``: the first kernel of every course. bool gives int64, as in NumPy.

    Parameters
    ----------
    x : array_like
    out : Array or numpy.ndarray of `x`'s shape, optional
        The array for the result; it may be `x`.
    device : str, optional
        The device for a NumPy operand: "cuda:0", "cpu"; the default device if None.
    stream : optional
        A `Stream`, a stream of torch or CuPy, an object with ``__cuda_stream__``, or a CUDA stream as an integer.
        If None, the thread's current stream (``with Stream():``), or else the default stream.

    Returns
    -------
    numpy.ndarray or Array of `x`'s shape
        `out` if it is given.

    Raises
    ------
    TypeError, ValueError
        An argument is invalid; the message names it, what was expected and what was given.
    NoDeviceError
        This machine has no such device.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.add_one(np.array([1, 2, 3]), device="cpu")
    array([2, 3, 4])
    """
    return _core.add_one(x, out, device, stream)


def convert(
    x: Any, dtype: DTypeLike = None, *, out: Any = None, device: str | None = None, stream: Any = None
) -> Any:
    """`x` in a new C-contiguous array of native byte order and of another dtype.

    Other operations do the same with operands that their kernels do not accept.

    Parameters
    ----------
    x : array_like
    dtype : dtype, optional
        `x`'s own if None.
    out : Array or numpy.ndarray of `x`'s shape, optional
        The array for the result.
    device : str, optional
        The device for a NumPy operand: "cuda:0", "cpu"; the default device if None.
    stream : optional
        A `Stream`, a stream of torch or CuPy, an object with ``__cuda_stream__``, or a CUDA stream as an integer.
        If None, the thread's current stream (``with Stream():``), or else the default stream.

    Returns
    -------
    numpy.ndarray or Array of `x`'s shape
        `out` if it is given.

    Raises
    ------
    TypeError, ValueError
        An argument is invalid; the message names it, what was expected and what was given.
    NoDeviceError
        This machine has no such device.
    OutOfMemoryError
        The device has too little free memory.

    Notes
    -----
    As NumPy's `astype`: integers wrap around; floats are truncated to integers; complex numbers lose their
    imaginary parts, with a warning. A float outside the integer's range, or NaN, becomes an unspecified integer,
    as in C, without a warning.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.convert(np.arange(6).reshape(2, 3)[:, ::-2], np.float32, device="cpu")
    array([[2., 0.],
           [5., 3.]], dtype=float32)
    """
    return _core.convert(x, dtype, out, device, stream)
