"""Arrays in a device's memory: creation, and conversion from and to other libraries' arrays."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from smemkit import _core
from smemkit._core import Array

__all__ = [
    "Array",
    "arange",
    "asarray",
    "asnumpy",
    "empty",
    "empty_like",
    "from_dlpack",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]

Shape = int | tuple[int, ...]

_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


def asarray(
    obj: Any, *, dtype: DTypeLike | None = None, device: str | None = None, copy: bool | None = None
) -> Array:
    """`obj` as an array on a device.

    Parameters
    ----------
    obj : array_like
        An `Array`, a NumPy array, a sequence, a scalar, or another library's array on a GPU.
    dtype : dtype, optional
        One that operations take, to which the device converts; `obj`'s own if None.
    device : str, optional
        "cuda:0", "cpu"; if None, `obj`'s device if it is on one, else the default device.
    copy : bool, optional
        True: always copy. False: never; ValueError if a copy is necessary. None: if it is necessary.

    Returns
    -------
    Array
        If no copy is needed, `obj` itself, or an Array on the memory of another library's array. A copy is
        C-contiguous.

    Raises
    ------
    TypeError, ValueError
        `obj` is not an array, or ``copy=False`` and a copy is necessary.
    NoDeviceError
        This machine has no such device.
    OutOfMemoryError
        The device has too little free memory.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> x = smemkit.asarray(np.ones((2, 3), dtype=np.float32), device="cpu")
    >>> x.shape, x.device
    ((2, 3), 'cpu')
    """
    return _core.asarray(obj, dtype, device, copy)


def empty(shape: Shape, dtype: DTypeLike = np.float32, *, device: str | None = None) -> Array:
    """A new array, whose elements are not initialised.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Returns
    -------
    Array
        C-contiguous.

    Raises
    ------
    TypeError, ValueError
        `shape` or `dtype` is invalid.
    NoDeviceError
        This machine has no such device.
    OutOfMemoryError
        The device has too little free memory.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.empty((2, 3), device="cpu").nbytes
    24
    """
    return _core.empty(shape, dtype, device)


def zeros(shape: Shape, dtype: DTypeLike = np.float32, *, device: str | None = None) -> Array:
    """A new array of zeros; parameters and errors are those of `empty`.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.zeros(3, device="cpu").numpy()
    array([0., 0., 0.], dtype=float32)
    """
    return _core.zeros(shape, dtype, device)


def ones(shape: Shape, dtype: DTypeLike = np.float32, *, device: str | None = None) -> Array:
    """A new array of ones; parameters and errors are those of `empty`.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.ones(3, device="cpu").numpy()
    array([1., 1., 1.], dtype=float32)
    """
    return full(shape, 1, dtype, device=device)


def full(shape: Shape, fill_value: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """A new array whose elements all have one value.

    Parameters
    ----------
    shape : int or tuple of int
    fill_value : scalar or array_like
        Broadcast to `shape`.
    dtype : dtype, optional
        `fill_value`'s own if None, as in NumPy: float64 for a Python float.
    device : str, optional
        "cuda:0", "cpu"; if None, that of `fill_value` if it is an `Array`, else the default device.

    Returns
    -------
    Array
        C-contiguous.

    Raises
    ------
    TypeError, ValueError, OverflowError
        `shape` or `dtype` is invalid, or `dtype` cannot hold `fill_value`.
    NoDeviceError
        This machine has no such device.
    OutOfMemoryError
        The device has too little free memory.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.full((2, 2), 7, device="cpu").numpy()
    array([[7, 7],
           [7, 7]])
    """
    if isinstance(fill_value, Array):
        device = fill_value.device if device is None else device
    elif not np.isscalar(fill_value):
        fill_value = np.asarray(fill_value)
    if dtype is None:
        dtype = fill_value.dtype if hasattr(fill_value, "dtype") else np.asarray(fill_value).dtype
    x = empty(shape, dtype, device=device)
    x[...] = fill_value
    return x


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Evenly spaced numbers: ``start``, ``start + step``, … before ``stop``, as `numpy.arange` computes them.

    Parameters
    ----------
    start, stop, step : int or float
        With one number: 0, 1, … before it.
    dtype : dtype, optional
        NumPy's if None: int64 for integers, else float64.
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Returns
    -------
    Array, shape (n,)

    Raises
    ------
    TypeError, ValueError, ZeroDivisionError
        An argument is invalid.
    NoDeviceError
        This machine has no such device.
    OutOfMemoryError
        The device has too little free memory.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.arange(3, device="cpu").numpy()
    array([0, 1, 2])
    """
    first, last = (0, start) if stop is None else (start, stop)
    return asarray(np.arange(first, last, step, dtype=dtype), device=device)


