"""What NumPy's functions do with an `Array`: those that smemkit has run on the array's device and give an `Array`.

The others raise TypeError. NEP 18 describes `__array_function__`, which calls this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smemkit import arrays, ops
from smemkit._core import Array

__all__: list[str] = []


class _RefusedError(TypeError):
    """A function, or an option of it, that an `Array` does not have."""

    def __init__(self, function: Callable, what: str):
        name = f"{function.__module__}.{function.__name__}"
        super().__init__(f"{name}: does not accept {what}; asarray() and .numpy() convert")


def call(function: Callable, types: tuple[type, ...], args: tuple, kwargs: dict[str, Any]) -> Any:
    """`function(*args, **kwargs)`, one of NumPy's, with an `Array` among the arguments."""
    if not all(issubclass(kind, Array | np.ndarray) for kind in types):
        return NotImplemented
    if function not in _FUNCTIONS:
        raise _RefusedError(function, "a smemkit.Array")
    return _FUNCTIONS[function](*args, **kwargs)


# ---- reductions ------------------------------------------------------------------------------------------------

_SUM = ("axis", "dtype", "out", "keepdims", "initial", "where")
_MIN = ("axis", "out", "keepdims", "initial", "where")
_VAR = ("axis", "dtype", "out", "ddof", "keepdims")
_ANY = ("axis", "out", "keepdims")
_REDUCTIONS = {  # NumPy's function, ours, and the names of NumPy's parameters
    np.sum: (ops.sum, _SUM),
    np.prod: (ops.prod, _SUM),
    np.min: (ops.min, _MIN),
    np.max: (ops.max, _MIN),
    np.amin: (ops.min, _MIN),
    np.amax: (ops.max, _MIN),
    np.mean: (ops.mean, _SUM[:4]),
    np.var: (ops.var, _VAR),
    np.std: (ops.std, _VAR),
    np.any: (ops.any, _ANY),
    np.all: (ops.all, _ANY),
    np.argmin: (ops.argmin, _ANY),
    np.argmax: (ops.argmax, _ANY),
    np.count_nonzero: (ops.count_nonzero, ("axis", "keepdims")),
}
_OPTIONS = {"axis", "dtype", "out", "keepdims", "initial", "ddof"}


def _reduction(function: Callable) -> Callable:
    ours, names = _REDUCTIONS[function]

    def reduced(a: Any, *positional: Any, **keywords: Any) -> Any:
        options = dict(zip(names, positional, strict=False)) | keywords
        for name in options:
            if name not in names or name not in _OPTIONS:
                raise _RefusedError(function, f"{name!r} with a smemkit.Array")
        return ours(a, **options)

    return reduced


# ---- shapes and copies -----------------------------------------------------------------------------------------


def _in_c_order(function: Callable, order: str) -> None:
    if order not in ("C", "K", "A"):
        raise _RefusedError(function, f"order={order!r} with a smemkit.Array")


def _reshape(a: Array, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    _in_c_order(np.reshape, order)
    if copy is not None:
        raise _RefusedError(np.reshape, "'copy' with a smemkit.Array")
    return a.reshape(shape)


def _ravel(a: Array, order: str = "C") -> Array:
    _in_c_order(np.ravel, order)
    return a.ravel()


def _copy(a: Array, order: str = "K", subok: bool = False) -> Array:
    _in_c_order(np.copy, order)
    return a.copy()


def _size(a: Array, axis: int | tuple[int, ...] | None = None) -> int:
    if axis is None:
        return a.size
    size = 1
    for index in axis if isinstance(axis, tuple) else (axis,):
        size *= a.shape[index]
    return size


def _like(function: Callable, ours: Callable) -> Callable:
    def created(x: Any, *args: Any, order: str = "K", subok: bool = True, **keywords: Any) -> Array:
        _in_c_order(function, order)
        return ours(x, *args, **keywords)

    return created


# ---- dtypes ----------------------------------------------------------------------------------------------------


def _dtype_or_self(x: Any) -> Any:
    return x.dtype if isinstance(x, Array) else x


def _result_type(*operands: Any) -> np.dtype:
    return np.result_type(*map(_dtype_or_self, operands))


def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(_dtype_or_self(from_), to, casting)


_FUNCTIONS: dict[Callable, Callable] = {
    **{function: _reduction(function) for function in _REDUCTIONS},
    np.transpose: lambda a, axes=None: a.transpose(axes),
    np.matrix_transpose: lambda x, /: x.mT,
    np.reshape: _reshape,
    np.ravel: _ravel,
    np.squeeze: lambda a, axis=None: a.squeeze(axis),
    np.copy: _copy,
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: _size,
    np.empty_like: _like(np.empty_like, arrays.empty_like),
    np.zeros_like: _like(np.zeros_like, arrays.zeros_like),
    np.ones_like: _like(np.ones_like, arrays.ones_like),
    np.full_like: _like(np.full_like, arrays.full_like),
    np.result_type: _result_type,
    np.can_cast: _can_cast,
    np.iscomplexobj: lambda x: x.dtype.kind == "c",
    np.isrealobj: lambda x: x.dtype.kind != "c",
}
if hasattr(np, "astype"):  # since NumPy 2.1
    _FUNCTIONS[np.astype] = lambda x, dtype, /, *, copy=True: x.astype(dtype, copy=copy)
