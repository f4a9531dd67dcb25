"""Arguments that describe an array: a kernel takes the description by value, and its memory with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smemkit._core import Array

__all__ = ["ArrayArgument", "arrays_of", "reach", "with_arrays"]


class ArrayArgument:
    """Describes an array to a kernel.

    Attributes
    ----------
    array : numpy.ndarray or Array
    parameter_type : str
        What the kernel's parameter is declared as.
    parameter_bytes : int
    """

    array: np.ndarray | Array
    parameter_type: str
    parameter_bytes: int

    @property
    def is_read_only(self) -> bool:
        """Whether a kernel cannot write the array through it."""
        array = self.array
        return not array.flags.writeable if isinstance(array, np.ndarray) else array.readonly

    def of(self, array: np.ndarray | Array) -> ArrayArgument:
        """The same description of another array of this shape."""
        raise NotImplementedError


def reach(itemsize: int, shape: Sequence[int], strides: Sequence[int]) -> int:
    """The bytes from the first element of an array to its last one, whose strides are not negative."""
    return itemsize + sum(stride * (extent - 1) for stride, extent in zip(strides, shape, strict=True))


def arrays_of(args: Sequence[Any]) -> list[Any]:
    """The arguments of a launch, with the arrays themselves instead of the objects that describe them."""
    return [arg.array if isinstance(arg, ArrayArgument) else arg for arg in args]


def with_arrays(args: Sequence[Any], copies: Sequence[Any]) -> list[Any]:
    """The arguments of a launch with other arrays: copies of those that arrays_of has returned."""
    return [
        arg.of(copy) if isinstance(arg, ArrayArgument) else copy for arg, copy in zip(args, copies, strict=True)
    ]