def empty_like(
    x: Any, dtype: DTypeLike | None = None, *, shape: Shape | None = None, device: str | None = None
) -> Array:
    """A new array of the shape and dtype of `x`, whose elements are not initialised.

    Parameters
    ----------
    x : array_like
    dtype : dtype, optional
        `x`'s own if None.
    shape : int or tuple of int, optional
        `x`'s own if None.
    device : str, optional
        "cuda:0", "cpu"; if None, `x`'s device if it is on one, else the default device.

    Returns
    -------
    Array
        C-contiguous, whatever the strides of `x`.

    Raises
    ------
    TypeError, ValueError
        `shape` or `dtype` is invalid, or operations do not take `x`'s.
    NoDeviceError
        This machine has no such device.
    OutOfMemoryError
        The device has too little free memory.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.empty_like(smemkit.zeros((2, 3), device="cpu"), "int8")[:0]
    Array([], shape=(0, 3), dtype=int8, device='cpu')
    """
    return _core.empty(*_like(x, dtype, shape, device))


def zeros_like(
    x: Any, dtype: DTypeLike | None = None, *, shape: Shape | None = None, device: str | None = None
) -> Array:
    """A new array of zeros of the shape and dtype of `x`; parameters and errors are those of `empty_like`.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.zeros_like(np.ones((1, 2)), device="cpu").numpy()
    array([[0., 0.]])
    """
    return _core.zeros(*_like(x, dtype, shape, device))


def ones_like(
    x: Any, dtype: DTypeLike | None = None, *, shape: Shape | None = None, device: str | None = None
) -> Array:
    """A new array of ones of the shape and dtype of `x`; parameters and errors are those of `empty_like`.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.ones_like(np.zeros((1, 2)), device="cpu").numpy()
    array([[1., 1.]])
    """
    return full_like(x, 1, dtype, shape=shape, device=device)


def full_like(
    x: Any,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    *,
    shape: Shape | None = None,
    device: str | None = None,
) -> Array:
    """A new array of the shape and dtype of `x` with `fill_value` in each element, or broadcast to them.

    The other parameters and the errors are those of `empty_like`; OverflowError if the dtype cannot hold the
    value.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> smemkit.full_like(np.zeros((1, 2)), 7, device="cpu").numpy()
    array([[7., 7.]])
    """
    shape, dtype, device = _like(x, dtype, shape, device)
    return full(shape, fill_value, dtype, device=device)


def asnumpy(x: Any) -> np.ndarray:
    """`x` as a NumPy array, copied from its device if it is on one.

    Parameters
    ----------
    x : array_like
        An `Array`, another library's array on a GPU, or anything that `numpy.asarray` takes.

    Returns
    -------
    numpy.ndarray

    Raises
    ------
    TypeError
        `x` is not an array.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.asnumpy(smemkit.zeros(2, device="cpu"))
    array([0., 0.], dtype=float32)
    """
    if isinstance(x, np.ndarray) or not (isinstance(x, Array) or _is_on_gpu(x)):
        return np.asarray(x)
    return asarray(x).numpy()


