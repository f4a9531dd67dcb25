"""A kernel's parameters, and the checks and the packing of a launch's arguments.

All arguments are checked before a launch. A message names the parameter, what was required, and what was given.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smemkit import _core
from smemkit._core import Array
from smemkit.user_kernel.array_argument import ArrayArgument, reach
from smemkit.user_kernel.tensor_map import TensorMap
from smemkit.user_kernel.texture import Texture

__all__ = ["DESCRIPTION_FIELDS", "Arguments", "Parameter", "are_accepted", "describe_value"]

_ARGUMENT_ALIGNMENT = 64
_MAX_ACCESS_BYTES = 16  # bytes of the widest load or store
_POINTER_BYTES = 8  # bytes of a pointer, which a struct may hold
_MAX_BASE_BYTES = 1 << 30  # bytes of the largest base array that is copied for a view of it
_ML_DTYPES = {"E": "bfloat16", "3": "float8_e4m3fn", "2": "float8_e5m2"}  # types that NumPy lacks, by kind
DESCRIPTION_FIELDS = 9  # of struct described in describe.h: pointer, constant, kind, size, lanes, extent[4]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel, or a variable: its type as describe.h describes it, under the same names.

    Attributes
    ----------
    name, declaration : str
        "x", "const float *x"; the name is "argument 2" where the source has none.
    pointer, constant : bool
        Whether it is a pointer, and whether it is const; for a pointer, whether it is to const.
    kind : str
        NumPy's letter for the scalar: "b", "i", "u", "f"; or "E" bfloat16, "3" and "2" the 8-bit floats with that
        many bits of fraction, "V" struct, "v" void, "P" pointer.
    size, lanes : int
        Bytes of the scalar, and scalars per element: 4 for float4.
    shape : tuple of int
        The shape of a variable that is an array.
    takes_gaps : bool
        Whether the array of a pointer may have gaps: that of a tensor map.
    """

    name: str
    declaration: str
    pointer: bool
    constant: bool
    kind: str
    size: int
    lanes: int
    shape: tuple[int, ...] = ()
    takes_gaps: bool = False

    @classmethod
    def from_description(cls, name: str, declaration: str, fields: Sequence[int]) -> Parameter:
        """From the fields of a ``struct described``."""
        pointer, constant, kind, size, lanes, *extent = fields
        shape = tuple(length for length in extent if length)
        new = cls(name, declaration, bool(pointer), bool(constant), chr(kind), size, lanes, shape)
        return new if declaration else replace(new, declaration=new.element_text + " *" * bool(pointer))

    @property
    def scalar_name(self) -> str:
        """The scalar's name in NumPy: "float32", "bfloat16"; "" if it has none."""
        if self.kind == "b":
            return "bool"
        if self.kind in _ML_DTYPES:
            return _ML_DTYPES[self.kind]
        words = {"i": "int", "u": "uint", "f": "float"}
        return f"{words[self.kind]}{8 * self.size}" if self.kind in words else ""

    @property
    def element_text(self) -> str:
        """One element in words: "float32", "4 float32", "a struct of 12 bytes"."""
        if self.scalar_name:
            return self.scalar_name if self.lanes == 1 else f"{self.lanes} {self.scalar_name}"
        return {"V": f"a struct of {self.size} bytes", "v": "any dtype"}.get(self.kind, self.declaration)

    @property
    def is_const(self) -> bool:
        """Whether a variable cannot change. For a pointer, `constant` is about its target."""
        return self.constant and not self.pointer

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return self.size * self.lanes

    @property
    def total_bytes(self) -> int:
        """Bytes of a variable."""
        return 8 if self.pointer else self.element_bytes * math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of one lane; raw bytes if NumPy has none."""
        if self.pointer or not self.scalar_name:
            return np.dtype("u8" if self.pointer else f"V{self.size}")
        if self.kind in _ML_DTYPES:
            import ml_dtypes  # an optional package; without it there are no arrays of these types

            return np.dtype(getattr(ml_dtypes, self.scalar_name))
        return np.dtype(self.scalar_name)

    # ---- tensor maps and textures ----

    def takes(self, argument: Any) -> bool:
        """Whether an argument describes an array in the way that this parameter requires."""
        if not isinstance(argument, ArrayArgument) or self.pointer:
            return False
        return argument.parameter_type in self.declaration and self.element_bytes == argument.parameter_bytes

    def of_array(self, argument: ArrayArgument) -> Parameter:
        """The parameter as a pointer to the array that an argument describes.

        Raises
        ------
        TypeError
            A thread would have a copy of a tensor map in its local memory, which the hardware cannot read.
        """
        if isinstance(argument, TensorMap) and "__grid_constant__" not in self.declaration:
            raise TypeError(
                f"{self.name}: expected the parameter of a tensor map to be declared const __grid_constant__ "
                f"CUtensorMap {self.name}, got {self.declaration}"
            )
        gaps = isinstance(argument, TensorMap)
        return Parameter(self.name, self.declaration, True, argument.is_read_only, "v", 1, 1, takes_gaps=gaps)

    # ---- arrays ----

    def check_array(self, value: Any) -> np.ndarray | Array | None:
        """Checks the argument of a pointer: an array, or None for a null pointer."""
        if value is None:
            pass
        elif isinstance(value, Array):
            if not value.is_contiguous and not self.takes_gaps:
                raise ValueError(
                    f"{self.name}: expected an Array without gaps ({self.declaration}), got strides "
                    f"{value.strides} of shape {value.shape}; .copy() has none"
                )
            if not self.constant and value.readonly:
                raise self._readonly_error()
        elif not isinstance(value, np.ndarray) or _is_masked(value):
            raise self.mismatch_error(value)
        elif not self.constant and not value.flags.writeable:
            raise self._readonly_error()
        if value is not None and not self._accepts_array(value):
            raise self.mismatch_error(value)
        return value

    def _readonly_error(self) -> ValueError:
        return ValueError(
            f"{self.name}: expected a writeable array ({self.declaration}), got one that is read-only"
        )

    def _accepts_array(self, array: np.ndarray | Array) -> bool:
        dtype = array.dtype
        if self.kind == "v":
            return not dtype.hasobject
        if self.kind == "V":
            return dtype.itemsize == self.size and _is_struct(dtype)
        if self.lanes > 1 and _is_struct(dtype):
            return dtype.itemsize == self.element_bytes
        if self.lanes == 2 and dtype.kind == "c":
            return self.kind == "f" and dtype.itemsize == self.element_bytes and dtype.isnative
        whole = self.lanes == 1 or array.size % self.lanes == 0
        return dtype.name == self.scalar_name and dtype.isnative and whole

    # ---- scalars ----

    def pack(self, value: Any) -> bytes:
        """The bytes of a value passed by value, or of an element of a variable."""
        if isinstance(value, (np.ndarray, Array)) and value.ndim == 0:
            value = np.asarray(value)[()]
        if self.lanes > 1:
            return self._pack_vector(value)
        if self.kind == "V" and not isinstance(value, ArrayArgument):
            return self._pack_struct(value)
        if self.kind in "iub":
            return self._pack_integer(value)
        if self.kind in "fE" and isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
            return self._pack_float(float(value))
        if type(value).__name__ in _ML_DTYPES.values() and self.kind in "fE":
            return self._pack_float(float(value))
        if self.kind in _ML_DTYPES and (
            isinstance(value, (int, float, np.floating)) or type(value) is self.dtype.type
        ):
            return np.array(value, self.dtype).tobytes()
        raise self.mismatch_error(value)

    def _pack_integer(self, value: Any) -> bytes:
        try:
            number = int(value) if isinstance(value, np.bool_) else operator.index(value)
        except TypeError:
            raise self.mismatch_error(value) from None
        bits = 8 * self.size
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if self.kind == "i" else (0, (1 << bits) - 1)
        high = 1 if self.kind == "b" else high
        if not low <= number <= high:
            raise ValueError(
                f"{self.name}: expected {self.scalar_name} from {low} to {high} ({self.declaration}), got {value}"
            )
        return number.to_bytes(self.size, "little", signed=self.kind == "i")

    def _pack_float(self, value: float) -> bytes:
        with np.errstate(all="ignore"):
            if self.kind == "f":
                return np.array(value, f"f{self.size}").tobytes()
            bits = int(np.array(value, np.float32).view(np.uint32))
        rounded = 0x7FFF if value != value else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return rounded.to_bytes(2, "little")

    def _pack_vector(self, value: Any) -> bytes:
        if isinstance(value, np.void):
            return self._pack_struct(value)
        element = Parameter(self.name, self.declaration, False, False, self.kind, self.size, 1)
        if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != self.lanes:
            raise self.mismatch_error(value)
        return b"".join(element.pack(lane) for lane in value)

    def _pack_struct(self, value: Any) -> bytes:
        if isinstance(value, Array):  # its buffer holds its elements and no struct
            raise self.mismatch_error(value)
        try:
            content = memoryview(value).tobytes()
        except TypeError:
            raise self.mismatch_error(value) from None
        if len(content) != self.element_bytes:
            raise self.mismatch_error(value)
        return content

    # ---- variables ----

    def pack_variable(self, value: Any) -> bytes:
        """The bytes of a variable for this value, which is an array if the variable is one."""
        lanes = (self.lanes,) if self.lanes > 1 else ()
        array = value.numpy() if isinstance(value, Array) else np.asanyarray(value)
        if not isinstance(value, (np.ndarray, Array)) and self.scalar_name and array.dtype.kind in "biuf":
            array = np.array(value, self.dtype)
        if not self._accepts_array(array) or self.pointer:
            raise TypeError(f"{self.name}: expected {self.element_text}, got {describe_value(value)}")
        if array.nbytes != self.total_bytes:
            wanted = f"shape {self.shape + lanes}"
            raise ValueError(
                f"{self.name}: expected {self.total_bytes} bytes, {wanted}, got {describe_value(value)}"
            )
        return array.tobytes()

    def unpack(self, content: bytes) -> np.ndarray:
        """A variable's value from its bytes."""
        lanes = (self.lanes,) if self.lanes > 1 else ()
        return np.frombuffer(content, self.dtype).reshape(self.shape + lanes).copy()

    # ---- messages ----

    def mismatch_error(self, value: Any) -> TypeError:
        """The error for an argument that this parameter cannot take."""
        hint = ""
        if self.pointer and self.kind == "P":
            wanted = "None, because no array holds pointers"
        elif self.pointer:
            elements = self.element_text.replace("a struct", "structs").replace("any dtype", "numbers")
            wanted = f"an array of {elements}"
            if isinstance(value, (np.ndarray, Array)) and self.lanes > 1:
                hint = ", a whole number of them"
        elif self.kind == "V":
            wanted = f"{self.element_text}, a NumPy structured scalar or another buffer"
            if isinstance(value, (np.ndarray, Array)):
                hint = "; for a pointer in it use a uint64 with an Array's address"
        elif "cudaTextureObject_t" in self.declaration:
            wanted = "a smemkit.Texture"
        else:
            wanted = f"a tuple of {self.element_text}" if self.lanes > 1 else self.element_text
        return TypeError(f"{self.name}: expected {wanted}{hint} ({self.declaration}), got {describe_value(value)}")


