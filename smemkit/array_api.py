"""The part of the array API standard that smemkit implements: what ``Array.__array_namespace__()`` returns.

The functions are those of `smemkit`, with the standard's names, signatures and default dtypes (float64 and int64).
Those that smemkit does not have are absent. See https://data-apis.org/array-api.
"""

from __future__ import annotations

import builtins
import dataclasses
import operator
import sys
from typing import Any

import numpy as np

from smemkit import _core, arrays, ops
from smemkit._core import Array
from smemkit.arrays import arange, asarray, empty_like, from_dlpack, full, full_like, ones_like, zeros_like
from smemkit.ops import all, any, argmax, argmin, count_nonzero, matmul, max, mean, min, prod, sum

__array_api_version__ = "2024.12"
_VERSIONS = ("2022.12", "2023.12", "2024.12")

e, inf, nan, newaxis, pi = np.e, np.inf, np.nan, None, np.pi

bool = np.dtype("bool")  # the dtype, as the standard calls it; Python's is builtins.bool
int8, int16, int32, int64 = (np.dtype(name) for name in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (np.dtype(name) for name in ("uint8", "uint16", "uint32", "uint64"))
float32, float64 = np.dtype("float32"), np.dtype("float64")
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

__all__ = [
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asarray",
    "astype",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "count_nonzero",
    "divide",
    "e",
    "empty",
    "empty_like",
    "equal",
    "finfo",
    "float32",
    "float64",
    "from_dlpack",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "iinfo",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "isfinite",
    "isnan",
    "less",
    "less_equal",
    "matmul",
    "matrix_transpose",
    "max",
    "mean",
    "min",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "not_equal",
    "ones",
    "ones_like",
    "permute_dims",
    "pi",
    "prod",
    "reshape",
    "result_type",
    "squeeze",
    "std",
    "subtract",
    "sum",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "var",
    "zeros",
    "zeros_like",
]


def _namespace(*, api_version: str | None = None) -> Any:
    """This module: what `Array.__array_namespace__` returns."""
    if api_version not in (None, *_VERSIONS):
        raise ValueError(f"api_version: expected None or one of {', '.join(_VERSIONS)}, got {api_version!r}")
    return sys.modules[__name__]


# ---- creation --------------------------------------------------------------------------------------------------


def empty(shape: Any, *, dtype: Any = None, device: str | None = None) -> Array:
    """`smemkit.empty`; float64 without a dtype."""
    return arrays.empty(shape, float64 if dtype is None else dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: str | None = None) -> Array:
    """`smemkit.zeros`; float64 without a dtype."""
    return arrays.zeros(shape, float64 if dtype is None else dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: str | None = None) -> Array:
    """`smemkit.ones`; float64 without a dtype."""
    return arrays.ones(shape, float64 if dtype is None else dtype, device=device)


# ---- element by element ----------------------------------------------------------------------------------------


def _operator(name: str, function: Any) -> Any:
    def apply(x1: Any, x2: Any, /) -> Array:
        if not isinstance(x1, Array) and not isinstance(x2, Array):
            raise TypeError(f"{name}: expected an Array and an Array or a number; asarray() converts")
        return function(x1, x2)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"The operator of `Array`, element by element: `operator.{function.__name__}`."
    return apply


add = _operator("add", operator.add)
subtract = _operator("subtract", operator.sub)
multiply = _operator("multiply", operator.mul)
divide = _operator("divide", operator.truediv)
equal = _operator("equal", operator.eq)
not_equal = _operator("not_equal", operator.ne)
less = _operator("less", operator.lt)
less_equal = _operator("less_equal", operator.le)
greater = _operator("greater", operator.gt)
greater_equal = _operator("greater_equal", operator.ge)


def negative(x: Array, /) -> Array:
    """``-x``"""
    return -x


def isnan(x: Array, /) -> Array:
    """Whether an element is NaN: it differs from itself."""
    return x != x


def isfinite(x: Array, /) -> Array:
    """Whether an element is neither NaN nor infinite: its difference to itself is 0."""
    return x == x if x.dtype.kind in "biu" else x - x == 0


# ---- reductions ------------------------------------------------------------------------------------------------


def var(x: Array, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Array:
    """`smemkit.var` with ``ddof=correction``."""
    return ops.var(x, axis, ddof=correction, keepdims=keepdims)


def std(x: Array, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Array:
    """`smemkit.std` with ``ddof=correction``."""
    return ops.std(x, axis, ddof=correction, keepdims=keepdims)


# ---- shapes ----------------------------------------------------------------------------------------------------


def matrix_transpose(x: Array, /) -> Array:
    """A view with the last two axes exchanged."""
    return x.mT


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """A view with permuted axes."""
    return x.transpose(axes)


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: builtins.bool | None = None) -> Array:
    """`Array.reshape`; ValueError if ``copy=False`` and strides cannot express the shape."""
    result = (x.copy() if copy else x).reshape(shape)
    if copy is False and result.size and result.address != x.address:
        raise ValueError(f"copy: False is impossible, shape {shape} of these strides takes a copy")
    return result


def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """A view without these axes, of length 1."""
    return x.squeeze(axis)


# ---- dtypes ----------------------------------------------------------------------------------------------------


def astype(x: Array, dtype: Any, /, *, copy: builtins.bool = True, device: str | None = None) -> Array:
    """`Array.astype`, then `Array.to`."""
    result = x.astype(dtype, copy=copy)
    return result if device is None else result.to(device)


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether each value of a dtype, or an Array's, is also one of another dtype."""
    return np.can_cast(from_.dtype if isinstance(from_, Array) else from_, to)


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """`numpy.isdtype`"""
    return np.isdtype(dtype, kind)


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype to which these promote."""
    return np.result_type(*(x.dtype if isinstance(x, Array) else x for x in arrays_and_dtypes))


@dataclasses.dataclass(frozen=True)
class _FloatInfo:
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype


@dataclasses.dataclass(frozen=True)
class _IntegerInfo:
    bits: int
    max: int
    min: int
    dtype: np.dtype


def finfo(type: Any, /) -> _FloatInfo:
    """The limits of a floating dtype, or of a complex one's parts."""
    info = np.finfo(type.dtype if isinstance(type, Array) else type)
    limits = (float(getattr(info, name)) for name in ("eps", "max", "min", "smallest_normal"))
    return _FloatInfo(info.bits, *limits, info.dtype)


def iinfo(type: Any, /) -> _IntegerInfo:
    """The limits of an integer dtype."""
    info = np.iinfo(type.dtype if isinstance(type, Array) else type)
    return _IntegerInfo(info.bits, int(info.max), int(info.min), info.dtype)


# ---- inspection ------------------------------------------------------------------------------------------------

_KINDS = {
    "bool": [bool],
    "signed integer": [int8, int16, int32, int64],
    "unsigned integer": [uint8, uint16, uint32, uint64],
    "real floating": [float32, float64],
    "complex floating": [complex64, complex128],
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class _Info:
    """What the standard requires of `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> str:
        return _core.default_device()

    def devices(self) -> list[str]:
        return _core.device_names()

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype]:
        return {
            "real floating": float64,
            "complex floating": complex128,
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, np.dtype]:
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for name in kinds:
            if name not in _KINDS:
                raise ValueError(f"kind: expected one of {', '.join(_KINDS)}, got {name!r}")
        return {dtype.name: dtype for name in kinds for dtype in _KINDS[name]}


def __array_namespace_info__() -> _Info:  # noqa: N807  the standard's name
    """The namespace's defaults, devices and dtypes."""
    return _Info()
