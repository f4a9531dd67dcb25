"""What a kernel takes, and whether an argument is that.

Everything is checked here before a launch; a message names the parameter, what was required, and what came.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smemkit import _core
from smemkit._core import Array

__all__ = ["FIELDS", "Arguments", "Parameter", "describe_value"]

_BOUNDARY = 64
_VECTOR = 16  # bytes of the longest access
_ADDRESS = 8  # bytes of a pointer, which a struct may hold
_MOST_REACHED = 1 << 30  # bytes of an array that a view of it brings along
FIELDS = 9  # of struct described in describe.h: pointer, constant, kind, size, lanes, extent[4]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel, or a variable: what describe.h says of its type, under the same names.

    Attributes
    ----------
    name, declaration : str
        "x", "const float *x"; the name is "argument 2" where the source has none.
    pointer, constant : bool
        Whether it is a pointer, and to const.
    kind : str
        NumPy's letter for the scalar: "b", "i", "u", "f"; or "E" bfloat16, "V" struct, "v" void, "P" pointer.
    size, lanes : int
        Bytes of the scalar, and how many of them a float4 and its like have.
    shape : tuple of int
        Of a variable that is an array.
    """

    name: str
    declaration: str
    pointer: bool
    constant: bool
    kind: str
    size: int
    lanes: int
    shape: tuple[int, ...] = ()

    @classmethod
    def of(cls, name: str, declaration: str, fields: Sequence[int]) -> Parameter:
        """From the fields of a struct described."""
        pointer, constant, kind, size, lanes, *extent = fields
        shape = tuple(length for length in extent if length)
        new = cls(name, declaration, bool(pointer), bool(constant), chr(kind), size, lanes, shape)
        return new if declaration else replace(new, declaration=new.element + " *" * bool(pointer))

    @property
    def scalar(self) -> str:
        """The scalar's name in NumPy: "float32", "bfloat16"; "" for what has none."""
        if self.kind == "b":
            return "bool"
        words = {"i": "int", "u": "uint", "f": "float", "E": "bfloat"}
        return f"{words[self.kind]}{8 * self.size}" if self.kind in words else ""

    @property
    def element(self) -> str:
        """One element in words: "float32", "4 float32", "a struct of 12 bytes"."""
        if self.scalar:
            return self.scalar if self.lanes == 1 else f"{self.lanes} {self.scalar}"
        return {"V": f"a struct of {self.size} bytes", "v": "any dtype"}.get(self.kind, self.declaration)

    @property
    def is_const(self) -> bool:
        """Whether a variable cannot change. Of a pointer, `constant` tells what it points to."""
        return self.constant and not self.pointer

    @property
    def bytes(self) -> int:
        """Of one element."""
        return self.size * self.lanes

    @property
    def total(self) -> int:
        """Bytes of a variable."""
        return 8 if self.pointer else self.bytes * math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """One lane's; raw bytes for what NumPy has no dtype for."""
        if self.pointer or not self.scalar:
            return np.dtype("u8" if self.pointer else f"V{self.size}")
        if self.kind == "E":
            import ml_dtypes  # an optional package; without it there are no arrays of bfloat16

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(self.scalar)

    # ---- arrays ----

    def check_array(self, value: Any) -> np.ndarray | Array | None:
        """An array for a pointer; None is a null pointer."""
        if value is None:
            pass
        elif isinstance(value, Array):
            if not value.is_contiguous:
                raise ValueError(
                    f"{self.name}: expected an Array without gaps ({self.declaration}), got strides "
                    f"{value.strides} of shape {value.shape}; .copy() has none"
                )
            if not self.constant and value.readonly:
                raise self._refuse_readonly()
        elif not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
            raise self.refusal(value)
        elif not self.constant and not value.flags.writeable:
            raise self._refuse_readonly()
        if value is not None and not self._takes(value):
            raise self.refusal(value)
        return value

    def _refuse_readonly(self) -> ValueError:
        return ValueError(
            f"{self.name}: expected a writeable array ({self.declaration}), got one that is read-only"
        )

    def _takes(self, array: np.ndarray | Array) -> bool:
        dtype = array.dtype
        if self.kind == "v":
            return not dtype.hasobject
        if self.kind == "V":
            return dtype.itemsize == self.size and dtype.kind == "V" and dtype.name != "bfloat16"
        if self.lanes > 1 and dtype.kind == "V" and dtype.name != "bfloat16":
            return dtype.itemsize == self.bytes
        if self.lanes == 2 and dtype.kind == "c":
            return self.kind == "f" and dtype.itemsize == self.bytes and dtype.isnative
        whole = self.lanes == 1 or array.size % self.lanes == 0
        return dtype.name == self.scalar and dtype.isnative and whole

    # ---- scalars ----

    def pack(self, value: Any) -> bytes:
        """The bytes of a value passed by value, or of an element of a variable."""
        if isinstance(value, (np.ndarray, Array)) and value.ndim == 0:
            value = np.asarray(value)[()]
        if self.lanes > 1:
            return self._pack_vector(value)
        if self.kind == "V":
            return self._pack_struct(value)
        if self.kind in "iub":
            return self._pack_integer(value)
        if self.kind in "fE" and isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
            return self._pack_float(float(value))
        if type(value).__name__ == "bfloat16" and self.kind in "fE":
            return self._pack_float(float(value))
        raise self.refusal(value)

    def _pack_integer(self, value: Any) -> bytes:
        try:
            number = int(value) if isinstance(value, np.bool_) else operator.index(value)
        except TypeError:
            raise self.refusal(value) from None
        bits = 8 * self.size
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if self.kind == "i" else (0, (1 << bits) - 1)
        high = 1 if self.kind == "b" else high
        if not low <= number <= high:
            raise ValueError(
                f"{self.name}: expected {self.scalar} from {low} to {high} ({self.declaration}), got {value}"
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
        one = Parameter(self.name, self.declaration, False, False, self.kind, self.size, 1)
        if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != self.lanes:
            raise self.refusal(value)
        return b"".join(one.pack(lane) for lane in value)

    def _pack_struct(self, value: Any) -> bytes:
        if isinstance(value, Array):  # whose buffer is that of its elements
            raise self.refusal(value)
        try:
            content = memoryview(value).tobytes()
        except TypeError:
            raise self.refusal(value) from None
        if len(content) != self.bytes:
            raise self.refusal(value)
        return content

    # ---- variables ----

    def pack_all(self, value: Any) -> bytes:
        """The bytes of a variable that is to have this value, an array where it is one."""
        lanes = (self.lanes,) if self.lanes > 1 else ()
        array = value.numpy() if isinstance(value, Array) else np.asanyarray(value)
        if not isinstance(value, (np.ndarray, Array)) and self.scalar and array.dtype.kind in "biuf":
            array = np.array(value, self.dtype)
        if not self._takes(array) or self.pointer:
            raise TypeError(f"{self.name}: expected {self.element}, got {describe_value(value)}")
        if array.nbytes != self.total:
            wanted = f"shape {self.shape + lanes}"
            raise ValueError(f"{self.name}: expected {self.total} bytes, {wanted}, got {describe_value(value)}")
        return array.tobytes()

    def unpack(self, content: bytes) -> np.ndarray:
        """A variable's value from its bytes."""
        lanes = (self.lanes,) if self.lanes > 1 else ()
        return np.frombuffer(content, self.dtype).reshape(self.shape + lanes).copy()

    # ---- messages ----

    def refusal(self, value: Any) -> TypeError:
        """The error for an argument that this parameter cannot take."""
        hint = ""
        if self.pointer and self.kind == "P":
            wanted = "None: what it points to are pointers, which no array holds;"
        elif self.pointer:
            wanted = "an array of " + self.element.replace("a struct", "structs").replace("any dtype", "numbers")
            if isinstance(value, (np.ndarray, Array)) and self.lanes > 1:
                hint = ", a whole number of them"
        elif self.kind == "V":
            wanted = f"{self.element}, a NumPy structured scalar or another buffer"
            if isinstance(value, (np.ndarray, Array)):
                hint = "; a pointer in it is a uint64, an Array's address"
        else:
            wanted = f"a tuple of {self.element}" if self.lanes > 1 else self.element
        return TypeError(f"{self.name}: expected {wanted}{hint} ({self.declaration}), got {describe_value(value)}")


def describe_value(value: Any) -> str:
    """An argument in words, for messages.

    Examples
    --------
    >>> describe_value(np.zeros((2, 3))), describe_value(2.5)
    ('an array of float64, shape (2, 3)', 'float 2.5')
    """
    if isinstance(value, np.ma.MaskedArray):
        return "a masked array; .filled() makes one without"
    if isinstance(value, (np.ndarray, Array)):
        order = "" if value.dtype.isnative else " in foreign byte order"
        return f"an array of {value.dtype.name}{order}, shape {value.shape}"
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return f"{type(value).__name__} {value}"
    return type(value).__name__


class Arguments:
    """The arguments of one launch, checked and on the device.

    Parameters
    ----------
    kernel : str
        For messages.
    parameters : sequence of Parameter
    args : sequence
    device : str

    Attributes
    ----------
    addresses : ctypes array of void pointers
        Where each argument's value lies.
    closed : bool
        Whether the host cannot reach the memory that the kernel uses: there are only copies of NumPy's arrays.
    """

    def __init__(self, kernel: str, parameters: Sequence[Parameter], args: Sequence[Any], device: str):
        if len(args) != len(parameters):
            names = ", ".join(parameter.name for parameter in parameters)
            takes = f"{len(parameters)} argument{'s' * (len(parameters) != 1)}" + (f" ({names})" if names else "")
            raise TypeError(f"{kernel}: expected {takes}, got {len(args)}")
        pairs = list(zip(parameters, args, strict=True))
        values = [p.check_array(arg) if p.pointer else p.pack(arg) for p, arg in pairs]
        self.closed = not any(
            isinstance(arg, Array) if p.pointer else p.kind == "V" and p.bytes >= _ADDRESS for p, arg in pairs
        )
        self._memories: dict[tuple, _Memory] = {}
        self._pointers: dict[tuple, int] = {}  # where NumPy's arrays are on the device, by parameter and array
        self._place_arrays([(p, value) for p, value in zip(parameters, values, strict=True) if p.pointer], device)
        self._pack(
            [self._pointer(p, value) if p.pointer else value for p, value in zip(parameters, values, strict=True)]
        )

    def _place_arrays(self, pairs: list[tuple[Parameter, np.ndarray | Array | None]], device: str) -> None:
        """Copies NumPy's arrays to the device: memory that several share once, as the kernel may rely on it."""
        placed = [(p, array, _reach(array, p)) for p, array in pairs if isinstance(array, np.ndarray)]
        for number, (p, array, reach) in enumerate(placed):
            for other, earlier, reached in placed[:number]:
                if (
                    _key(reached) != _key(reach)
                    and not (p.constant and other.constant)
                    and _overlap(earlier, array)
                ):
                    raise ValueError(
                        f"{other.name} and {p.name}: expected the same array, two views of one without gaps, or "
                        "two that do not overlap"
                    )
        for p, array, reach in placed:
            memory = self._memories.setdefault(_key(reach), _Memory(reach))
            if not p.constant:
                memory.written.setdefault(_key(array), array)
        for memory in self._memories.values():
            memory.copy_to(device)
        for p, array, reach in placed:
            memory = self._memories[_key(reach)]
            self._pointers[p.name, _key(array)] = memory.on_device.address + memory.offset(array)

    def _pointer(self, parameter: Parameter, array: np.ndarray | Array | None) -> bytes:
        if isinstance(array, np.ndarray):
            address = self._pointers[parameter.name, _key(array)]
        else:
            address = 0 if array is None else array.address
        return address.to_bytes(8, "little")

    def _pack(self, values: list[bytes]) -> None:
        """Lays the values out, each on a boundary that any type may want."""
        offsets = list(
            itertools.accumulate((-(-len(value) // _BOUNDARY) * _BOUNDARY for value in values), initial=0)
        )
        self._block = ctypes.create_string_buffer(offsets[-1] + _BOUNDARY)
        start = -(-ctypes.addressof(self._block) // _BOUNDARY) * _BOUNDARY
        for offset, value in zip(offsets, values, strict=False):
            ctypes.memmove(start + offset, value, len(value))
        self.addresses = (ctypes.c_void_p * len(offsets))(*(start + offset for offset in offsets))

    def copy_back(self) -> None:
        """Fetches what the kernel may have written into NumPy's arrays."""
        for memory in self._memories.values():
            if memory.written:
                memory.copy_back()


class _Memory:
    """Memory of NumPy's that pointers of a launch reach, and its copy on the device.

    Attributes
    ----------
    written : dict
        The arrays in it that the kernel may write through, by `_key`.
    on_device : Array
        The bytes of `reach`.
    """

    def __init__(self, reach: np.ndarray):
        self.reach = reach
        self.written: dict[tuple, np.ndarray] = {}

    def copy_to(self, device: str) -> None:
        content = _bytes_of(np.ascontiguousarray(self.reach))
        self._before = None
        if any(array.nbytes < content.size for array in self.written.values()):
            self._before = content = content.copy()
        self.on_device = _core.asarray(content, None, device, True)

    def offset(self, array: np.ndarray) -> int:
        return _address(array) - _address(self.reach)

    def copy_back(self) -> None:
        content = self.on_device.numpy()
        if self._before is not None:  # beside a view only what changed: another thread may be at work there
            changed = np.flatnonzero(content != self._before)
            self.reach[changed] = content[changed]
        for array in self.written.values():
            part = content[self.offset(array) : self.offset(array) + array.nbytes]
            array[...] = part.view(array.dtype).reshape(array.shape)


def _reach(array: np.ndarray, parameter: Parameter) -> np.ndarray:
    """What a pointer to `array` reaches: the bytes of the array that it is a view of; its own, if it is misaligned
    there for the parameter's elements; or itself, if it has gaps and is packed for the kernel. A file that is
    mapped, or an array of more than _MOST_REACHED bytes, is not copied for the sake of a view."""
    if not array.flags.c_contiguous:
        return array
    reach = above = array
    boundary = min(parameter.bytes & -parameter.bytes, _VECTOR) or 1
    while array.size and isinstance(above := above.base, np.ndarray):
        if isinstance(above, np.memmap) or above.nbytes > _MOST_REACHED:
            break
        first = _address(array) - _address(above)
        whole = above.flags.c_contiguous or above.flags.f_contiguous
        inside = 0 <= first <= above.nbytes - array.nbytes
        usable = not above.dtype.hasobject and (parameter.constant or above.flags.writeable)
        if whole and inside and usable and first % boundary == 0:
            reach = above
    return _bytes_of(reach)


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The memory of an array without gaps, in one dimension."""
    return array.view(np.ndarray).reshape(-1, order="A").view(np.uint8)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _key(array: np.ndarray) -> tuple:
    """The same for arrays with the same elements."""
    return _address(array), array.shape, array.strides, array.dtype


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10_000)
    except np.exceptions.TooHardError:
        return True
