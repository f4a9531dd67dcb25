"""The types of the operations: NumPy's arrays give NumPy's, an `Array` gives an `Array`, `out` gives itself."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from smemkit._core import Array

_Host = NDArray[Any] | np.generic | complex | Sequence[Any]
_Axis = int | tuple[int, ...] | None
_Out = TypeVar("_Out")

@overload
def matmul(
    x1: Any,
    x2: Any,
    /,
    *,
    out: _Out,
    dtype: DTypeLike | None = None,
    precision: str = "highest",
    kernel: str | None = None,
    tile: int | None = None,
    device: str | None = None,
    stream: Any = None,
) -> _Out: ...
@overload
def matmul(
    x1: Array,
    x2: Any,
    /,
    *,
    dtype: DTypeLike | None = None,
    precision: str = "highest",
    kernel: str | None = None,
    tile: int | None = None,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Array: ...
@overload
def matmul(
    x1: _Host,
    x2: _Host,
    /,
    *,
    dtype: DTypeLike | None = None,
    precision: str = "highest",
    kernel: str | None = None,
    tile: int | None = None,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> NDArray[Any]: ...
@overload
def matmul(
    x1: Any,
    x2: Any,
    /,
    *,
    dtype: DTypeLike | None = None,
    precision: str = "highest",
    kernel: str | None = None,
    tile: int | None = None,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Any: ...

# A reduction of NumPy's arrays gives an array with keepdims=True, a scalar without an axis, and either with one.

class _Sum(Protocol):
    @overload
    def __call__(
        self,
        x: Any,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        dtype: DTypeLike | None = None,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        out: _Out,
        device: str | None = None,
        stream: Any = None,
    ) -> _Out: ...
    @overload
    def __call__(
        self,
        x: Array,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        dtype: DTypeLike | None = None,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: _Axis = None,
        *,
        keepdims: Literal[True],
        dtype: DTypeLike | None = None,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: None = None,
        *,
        keepdims: Literal[False] = False,
        dtype: DTypeLike | None = None,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> np.generic: ...
    @overload
    def __call__(
        self,
        x: Any,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        dtype: DTypeLike | None = None,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Any: ...

sum: _Sum
prod: _Sum

class _Min(Protocol):
    @overload
    def __call__(
        self,
        x: Any,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        out: _Out,
        device: str | None = None,
        stream: Any = None,
    ) -> _Out: ...
    @overload
    def __call__(
        self,
        x: Array,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: _Axis = None,
        *,
        keepdims: Literal[True],
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: None = None,
        *,
        keepdims: Literal[False] = False,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> np.generic: ...
    @overload
    def __call__(
        self,
        x: Any,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Any: ...

min: _Min
max: _Min

class _Mean(Protocol):
    @overload
    def __call__(
        self,
        x: Any,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        dtype: DTypeLike | None = None,
        out: _Out,
        device: str | None = None,
        stream: Any = None,
    ) -> _Out: ...
    @overload
    def __call__(
        self,
        x: Array,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        dtype: DTypeLike | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: _Axis = None,
        *,
        keepdims: Literal[True],
        dtype: DTypeLike | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: None = None,
        *,
        keepdims: Literal[False] = False,
        dtype: DTypeLike | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> np.generic: ...
    @overload
    def __call__(
        self,
        x: Any,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        dtype: DTypeLike | None = None,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Any: ...

mean: _Mean

class _Var(Protocol):
    @overload
    def __call__(
        self,
        x: Any,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        dtype: DTypeLike | None = None,
        ddof: float = 0,
        out: _Out,
        device: str | None = None,
        stream: Any = None,
    ) -> _Out: ...
    @overload
    def __call__(
        self,
        x: Array,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        dtype: DTypeLike | None = None,
        ddof: float = 0,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: _Axis = None,
        *,
        keepdims: Literal[True],
        dtype: DTypeLike | None = None,
        ddof: float = 0,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: None = None,
        *,
        keepdims: Literal[False] = False,
        dtype: DTypeLike | None = None,
        ddof: float = 0,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> np.generic: ...
    @overload
    def __call__(
        self,
        x: Any,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        dtype: DTypeLike | None = None,
        ddof: float = 0,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Any: ...

var: _Var
std: _Var

class _Any(Protocol):
    @overload
    def __call__(
        self,
        x: Any,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        out: _Out,
        device: str | None = None,
        stream: Any = None,
    ) -> _Out: ...
    @overload
    def __call__(
        self,
        x: Array,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: _Axis = None,
        *,
        keepdims: Literal[True],
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: None = None,
        *,
        keepdims: Literal[False] = False,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> np.generic: ...
    @overload
    def __call__(
        self,
        x: Any,
        axis: _Axis = None,
        *,
        keepdims: bool = False,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Any: ...

any: _Any
all: _Any
count_nonzero: _Any

class _ArgMin(Protocol):
    @overload
    def __call__(
        self,
        x: Any,
        axis: int | None = None,
        *,
        keepdims: bool = False,
        out: _Out,
        device: str | None = None,
        stream: Any = None,
    ) -> _Out: ...
    @overload
    def __call__(
        self,
        x: Array,
        axis: int | None = None,
        *,
        keepdims: bool = False,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: int | None = None,
        *,
        keepdims: Literal[True],
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self,
        x: _Host,
        axis: None = None,
        *,
        keepdims: Literal[False] = False,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> np.generic: ...
    @overload
    def __call__(
        self,
        x: Any,
        axis: int | None = None,
        *,
        keepdims: bool = False,
        out: None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Any: ...

argmin: _ArgMin
argmax: _ArgMin

@overload
def reduce(
    x: Any,
    /,
    op: str = "sum",
    axis: _Axis = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    ddof: float = 0,
    kernel: str | None = None,
    block_size: int | None = None,
    out: _Out,
    device: str | None = None,
    stream: Any = None,
) -> _Out: ...
@overload
def reduce(
    x: Array,
    /,
    op: str = "sum",
    axis: _Axis = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    ddof: float = 0,
    kernel: str | None = None,
    block_size: int | None = None,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Array: ...
@overload
def reduce(
    x: Any,
    /,
    op: str = "sum",
    axis: _Axis = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    ddof: float = 0,
    kernel: str | None = None,
    block_size: int | None = None,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Any: ...
@overload
def transpose(
    x: Any,
    axes: tuple[int, ...] | None = None,
    *,
    kernel: str | None = None,
    tile: int | None = None,
    pad: int | None = None,
    out: _Out,
    device: str | None = None,
    stream: Any = None,
) -> _Out: ...
@overload
def transpose(
    x: Array,
    axes: tuple[int, ...] | None = None,
    *,
    kernel: str | None = None,
    tile: int | None = None,
    pad: int | None = None,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Array: ...
@overload
def transpose(
    x: _Host,
    axes: tuple[int, ...] | None = None,
    *,
    kernel: str | None = None,
    tile: int | None = None,
    pad: int | None = None,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> NDArray[Any]: ...
@overload
def transpose(
    x: Any,
    axes: tuple[int, ...] | None = None,
    *,
    kernel: str | None = None,
    tile: int | None = None,
    pad: int | None = None,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Any: ...
@overload
def reverse(
    x: Any,
    *,
    kernel: str | None = None,
    out: _Out,
    device: str | None = None,
    stream: Any = None,
) -> _Out: ...
@overload
def reverse(
    x: Array,
    *,
    kernel: str | None = None,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Array: ...
@overload
def reverse(
    x: _Host,
    *,
    kernel: str | None = None,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> NDArray[Any]: ...
@overload
def reverse(
    x: Any,
    *,
    kernel: str | None = None,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Any: ...
@overload
def add_one(
    x: Any,
    *,
    out: _Out,
    device: str | None = None,
    stream: Any = None,
) -> _Out: ...
@overload
def add_one(
    x: Array,
    *,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Array: ...
@overload
def add_one(
    x: _Host,
    *,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> NDArray[Any]: ...
@overload
def add_one(
    x: Any,
    *,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Any: ...
@overload
def convert(
    x: Any,
    dtype: DTypeLike | None = None,
    *,
    out: _Out,
    device: str | None = None,
    stream: Any = None,
) -> _Out: ...
@overload
def convert(
    x: Array,
    dtype: DTypeLike | None = None,
    *,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Array: ...
@overload
def convert(
    x: _Host,
    dtype: DTypeLike | None = None,
    *,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> NDArray[Any]: ...
@overload
def convert(
    x: Any,
    dtype: DTypeLike | None = None,
    *,
    out: None = None,
    device: str | None = None,
    stream: Any = None,
) -> Any: ...