def _is_struct(dtype: np.dtype) -> bool:
    """Whether it is a structure or raw bytes; the types of ml_dtypes look like these."""
    return dtype.kind == "V" and dtype.name not in _ML_DTYPES.values()


def _is_masked(value: Any) -> bool:
    """Whether it is a masked array. There is none before numpy.ma, which is slow to import, has been imported."""
    masked_arrays = sys.modules.get("numpy.ma")
    return masked_arrays is not None and isinstance(value, masked_arrays.MaskedArray)


def describe_value(value: Any) -> str:
    """An argument in words, for messages.

    Examples
    --------
    >>> describe_value(np.zeros((2, 3))), describe_value(2.5)
    ('an array of float64, shape (2, 3)', 'float 2.5')
    """
    if _is_masked(value):
        return "a masked array; .filled() makes an array without a mask"
    if isinstance(value, (np.ndarray, Array)):
        order = "" if value.dtype.isnative else " in non-native byte order"
        return f"an array of {value.dtype.name}{order}, shape {value.shape}"
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return f"{type(value).__name__} {value}"
    return type(value).__name__


def are_accepted(parameters: Sequence[Parameter], args: Sequence[Any]) -> bool:
    """Whether a kernel with these parameters takes these arguments."""
    if len(args) != len(parameters):
        return False
    try:
        for parameter, arg in zip(parameters, args, strict=True):
            if parameter.pointer:
                parameter.check_array(arg)
            elif not parameter.takes(arg):
                parameter.pack(arg)
    except (TypeError, ValueError):
        return False
    return True


