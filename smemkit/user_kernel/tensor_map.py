"""Tensor maps: what the tensor memory accelerator must know of an array, for ``cp.async.bulk.tensor``."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

import numpy as np

from smemkit._core import Array
from smemkit._core import Error as SmemkitError
from smemkit.user_kernel.array_argument import ArrayArgument, reach

__all__ = ["TensorMap"]

_MAP_BYTES = 128
_MAGIC = 0x70614D726F736E54  # SMEMKIT_TENSOR_MAGIC of csrc/executor/ptx.h
_MAX_RANK, _MAX_BOX, _MAX_STEP, _MAX_SHARED = 5, 256, 8, 227 * 1024
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_GRAIN = 16  # bytes
# the driver's CUtensorMapDataType
_TYPES = {
    "uint8": 0,
    "int8": 0,
    "uint16": 1,
    "int16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
}
_TF32 = 11
_WITH_NAN = ("float16", "bfloat16", "float32", "float64")


class TensorMap(ArrayArgument):
    """An array and the box of it that one tensor copy moves: a kernel's ``const __grid_constant__ CUtensorMap``.

    Shape and box are in NumPy's order; a kernel's coordinates are innermost first. The rules are the driver's, of
    ``cuTensorMapEncodeTiled``. The array may have gaps, as ``x[:, :64]`` has: a copy moves none of what lies in
    them.

    Parameters
    ----------
    array : numpy.ndarray or Array
        NumPy's is copied to the device for each launch, and back if it is writeable.
    box : sequence of int
        Elements per dimension, at most 256. The box of a copy begins at a multiple of 16 bytes in the last
        dimension.
    swizzle : {0, 32, 64, 128}
        Bytes of the pattern by which chunks of 16 bytes are exchanged in shared memory. A row of the box has at
        most as many; the rows of shared memory have as many.
    fill : {"zeros", "nan"}
        What elements outside the array are read as. Every 16 bits of the NaN are 0x7ff7, in all types.
    strides : sequence of int, optional
        Bytes between elements in each dimension; those of the array if they are left out, as they must be if
        it has gaps.
    element_strides : sequence of int, optional
        Steps of 1 to 8 elements from one element of the box to the next, 1 in the last dimension: shared memory
        receives one in so many. All 1 if they are left out.
    tf32 : bool
        Elements are float32, and a load rounds them to TF32: to 10 bits of fraction, ties to even. The map is for
        loads only.

    Raises
    ------
    ValueError
        A rule is violated; the message names it.

    Examples
    --------
    >>> TensorMap(np.zeros((64, 32), np.float32), (8, 32), swizzle=128)
    TensorMap(float32, shape (64, 32), box (8, 32), swizzle 128)
    """

    parameter_type, parameter_bytes = "CUtensorMap", _MAP_BYTES

    def __init__(
        self,
        array: np.ndarray | Array,
        box: tuple[int, ...],
        *,
        swizzle: int = 0,
        fill: str = "zeros",
        strides: tuple[int, ...] | None = None,
        element_strides: tuple[int, ...] | None = None,
        tf32: bool = False,
    ):
        if not isinstance(array, (np.ndarray, Array)):
            raise TypeError(f"array: expected a NumPy array or an Array, got {type(array).__name__}")
        self.array, self.box = array, tuple(int(extent) for extent in box)
        self.swizzle, self.fill, self.tf32 = swizzle, fill, bool(tf32)
        self._own_strides = strides is None
        self.strides = tuple(int(stride) for stride in (array.strides if strides is None else strides))
        self.element_strides = tuple(map(int, (1,) * array.ndim if element_strides is None else element_strides))
        self._check()

    def of(self, array: np.ndarray | Array) -> TensorMap:
        """The same map of another array of this shape."""
        return TensorMap(
            array,
            self.box,
            swizzle=self.swizzle,
            fill=self.fill,
            strides=None if self._own_strides else self.strides,
            element_strides=self.element_strides,
            tf32=self.tf32,
        )

    def __repr__(self) -> str:
        array = self.array
        facts = [array.dtype.name, f"shape {tuple(array.shape)}", f"box {self.box}", f"swizzle {self.swizzle}"]
        if self.strides != tuple(array.strides):
            facts.append(f"strides {self.strides}")
        if set(self.element_strides) != {1}:
            facts.append(f"element strides {self.element_strides}")
        if self.tf32:
            facts.append("rounded to TF32")
        return f"TensorMap({', '.join(facts)})"

    def _check(self) -> None:
        array, size, rank = self.array, self.array.dtype.itemsize, self.array.ndim
        if array.dtype.name not in _TYPES or not array.dtype.isnative:
            raise ValueError(f"array: expected one of {', '.join(_TYPES)}, got {array.dtype}")
        if not 1 <= rank <= _MAX_RANK:
            raise ValueError(f"array: expected 1 to {_MAX_RANK} dimensions, got {rank}")
        if any(not 1 <= extent < 1 << 32 for extent in array.shape):
            raise ValueError(f"array: expected dimensions of 1 to 2**32 - 1, got shape {tuple(array.shape)}")
        per_dimension = {"box": self.box, "strides": self.strides, "element_strides": self.element_strides}
        for name, values in per_dimension.items():
            if len(values) != rank:
                raise ValueError(f"{name}: expected {rank} numbers, one per dimension, got {len(values)}")
        if any(not 1 <= extent <= _MAX_BOX for extent in self.box):
            raise ValueError(f"box: expected 1 to {_MAX_BOX} elements per dimension, got {self.box}")
        steps = self.element_strides
        if any(not 1 <= step <= _MAX_STEP for step in steps) or steps[-1] != 1:
            raise ValueError(
                f"element_strides: expected 1 to {_MAX_STEP}, and 1 in the last dimension, got {steps}"
            )
        inner = self.box[-1] * size
        if inner % _GRAIN:
            raise ValueError(f"box: expected rows of a multiple of {_GRAIN} bytes, got {inner} bytes")
        elements = math.prod(-(-extent // step) for extent, step in zip(self.box, steps, strict=True))
        if elements * size > _MAX_SHARED:
            raise ValueError(f"box: expected at most {_MAX_SHARED} bytes, got {elements * size}")
        if self.swizzle not in _SWIZZLES:
            raise ValueError(f"swizzle: expected one of {', '.join(map(str, _SWIZZLES))}, got {self.swizzle!r}")
        if self.swizzle and inner > self.swizzle:
            raise ValueError(f"box: expected rows of at most {self.swizzle} bytes, the swizzle, got {inner} bytes")
        if self.fill not in ("zeros", "nan"):
            raise ValueError(f"fill: expected 'zeros' or 'nan', got {self.fill!r}")
        if self.fill == "nan" and array.dtype.name not in _WITH_NAN:
            raise ValueError(f"fill: expected 'zeros' for {array.dtype.name}, which has no NaN here, got 'nan'")
        if self.tf32 and array.dtype.name != "float32":
            raise ValueError(f"tf32: expected an array of float32, got {array.dtype.name}")
        self._check_strides()

    def _check_strides(self) -> None:
        size, shape = self.array.dtype.itemsize, self.array.shape
        if self.strides[-1] != size:
            raise ValueError(f"strides: expected {size} bytes in the last dimension, got {self.strides[-1]}")
        if any(stride % _GRAIN or not 0 <= stride < 1 << 40 for stride in self.strides[:-1]):
            raise ValueError(
                f"strides: expected multiples of {_GRAIN} bytes below 2**40 in all dimensions but the last, got "
                f"{self.strides}"
            )
        needed = reach(size, shape, self.strides)
        array = self.array
        whole = array.flags.c_contiguous if isinstance(array, np.ndarray) else array.is_contiguous
        if not (self._own_strides or whole):
            raise ValueError("strides: expected none for an array with gaps, whose own are taken")
        own = reach(size, shape, array.strides)
        if needed > own:
            raise ValueError(f"strides: expected at most the {own} bytes of the array, got a reach of {needed}")

    def encode(self, address: int, device: str) -> bytes:
        """The 128 bytes of the map of the array at an address of a device."""
        if address % _GRAIN:
            raise ValueError(f"array: expected an address that is a multiple of {_GRAIN}, got {address:#x}")
        return self._for_cpu(address) if device == "cpu" else self._for_gpu(address)

    @property
    def _type(self) -> int:
        return _TF32 if self.tf32 else _TYPES[self.array.dtype.name]

    def _for_cpu(self, address: int) -> bytes:
        """struct smemkit_tensor"""
        rank, size = self.array.ndim, self.array.dtype.itemsize
        absent = (0,) * (_MAX_RANK - rank)
        content = struct.pack(
            "<QQ5Q5I5HBBBBB5B",
            _MAGIC,
            address,
            *(*self.strides[::-1], *absent),
            *(*self.array.shape[::-1], *absent),
            *(*self.box[::-1], *absent),
            rank,
            size,
            _SWIZZLES[self.swizzle],
            self.fill == "nan",
            self._type,
            *(*self.element_strides[::-1], *absent),
        )
        return content.ljust(_MAP_BYTES, b"\0")

    def _for_gpu(self, address: int) -> bytes:
        """What the driver makes of it."""
        rank = self.array.ndim
        buffer = ctypes.create_string_buffer(_MAP_BYTES + 64)
        at = -(-ctypes.addressof(buffer) // 64) * 64
        encode = _driver().cuTensorMapEncodeTiled
        promotion_to_128_bytes = 2
        code = encode(
            ctypes.c_void_p(at),
            self._type,
            rank,
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*self.array.shape[::-1]),
            (ctypes.c_uint64 * max(rank - 1, 1))(*self.strides[-2::-1]),
            (ctypes.c_uint32 * rank)(*self.box[::-1]),
            (ctypes.c_uint32 * rank)(*self.element_strides[::-1]),
            0,
            _SWIZZLES[self.swizzle],
            promotion_to_128_bytes,
            int(self.fill == "nan"),
        )
        if code:
            raise SmemkitError(f"cuTensorMapEncodeTiled refuses {self!r} with code {code}")
        return ctypes.string_at(at, _MAP_BYTES)


def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise SmemkitError(f"TensorMap: the CUDA driver cannot be loaded: {error}") from None
