"""Arrays in a device's memory, and the ways there and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from smemkit import _core
from smemkit._core import Array

__all__ = ["Array", "asarray", "asnumpy", "empty", "zeros"]


def asarray(obj: Any, *, dtype: DTypeLike = None, device: str | None = None, copy: bool | None = None) -> Array:
    """`obj` as an array on a device.

    Parameters
    ----------
    obj : array_like
        A NumPy array, a sequence, a scalar, or an `Array`.
    dtype : dtype, optional
        That of an operation's operand, to which the device converts; `obj`'s own if None.
    device : str, optional
        "cuda:0", "cpu"; if None, where `obj` is if it is on a device, else the default device.
    copy : bool, optional
        True: always copy. False: never, ValueError where it is necessary. None: where it is necessary.

    Returns
    -------
    Array
        C-contiguous.

    Raises
    ------
    TypeError, ValueError
        `obj` is no array, or `copy=False` cannot be kept.
    NoDeviceError
        `device` is not here.
    OutOfMemoryError
        The device's memory is full.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> x = smemkit.asarray(np.ones((2, 3), dtype=np.float32), device="cpu")
    >>> x.shape, x.device
    ((2, 3), 'cpu')
    """
    return _core.asarray(obj, dtype, device, copy)


def empty(shape: int | tuple[int, ...], dtype: DTypeLike = np.float32, *, device: str | None = None) -> Array:
    """A new array whose elements are whatever the memory held.

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
        `shape` or `dtype` is not what is required.
    NoDeviceError
        `device` is not here.
    OutOfMemoryError
        The device's memory is full.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.empty((2, 3), device="cpu").nbytes
    24
    """
    return _core.empty(shape, dtype, device)


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = np.float32, *, device: str | None = None) -> Array:
    """A new array of zeros; parameters and errors are those of `empty`.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.zeros(3, device="cpu").numpy()
    array([0., 0., 0.], dtype=float32)
    """
    return _core.zeros(shape, dtype, device)


def asnumpy(x: Any) -> np.ndarray:
    """`x` as a NumPy array, copied from its device where it is on one.

    Parameters
    ----------
    x : array_like
        An `Array`, or anything that `numpy.asarray` takes.

    Returns
    -------
    numpy.ndarray

    Raises
    ------
    TypeError
        `x` is no array.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.asnumpy(smemkit.zeros(2, device="cpu"))
    array([0., 0.], dtype=float32)
    """
    return x.numpy() if isinstance(x, Array) else np.asarray(x)
