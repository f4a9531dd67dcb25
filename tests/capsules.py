"""DLPack's structures in ctypes, to read smemkit's capsules and to create valid and malformed ones."""

import ctypes
from ctypes import (
    POINTER,
    PYFUNCTYPE,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
    pythonapi,
)

import numpy as np

NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
DELETER = PYFUNCTYPE(None, c_void_p)
DLPACK_TYPE_CODES = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5, "V": 4}  # by NumPy's kinds; "V" is bfloat16

new_capsule = PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", pythonapi))
is_valid = PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", pythonapi))
get_pointer = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))
set_name = PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_SetName", pythonapi))


class Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class DLManagedTensor(Structure):
    _fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class DLManagedTensorVersioned(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", Tensor),
    ]


STRUCTURES = {False: DLManagedTensor, True: DLManagedTensorVersioned}


def read_capsule(capsule, versioned=False):
    """The structure in a capsule, which must outlive it."""
    pointer = get_pointer(capsule, NAMES[versioned])
    return ctypes.cast(pointer, POINTER(STRUCTURES[versioned])).contents


def take_capsule(capsule, versioned=False):
    """The structure, taken from the capsule as by a consumer: the caller must call the deleter."""
    managed = read_capsule(capsule, versioned)
    assert set_name(capsule, b"used_" + NAMES[versioned] if not versioned else b"used_dltensor_versioned") == 0
    return managed


def delete(managed, without_gil=False):
    """Calls the structure's deleter."""
    kind = ctypes.CFUNCTYPE if without_gil else PYFUNCTYPE
    kind(None, c_void_p)(managed.deleter)(ctypes.addressof(managed))


def lengths(values):
    return (c_int64 * max(len(values), 1))(*values)


class Exporter:
    """Exports a NumPy array with some fields replaced, and counts the calls of its deleter."""

    def __init__(self, x=None, *, versioned=False, announced=(1, 0), name=None, no_deleter=False, **fields):
        x = np.arange(1, 13, dtype=np.float32).reshape(3, 4) if x is None else x
        self.x, self.versioned, self.announced = x, versioned, announced
        self.name = NAMES[versioned] if name is None else name
        self.deleted, self.asked = 0, []
        shape, strides = fields.pop("shape", x.shape), fields.pop("strides", [s // x.itemsize for s in x.strides])
        top = {key: fields.pop(key) for key in ("major", "minor", "flags") if key in fields}
        if versioned:
            top = {"major": 1, "minor": 0} | top
        self.lengths = [None if values is None else lengths(values) for values in (shape, strides)]
        tensor = {"data": x.ctypes.data, "device_type": 1, "ndim": x.ndim if shape is None else len(shape)}
        tensor |= {"code": DLPACK_TYPE_CODES[x.dtype.kind], "bits": 8 * x.itemsize, "lanes": 1}
        pointers = dict(zip(("shape", "strides"), self.lengths, strict=True))
        tensor |= {key: ctypes.cast(value, POINTER(c_int64)) for key, value in pointers.items() if value}
        self.delete, self.destroy = DELETER(self.count), DELETER(self.drop)
        deleter = None if no_deleter else ctypes.cast(self.delete, c_void_p).value
        self.managed = STRUCTURES[versioned](deleter=deleter, tensor=Tensor(**tensor | fields), **top)

    def count(self, managed):
        assert managed == ctypes.addressof(self.managed)
        self.deleted += 1

    def drop(self, capsule):
        """The capsule's destructor. It still owns the array if no consumer has taken it."""
        if is_valid(capsule, NAMES[self.versioned]):
            self.count(ctypes.addressof(self.managed))

    def __dlpack_device__(self):
        return self.announced

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        return new_capsule(ctypes.addressof(self.managed), self.name, ctypes.cast(self.destroy, c_void_p))


class Table(Structure):
    """DLPack's exchange API."""

    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("older", c_void_p),
        ("allocate", c_void_p),
        ("from_object", c_void_p),
        ("to_object", c_void_p),
        ("borrow", c_void_p),
        ("work_stream", c_void_p),
    ]


def address(function):
    return ctypes.cast(function, c_void_p).value


@PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))
def give(exporter, managed):
    """Exports an Exporter's array without a capsule."""
    exporter.given += 1
    managed[0] = ctypes.addressof(exporter.managed)
    return 0


@PYFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))
def give_nothing(exporter, managed):
    return 0


@PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))
def default_stream(device_type, device_id, stream):
    stream[0] = None
    return 0


fail = pythonapi.PyObject_Size  # returns -1 with the exception of the object's __len__
tables = []  # never freed


def table(**fields):
    """The address of a valid table with some fields replaced."""
    functions = {"from_object": address(give), "work_stream": address(default_stream)}
    tables.append(Table(**{"major": 1, "minor": 3} | functions | fields))
    return ctypes.addressof(tables[-1])


def exchanging_class(pointer=None, *, name=b"dlpack_exchange_api", base=Exporter, **methods):
    """A subclass of Exporter whose exchange API is the table at `pointer`."""
    capsule = new_capsule(table() if pointer is None else pointer, name, None)
    return type("Exchanging", (base,), {"__dlpack_c_exchange_api__": capsule, "given": 0} | methods)