def from_dlpack(x: Any, *, device: str | None = None, copy: bool | None = None) -> Array:
    """An array of another library as an `Array` on the same memory, by DLPack.

    Operations take such arrays without it; this is for the methods of `Array`.

    Parameters
    ----------
    x : object
        Has ``__dlpack__`` and ``__dlpack_device__``, as arrays of NumPy, CuPy, torch and JAX have. An array in
        host memory becomes an `Array` of the CPU device.
    device : str, optional
        "cuda:0", "cpu"; the array's own device if None.
    copy : bool, optional
        True: always copy. False: never; ValueError if a copy is necessary. None: if `device` is another one.

    Returns
    -------
    Array
        With the strides of `x`; both see what is written to either. Read-only if `x` is.

    Raises
    ------
    TypeError, ValueError, BufferError
        `x` does not support DLPack, does not export its memory, or has a dtype that smemkit does not have; or
        ``copy=False`` and a copy is necessary.
    NoDeviceError
        This machine has no such device, or smemkit cannot use `x`'s.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> x = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> y = smemkit.from_dlpack(x.T)
    >>> y.shape, y.strides, y.device
    ((3, 2), (4, 12), 'cpu')
    >>> x[0, 1] = 7
    >>> smemkit.sum(y).item()
    21.0

    References
    ----------
    The Python array API standard, `from_dlpack`.
    """
    return _core.from_dlpack(x, device, copy)


def _like(
    x: Any, dtype: DTypeLike, shape: Shape | None, device: str | None
) -> tuple[Shape, DTypeLike, str | None]:
    """The shape, the dtype and the device of a new array like `x`."""
    if not isinstance(x, Array):
        x = asarray(x) if _is_on_gpu(x) else np.asarray(x)
    if device is None and isinstance(x, Array):
        device = x.device
    return x.shape if shape is None else shape, x.dtype if dtype is None else dtype, device


def _is_on_gpu(x: Any) -> bool:
    """Whether another library's array is in a GPU's memory."""
    if hasattr(x, "__cuda_array_interface__"):
        return True
    return hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] in _DLPACK_CUDA


# ---- called by the C type --------------------------------------------------------------------------------------


def _rebuild(values: np.ndarray, device: str) -> Array:
    """An array from its pickle; on the CPU device if its own is not available, so that the values can be read."""
    try:
        return _core.asarray(values, None, device, True)
    except _core.NoDeviceError as error:
        warnings.warn(
            f"an Array pickled on {device} is put on the CPU device: {error}", RuntimeWarning, stacklevel=2
        )
        return _core.asarray(values, None, "cpu", True)


def _repr(x: Array) -> str:
    text, shortened = _format_elements(x, "Array(", ", ")
    dtype = "bool" if x.dtype == bool else x.dtype.name
    facts = f"dtype={dtype}, device='{x.device}')"
    if shortened or (x.size == 0 and x.shape != (0,)):
        facts = f"shape={x.shape}, {facts}"
    last = len(text) - text.rfind("\n") - 1 + (0 if "\n" in text else len("Array("))
    fits = last + len(", ") + len(facts) <= np.get_printoptions()["linewidth"]
    return f"Array({text},{' ' if fits else chr(10) + ' ' * len('Array(')}{facts}"


def _str(x: Array) -> str:
    return _format_elements(x, "", " ")[0] if x.ndim else str(x.numpy()[()])  # a number, as NumPy prints it


def _format_elements(x: Array, prefix: str, separator: str) -> tuple[str, bool]:
    """The elements as NumPy prints them, and whether some are left out. Only printed elements are copied."""
    options = np.get_printoptions()
    edge, shortened = options["edgeitems"], x.size > options["threshold"]
    if x.size == 0:
        return "[]", False
    values = _leading_trailing(x, edge) if shortened else x.numpy()
    threshold = 0 if shortened else options["threshold"]
    return np.array2string(values, separator=separator, prefix=prefix, threshold=threshold), shortened


def _leading_trailing(x: Array, edge: int) -> np.ndarray:
    """The first and last elements along each axis: those that are printed, and one that becomes the dots."""
    kept = [min(length, 2 * edge + 1) for length in x.shape]
    values = np.empty(kept, x.dtype)
    parts = [
        [(slice(None), slice(None))]
        if length == few
        else [(slice(edge + 1), slice(edge + 1)), (slice(edge + 1, None), slice(length - edge, None))]
        for length, few in zip(x.shape, kept, strict=True)
    ]
    for part in itertools.product(*parts):
        values[tuple(to for to, _ in part)] = x[tuple(of for _, of in part)].numpy()
    return values
