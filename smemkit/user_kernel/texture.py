"""Texture objects: arrays that kernels read by coordinates, with filtering and a rule for coordinates outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemkit._core import Array
from smemkit.user_kernel.array_argument import ArrayArgument

__all__ = ["ADDRESS_MODES", "FILTERS", "Texture"]

# values of cudaTextureAddressMode and cudaTextureFilterMode
ADDRESS_MODES = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
FILTERS = {"point": 0, "linear": 1}
_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32")
_MAX_EXTENTS = {1: (131072,), 2: (65536, 131072), 3: (16384,) * 3}  # of every GPU from sm_75 on
_MAX_LINEAR = 1 << 28


class Texture(ArrayArgument):
    """An array that a kernel reads as a texture: its argument for a ``cudaTextureObject_t``.

    Shape and address modes are in NumPy's order; a kernel's coordinates are innermost first:
    ``tex2D<float>(t, x, y)`` reads near ``array[y, x]``. On a GPU the array is copied to a CUDA array for each
    launch, which then ends before the call returns; it cannot be captured.

    Parameters
    ----------
    array : numpy.ndarray or Array
        Of 1 to 3 dimensions; a last one more if there are several channels. 8, 16 or 32-bit integers, float16 or
        float32.
    filter : {"point", "linear"}
        Linear filtering interpolates between texels, with fractions of 8 bits; for texels that are read as floats.
    address : {"clamp", "border", "wrap", "mirror"} or tuple of them, one per dimension
        What coordinates outside read: the nearest texel, `border`, or the texture repeated, which takes normalized
        coordinates.
    normalized : bool
        Coordinates go from 0 to 1 across each dimension, not from 0 to its length.
    as_float : bool
        Integers of 8 and 16 bits are read as floats, unsigned ones from 0 to 1, signed ones from -1 to 1.
    border : float or tuple of 4
        The value outside, with the address mode "border".
    channels : {1, 2, 4}
        Components of a texel, the last dimension of the array: 4 for ``tex2D<float4>``.
    linear_memory : bool
        The texture is a one-dimensional piece of linear memory, which only ``tex1Dfetch`` reads.

    Raises
    ------
    TypeError, ValueError
        A rule of the CUDA Programming Guide, "Texture Object API", is violated; the message names it.

    Examples
    --------
    >>> Texture(np.zeros((4, 8), np.float32), filter="linear", address="border")
    Texture(float32, shape (4, 8), filter linear, address border)
    """

    parameter_type, parameter_bytes = "cudaTextureObject_t", 8

    def __init__(
        self,
        array: np.ndarray | Array,
        *,
        filter: str = "point",
        address: str | tuple[str, ...] = "clamp",
        normalized: bool = False,
        as_float: bool = False,
        border: float | tuple[float, ...] = 0.0,
        channels: int = 1,
        linear_memory: bool = False,
    ):
        if not isinstance(array, (np.ndarray, Array)):
            raise TypeError(f"array: expected a NumPy array or an Array, got {type(array).__name__}")
        self.array, self.filter, self.channels = array, filter, channels
        self.normalized, self.as_float, self.linear_memory = bool(normalized), bool(as_float), bool(linear_memory)
        self._check_array()
        self.address = self._read_address(address)
        self.border = _read_border(border)
        self._check_modes()

    @property
    def is_read_only(self) -> bool:
        """True: a kernel reads a texture."""
        return True

    @property
    def extent(self) -> tuple[int, ...]:
        """Texels per dimension, innermost first."""
        shape = self.array.shape if self.channels == 1 else self.array.shape[:-1]
        return tuple(shape[::-1])

    def of(self, array: np.ndarray | Array) -> Texture:
        """The same texture of another array of this shape."""
        new = object.__new__(Texture)
        new.__dict__ |= self.__dict__ | {"array": array}
        return new

    def __repr__(self) -> str:
        modes = self.address[0] if len(set(self.address)) == 1 else str(self.address)
        shape = f"{self.array.dtype.name}, shape {tuple(self.array.shape)}"
        return f"Texture({shape}, filter {self.filter}, address {modes})"

    def _check_array(self) -> None:
        array = self.array
        if array.dtype.name not in _TYPES or not array.dtype.isnative:
            raise ValueError(f"array: expected one of {', '.join(_TYPES)}, got {array.dtype}")
        if self.channels not in (1, 2, 4):
            raise ValueError(f"channels: expected 1, 2 or 4, got {self.channels!r}")
        if self.channels > 1 and (array.ndim < 2 or array.shape[-1] != self.channels):
            raise ValueError(
                f"array: expected a last dimension of {self.channels} channels, got shape {tuple(array.shape)}"
            )
        rank = len(self.extent)
        if not 1 <= rank <= (1 if self.linear_memory else 3):
            wanted = "1 dimension of linear memory" if self.linear_memory else "1 to 3 dimensions"
            raise ValueError(f"array: expected {wanted}, got {rank}")
        most = (_MAX_LINEAR,) if self.linear_memory else _MAX_EXTENTS[rank]
        if any(not 1 <= extent <= limit for extent, limit in zip(self.extent[::-1], most, strict=True)):
            raise ValueError(f"array: expected 1 to {most} texels per dimension, got {self.extent[::-1]}")

    def _read_address(self, address: Any) -> tuple[str, ...]:
        rank = len(self.extent)
        modes = (address,) * rank if isinstance(address, str) else tuple(address)
        if len(modes) != rank or any(mode not in ADDRESS_MODES for mode in modes):
            choices = ", ".join(map(repr, ADDRESS_MODES))
            raise ValueError(f"address: expected one of {choices}, or one per dimension, got {address!r}")
        return modes

    def _check_modes(self) -> None:
        dtype = self.array.dtype
        if self.filter not in FILTERS:
            raise ValueError(f"filter: expected 'point' or 'linear', got {self.filter!r}")
        if self.as_float and (dtype.kind == "f" or dtype.itemsize > 2):
            raise ValueError(f"as_float: expected integers of 8 or 16 bits, got {dtype.name}")
        if self.filter == "linear" and not (dtype.kind == "f" or self.as_float):
            raise ValueError(
                f"filter: expected 'point' for {dtype.name}, because only floats are interpolated; as_float=True "
                "reads integers of 8 and 16 bits as floats"
            )
        if {"wrap", "mirror"} & {*self.address} and not self.normalized:
            raise ValueError(f"address: expected 'clamp' or 'border' without normalized=True, got {self.address}")
        if self.linear_memory and (self.filter == "linear" or self.normalized):
            raise ValueError("linear_memory: expected filter='point' and normalized=False, which tex1Dfetch takes")


def _read_border(border: Any) -> tuple[float, ...]:
    values = tuple(map(float, border)) if isinstance(border, (tuple, list)) else (float(border),) * 4
    if len(values) != 4:
        raise ValueError(f"border: expected a number, or 4 of them, got {border!r}")
    return values