# Makes a texture object of an array at an address of the device: its handle, and what releases it.
TextureObject = Callable[[Texture, int], tuple[int, Callable[[], None]]]


def expect_count(kernel: str, parameters: Sequence[Parameter], args: Sequence[Any]) -> None:
    """Raises TypeError if a kernel takes another number of arguments."""
    if len(args) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters)
        takes = f"{len(parameters)} argument{'s' * (len(parameters) != 1)}" + (f" ({names})" if names else "")
        raise TypeError(f"{kernel}: expected {takes}, got {len(args)}")


class Arguments:
    """The arguments of one launch, checked and on the device.

    Parameters
    ----------
    kernel : str
        For messages.
    parameters : sequence of Parameter
    args : sequence
    device : str
    texture_object : callable
        The module's.

    Attributes
    ----------
    addresses : ctypes array of void pointers
        The address of each argument's value.
    host_cannot_write : bool
        Whether the host cannot write the memory that the kernel uses, because it only has copies of NumPy arrays.
    """

    def __init__(
        self,
        kernel: str,
        parameters: Sequence[Parameter],
        args: Sequence[Any],
        device: str,
        texture_object: TextureObject,
    ):
        expect_count(kernel, parameters, args)
        pairs = list(zip(parameters, args, strict=True))
        described = {p.name: arg for p, arg in pairs if p.takes(arg)}
        pairs = [(p.of_array(arg), arg.array) if p.name in described else (p, arg) for p, arg in pairs]
        values = [p.check_array(arg) if p.pointer else p.pack(arg) for p, arg in pairs]
        self.host_cannot_write = not any(
            isinstance(arg, Array) if p.pointer else p.kind == "V" and p.element_bytes >= _POINTER_BYTES
            for p, arg in pairs
        )
        self._device_copies: dict[tuple, _DeviceCopy] = {}
        self._pointers: dict[tuple, int] = {}  # addresses of NumPy arrays on the device, by parameter and array
        self._copy_arrays_to_device(
            [(p, value) for (p, _), value in zip(pairs, values, strict=True) if p.pointer], device
        )
        packed = [
            self._pointer(p, value) if p.pointer else value for (p, _), value in zip(pairs, values, strict=True)
        ]
        self._releases: list[Callable[[], None]] = []
        try:
            for number, (p, _) in enumerate(pairs):
                if p.name in described:
                    address = int.from_bytes(packed[number], "little")
                    packed[number] = self._encode(described[p.name], address, device, texture_object)
        except BaseException:
            self.release()
            raise
        self._pack(packed)

    def _encode(self, argument: ArrayArgument, address: int, device: str, texture_object: TextureObject) -> bytes:
        """What the kernel takes for an array at an address of the device."""
        if isinstance(argument, TensorMap):
            return argument.encode(address, device)
        assert isinstance(argument, Texture)
        handle, release = texture_object(argument, address)
        self._releases.append(release)
        return handle.to_bytes(8, "little")

    def release(self) -> None:
        """Releases texture objects, after the kernel has ended."""
        while self._releases:
            self._releases.pop()()

    def _copy_arrays_to_device(
        self, pairs: list[tuple[Parameter, np.ndarray | Array | None]], device: str
    ) -> None:
        """Copies NumPy arrays to the device. Memory that several share is copied once: the kernel may rely on
        sharing."""
        arrays = [(p, array, _reachable_bytes(array, p)) for p, array in pairs if isinstance(array, np.ndarray)]
        for number, (p, array, host_memory) in enumerate(arrays):
            for other, earlier, other_memory in arrays[:number]:
                if (
                    _array_key(other_memory) != _array_key(host_memory)
                    and not (p.constant and other.constant)
                    and _overlap(earlier, array)
                ):
                    raise ValueError(
                        f"{other.name} and {p.name} overlap: expected the same array twice, two views of one "
                        "array without gaps, or arrays that do not overlap"
                    )
        for p, array, host_memory in arrays:
            device_copy = self._device_copies.setdefault(_array_key(host_memory), _DeviceCopy(host_memory))
            if not p.constant:
                device_copy.writable_arrays.setdefault(_array_key(array), array)
        for device_copy in self._device_copies.values():
            device_copy.copy_to(device)
        for p, array, host_memory in arrays:
            device_copy = self._device_copies[_array_key(host_memory)]
            self._pointers[p.name, _array_key(array)] = device_copy.on_device.address + device_copy.offset(array)

    def _pointer(self, parameter: Parameter, array: np.ndarray | Array | None) -> bytes:
        if isinstance(array, np.ndarray):
            address = self._pointers[parameter.name, _array_key(array)]
        else:
            address = 0 if array is None else array.address
        return address.to_bytes(8, "little")

    def _pack(self, values: list[bytes]) -> None:
        """Stores the values in one buffer, each aligned for any type."""
        offsets = list(
            itertools.accumulate(
                (-(-len(value) // _ARGUMENT_ALIGNMENT) * _ARGUMENT_ALIGNMENT for value in values), initial=0
            )
        )
        self._buffer = ctypes.create_string_buffer(offsets[-1] + _ARGUMENT_ALIGNMENT)
        start = -(-ctypes.addressof(self._buffer) // _ARGUMENT_ALIGNMENT) * _ARGUMENT_ALIGNMENT
        for offset, value in zip(offsets, values, strict=False):
            ctypes.memmove(start + offset, value, len(value))
        self.addresses = (ctypes.c_void_p * len(offsets))(*(start + offset for offset in offsets))

    def copy_back(self) -> None:
        """Copies what the kernel may have written back to the NumPy arrays."""
        for device_copy in self._device_copies.values():
            if device_copy.writable_arrays:
                device_copy.copy_back()


class _DeviceCopy:
    """NumPy memory that pointers of a launch can access, and its copy on the device.

    Attributes
    ----------
    writable_arrays : dict
        The arrays in it that the kernel may write, by `_array_key`.
    on_device : Array
        The bytes of `host_memory`.
    """

    def __init__(self, host_memory: np.ndarray):
        self.host_memory = host_memory
        self.writable_arrays: dict[tuple, np.ndarray] = {}

    def copy_to(self, device: str) -> None:
        content = _as_bytes(np.ascontiguousarray(self.host_memory))
        self._original = None
        if any(array.nbytes < content.size for array in self.writable_arrays.values()):
            self._original = content = content.copy()
        self.on_device = _core.asarray(content, None, device, True)

    def offset(self, array: np.ndarray) -> int:
        return _address(array) - _address(self.host_memory)

    def copy_back(self) -> None:
        content = self.on_device.numpy()
        if self._original is not None:  # outside the views only changed bytes: another thread may be writing there
            changed = np.flatnonzero(content != self._original)
            self.host_memory[changed] = content[changed]
        for array in self.writable_arrays.values():
            strides = array.strides if self.host_memory.flags.c_contiguous else None  # or the copy is packed
            array[...] = np.ndarray(array.shape, array.dtype, content, self.offset(array), strides)


def _reachable_bytes(array: np.ndarray, parameter: Parameter) -> np.ndarray:
    """The memory that a pointer to `array` can access. For a view these are the bytes of its base array, or its
    own bytes if it is misaligned there for the parameter's elements. An array with gaps is returned as it is,
    because it is packed for the kernel, unless the parameter takes gaps. A memory-mapped file or an array of more
    than _MAX_BASE_BYTES is not copied for a view of it."""
    if not array.flags.c_contiguous and not parameter.takes_gaps:
        return array
    host_memory = base = array
    needed = reach(array.itemsize, array.shape, array.strides) if array.size else 0
    alignment = min(parameter.element_bytes & -parameter.element_bytes, _MAX_ACCESS_BYTES) or 1
    while array.size and isinstance(base := base.base, np.ndarray):
        if isinstance(base, np.memmap) or (base.nbytes > _MAX_BASE_BYTES and not parameter.takes_gaps):
            break
        first = _address(array) - _address(base)
        whole = base.flags.c_contiguous or base.flags.f_contiguous
        inside = 0 <= first <= base.nbytes - needed
        usable = not base.dtype.hasobject and (parameter.constant or base.flags.writeable)
        if whole and inside and usable and first % alignment == 0:
            host_memory = base
    if not host_memory.flags.c_contiguous and not host_memory.flags.f_contiguous:
        raise ValueError(
            f"{parameter.name}: expected an array without gaps, or a view of such an array that is not "
            "memory-mapped and, unless the parameter is const, is writeable; .copy() has no gaps"
        )
    return _as_bytes(host_memory)


def _as_bytes(array: np.ndarray) -> np.ndarray:
    """The memory of an array without gaps, as a one-dimensional array of bytes."""
    return array.view(np.ndarray).reshape(-1, order="A").view(np.uint8)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _array_key(array: np.ndarray) -> tuple:
    """Equal for arrays with the same elements in memory."""
    return _address(array), array.shape, array.strides, array.dtype


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10_000)
    except np.exceptions.TooHardError:
        return True
