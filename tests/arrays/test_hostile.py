"""Malformed arrays of other libraries: they are rejected, with the argument's name, before any of their bytes
is accessed, and released once. All on the CPU, so that the sanitizers see it."""

import ctypes
import gc
import re
import sys
import threading
import time

import numpy as np
import pytest
from capsules import (
    NAMES,
    Exporter,
    address,
    delete,
    exchanging_class,
    fail,
    give_nothing,
    read_capsule,
    table,
    tables,
    take_capsule,
)
from cases import expect_launches, on, run_python
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from tiers import times

import smemkit
from smemkit import _core

X = np.ones((3, 4), np.float32)
NO_CUDA_REASON = _core.cuda_unavailable()

USES = {
    "x": lambda e: smemkit.sum(e, device="cpu"),
    "x2": lambda e: smemkit.matmul(X.T, e, device="cpu"),
    "out": lambda e: smemkit.add_one(X, out=e, device="cpu"),
    "obj": lambda e: smemkit.asarray(e, device="cpu"),
    "from_dlpack": lambda e: smemkit.from_dlpack(e),
}


# ---- capsules ---------------------------------------------------------------------------------------------------

STRIDES_MESSAGE = "expected strides and an offset that stay within the address space"
SHAPE = "expected a shape without negative lengths and of fewer than 2**63 bytes"
MALFORMED = {
    "name": ({"name": b"tensor"}, BufferError, "expected an unconsumed capsule 'dltensor'"),
    "used": ({"name": b"used_dltensor"}, BufferError, "expected an unconsumed capsule 'dltensor'"),
    "ndim -1": ({"ndim": -1}, ValueError, "expected 0 to 64 dimensions, got -1"),
    "ndim 65": ({"shape": (1,) * 65}, ValueError, "expected 0 to 64 dimensions, got 65"),
    "ndim huge": ({"ndim": 2**31 - 1}, ValueError, "expected 0 to 64 dimensions, got 2147483647"),
    "no shape": ({"shape": None, "ndim": 2}, ValueError, "expected a shape, got a null pointer"),
    "negative": ({"shape": (3, -4)}, ValueError, SHAPE),
    "negative, none": ({"shape": (0, -4)}, ValueError, SHAPE),
    "least": ({"shape": (-(2**63), 1)}, ValueError, SHAPE),
    "product": ({"shape": (2**32, 2**32)}, ValueError, SHAPE),
    "product of bytes": ({"shape": (2**61, 1)}, ValueError, SHAPE),
    "product, hidden by 0": ({"shape": (0, 2**40, 2**40), "strides": (1, 1, 1)}, ValueError, SHAPE),
    "strides": ({"strides": (2**62, 1)}, ValueError, STRIDES_MESSAGE),
    "strides, least": ({"strides": (-(2**63), 1)}, ValueError, STRIDES_MESSAGE),
    "strides, reach": ({"strides": (2**60, 1)}, ValueError, STRIDES_MESSAGE),
    "strides, around": ({"strides": (-(2**60), 1)}, ValueError, STRIDES_MESSAGE),
    "strides, both": ({"strides": (2**59, -(2**59))}, ValueError, STRIDES_MESSAGE),
    "offset": ({"byte_offset": 2**64 - 1}, ValueError, STRIDES_MESSAGE),
    "no data": ({"data": None}, ValueError, "expected the address of its elements, got a null pointer"),
    "no data, offset": ({"data": None, "byte_offset": 64}, ValueError, "got a null pointer"),
    "handle": ({"code": 3, "bits": 64}, TypeError, "got DLPack's code 3 with 64 bits and 1 lanes"),
    "float8": ({"code": 7, "bits": 8}, TypeError, "got DLPack's code 7 with 8 bits and 1 lanes"),
    "code 255": ({"code": 255}, TypeError, "got DLPack's code 255 with 32 bits and 1 lanes"),
    "no bits": ({"bits": 0}, TypeError, "got DLPack's code 2 with 0 bits and 1 lanes"),
    "24 bits": ({"bits": 24}, TypeError, "got DLPack's code 2 with 24 bits and 1 lanes"),
    "bool, 32 bits": ({"code": 6}, TypeError, "got DLPack's code 6 with 32 bits and 1 lanes"),
    "float128": ({"bits": 128}, TypeError, "got DLPack's code 2 with 128 bits and 1 lanes"),
    "vectors": ({"lanes": 4}, TypeError, "got DLPack's code 2 with 32 bits and 4 lanes"),
    "no lanes": ({"lanes": 0}, TypeError, "got DLPack's code 2 with 32 bits and 0 lanes"),
    "device": ({"device_type": 2}, BufferError, "expected memory of the host, as __dlpack_device__ returned"),
    "device 99": ({"device_type": 99, "device_id": 7}, BufferError, "got device (99, 7)"),
    "device -1": ({"device_type": -1, "device_id": -1}, BufferError, "got device (-1, -1)"),
}  # fmt: skip
MALFORMED_VERSIONS = {
    "major 2": ({"major": 2, "minor": 5}, BufferError, "expected DLPack 1, got version 2.5"),
    "major 0": ({"major": 0}, BufferError, "expected DLPack 1, got version 0.0"),
    "major -1": ({"major": 2**32 - 1}, BufferError, "expected DLPack 1, got version 4294967295.0"),
}
CASES = [(what, False) for what in MALFORMED] + [(what, True) for what in (*MALFORMED, *MALFORMED_VERSIONS)]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("what", "versioned"), CASES, ids=lambda value: str(value))
@pytest.mark.covering
def test_malformed_capsule(what, versioned, use):
    fields, error, message = (MALFORMED | MALFORMED_VERSIONS)[what]
    if what == "used" and versioned:
        fields = {"name": b"used_dltensor_versioned"}
    exporter, before = Exporter(versioned=versioned, **fields), _core.allocations()
    untaken = "name" in fields  # the capsule was not taken
    with expect_launches(0), pytest.raises(error, match=re.escape(message)) as caught:
        USES[use](exporter)
    assert str(caught.value).startswith("x: " if use == "from_dlpack" else f"{use}: ")
    del caught
    gc.collect()
    assert exporter.deleted == (0 if untaken else 1)
    assert _core.allocations() == before


@pytest.mark.parametrize("versioned", [False, True])
def test_deleter_is_called_once(versioned):
    exporter = Exporter(versioned=versioned)
    assert smemkit.sum(exporter, device="cpu") == 78
    assert exporter.deleted == 1
    assert exporter.asked == [{"max_version": (1, 3)}]


@pytest.mark.parametrize("versioned", [False, True])
def test_capsule_without_deleter(versioned):
    assert smemkit.sum(Exporter(versioned=versioned, no_deleter=True), device="cpu") == 78
    assert smemkit.from_dlpack(Exporter(versioned=versioned, no_deleter=True)).shape == (3, 4)


def test_array_keeps_its_source_alive():
    exporter = Exporter()
    x = smemkit.from_dlpack(exporter)
    y = np.from_dlpack(x)
    assert exporter.deleted == 0
    del x
    gc.collect()
    assert exporter.deleted == 0
    assert_array_equal(y, exporter.x)
    del y
    gc.collect()
    assert exporter.deleted == 1


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda e: smemkit.matmul(e, e, device="cpu"), ValueError),
        (lambda e: smemkit.sum(e, axis=7, device="cpu"), ValueError),
        (lambda e: smemkit.sum(e, device="gpu"), ValueError),
        (lambda e: smemkit.sum(e, kernel="none", device="cpu"), ValueError),
        (lambda e: smemkit.sum(e, stream=5, device="cpu"), ValueError),
        (lambda e: smemkit.matmul(e, on("cpu", X.T)), TypeError),
        (lambda e: smemkit.matmul(on("cpu", X.T), e), TypeError),
        (lambda e: smemkit.add_one(on("cpu", X), out=e), TypeError),
        (lambda e: smemkit.add_one(X[0], out=e, device="cpu"), ValueError),
        (lambda e: smemkit.add_one(X * 1j, out=e, device="cpu"), TypeError),
        (lambda e: smemkit.from_dlpack(e, device="gpu"), ValueError),
        (lambda e: smemkit.from_dlpack(e, copy="no"), TypeError),
    ],
)
def test_rejected_call_releases_the_capsule(call, error):
    exporter = Exporter()
    with pytest.raises(error):
        call(exporter)
    gc.collect()
    assert exporter.deleted == len(exporter.asked) > 0


@pytest.mark.parametrize("use", ["x", "out", "obj", "from_dlpack"])
def test_out_of_memory_releases_the_capsule(use):
    exporter = Exporter()
    _core.fail_allocation(1)
    try:
        if use == "from_dlpack":
            with pytest.raises(smemkit.OutOfMemoryError):
                smemkit.from_dlpack(exporter, copy=True)
        else:
            with pytest.raises(smemkit.OutOfMemoryError):
                USES[use](exporter)
    finally:
        _core.fail_allocation(0)
    gc.collect()
    assert exporter.deleted == 1


def test_read_only_array_is_rejected_as_out():
    exporter = Exporter(versioned=True, flags=1)
    with (
        expect_launches(0),
        pytest.raises(ValueError, match="out: expected a writeable array, got one that is read-only"),
    ):
        USES["out"](exporter)
    assert exporter.deleted == 1
    assert smemkit.sum(exporter, device="cpu") == 78
    x = smemkit.from_dlpack(exporter)
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__()
    with expect_launches(0), pytest.raises(ValueError, match="out: expected a writeable array"):
        smemkit.add_one(x, out=x)


def test_unknown_dlpack_flags_are_ignored():
    assert smemkit.sum(Exporter(versioned=True, flags=2**64 - 2), device="cpu") == 78


@pytest.mark.parametrize("versioned", [False, True])
def test_unusual_but_valid_arrays(versioned):
    largest = 2**63 - 1
    for fields, expected in (
        ({"shape": ()}, 1),
        ({"strides": None}, 78),
        ({"shape": (0, 4), "data": None}, 0),
        ({"shape": (0, 4), "strides": (largest, largest)}, 0),
        ({"shape": (1, 4), "strides": (largest, 1)}, 10),
        ({"strides": (0, 0)}, 12),
        ({"strides": (4, -1), "byte_offset": 12}, 78),
        ({"shape": (2, 4), "byte_offset": 16}, 68),
    ):
        exporter = Exporter(versioned=versioned, **fields)
        assert smemkit.sum(exporter, device="cpu") == expected, fields
        assert smemkit.sum(smemkit.from_dlpack(exporter)).item() == expected, fields
        assert exporter.deleted == 2


SIZES = st.one_of(st.integers(-1, 5), st.sampled_from([2**31, 2**32, 2**62, 2**63 - 1, -(2**63)]))
STEPS = st.one_of(st.integers(-9, 9), st.sampled_from([2**31, 2**61, -(2**61), 2**62, 2**63 - 1, -(2**63)]))
BUFFER = np.arange(1, 257, dtype=np.float32)
MIDDLE = 128


def expected_elements(shape, strides):
    """The elements around MIDDLE; False if the array is invalid; None if the test cannot tell."""
    product = int(np.prod([max(length, 1) for length in shape], dtype=object)) * 4
    if any(length < 0 for length in shape) or product >= 2**63:
        return False
    if 0 in shape:
        return np.zeros(shape, np.float32)
    reach = [(length - 1) * step for length, step in zip(shape, strides, strict=True)]
    low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + 1
    if low >= -MIDDLE and high <= MIDDLE and product > 2**14:
        return None  # it would take too long
    if low >= -MIDDLE and high <= MIDDLE:
        steps = [4 * step if length > 1 else 0 for length, step in zip(shape, strides, strict=True)]
        return np.lib.stride_tricks.as_strided(BUFFER[MIDDLE:], shape, steps)
    if any(not -(2**63) <= 4 * r < 2**63 for r in (*reach, low, high)) or 4 * (high - low) >= 2**63:
        return False
    address = BUFFER.ctypes.data + 4 * MIDDLE
    return None if address + 4 * low >= 0 and address + 4 * high < 2**64 else False


@settings(max_examples=times(400, 60), deadline=None)
@given(st.lists(st.tuples(SIZES, STEPS), max_size=4), st.booleans())
def test_any_shape_and_strides(dimensions, versioned):
    shape, strides = [length for length, _ in dimensions], [step for _, step in dimensions]
    expected = expected_elements(shape, strides)
    if expected is None:
        return
    exporter = Exporter(BUFFER, versioned=versioned, shape=shape, strides=strides, byte_offset=4 * MIDDLE)
    if expected is False:
        with expect_launches(0), pytest.raises(ValueError, match=r"^x: expected (a shape|strides)"):
            smemkit.convert(exporter, device="cpu")
    else:
        assert_array_equal(smemkit.convert(exporter, device="cpu"), expected, strict=True)
    gc.collect()
    assert exporter.deleted == 1


# ---- DLPack's exchange API --------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "what",
    [what for what in (*MALFORMED, *MALFORMED_VERSIONS) if what not in ("name", "used") and "device" not in what],
)
def test_malformed_exchanged_array(what, use):
    fields, error, message = (MALFORMED | MALFORMED_VERSIONS)[what]
    exporter, before = exchanging_class()(versioned=True, **fields), _core.allocations()
    with expect_launches(0), pytest.raises(error, match=re.escape(message)) as caught:
        USES[use](exporter)
    assert str(caught.value).startswith("x: " if use == "from_dlpack" else f"{use}: ")
    del caught
    gc.collect()
    assert exporter.deleted == exporter.given > 0
    assert exporter.asked == []
    assert _core.allocations() == before


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("dl_device", [(10, 1), (99, 7), (-1, -1), (0, 0), (2, 9999), (2, -1), (13, 2**31 - 1)])
def test_array_on_an_unknown_device(dl_device, use):
    exporter = exchanging_class()(versioned=True, device_type=dl_device[0], device_id=dl_device[1])
    error, message = (BufferError, f"got DLPack's device ({dl_device[0]}, {dl_device[1]})")
    if dl_device[0] in (2, 13):
        error, message = smemkit.NoDeviceError, "its memory is on"
    with expect_launches(0), pytest.raises(error, match=re.escape(message)):
        USES[use](exporter)
    assert (exporter.given, exporter.deleted, exporter.asked) == (1, 1, [])


def test_exchanged_array_is_released_once():
    exporter = exchanging_class()(versioned=True)
    references = sys.getrefcount(exporter)
    assert smemkit.sum(exporter, device="cpu") == 78
    assert (exporter.given, exporter.deleted, exporter.asked) == (1, 1, [])
    x = smemkit.from_dlpack(exporter)
    y = np.from_dlpack(x)
    del x
    gc.collect()
    assert (exporter.given, exporter.deleted) == (2, 1)
    assert_array_equal(y, exporter.x)
    del y
    gc.collect()
    assert (exporter.given, exporter.deleted, exporter.asked) == (2, 2, [])
    assert sys.getrefcount(exporter) == references
    assert smemkit.sum(exchanging_class()(versioned=True, no_deleter=True), device="cpu") == 78


def test_out_through_the_exchange_api():
    out = exchanging_class()(np.zeros((4, 3)), versioned=True)
    assert smemkit.transpose(X, out=out, device="cpu") is out
    assert_array_equal(out.x, X.T)
    assert (out.given, out.deleted) == (1, 1)
    exporter = exchanging_class()(versioned=True, flags=1)
    with expect_launches(0), pytest.raises(ValueError, match="out: expected a writeable array"):
        USES["out"](exporter)
    assert (exporter.given, exporter.deleted, exporter.asked) == (1, 1, [])


def cycle():
    pointer = table(major=2)
    tables[-1].older = pointer
    return pointer


UNUSABLE_APIS = {
    "major 2": lambda: exchanging_class(table(major=2)),
    "major 0": lambda: exchanging_class(table(major=0)),
    "a cycle": lambda: exchanging_class(cycle()),
    "no from_object": lambda: exchanging_class(table(from_object=None)),
    "no work_stream": lambda: exchanging_class(table(work_stream=None)),
    "name": lambda: exchanging_class(name=b"dltensor"),
    "no capsule": lambda: type("None", (Exporter,), {"__dlpack_c_exchange_api__": None, "given": 0}),
    "a number": lambda: type("Number", (Exporter,), {"__dlpack_c_exchange_api__": table(), "given": 0}),
}


@pytest.mark.parametrize("what", UNUSABLE_APIS)
def test_unusable_exchange_api_falls_back_to_dlpack(what):
    exporter = UNUSABLE_APIS[what]()(versioned=True)
    assert smemkit.sum(exporter, device="cpu") == 78
    assert (exporter.given, exporter.deleted, exporter.asked) == (0, 1, [{"max_version": (1, 3)}])


def test_exchange_api_with_previous_version():
    exporter = exchanging_class(
        table(major=3, older=table(major=2, older=table(), from_object=1), from_object=1)
    )()
    exporter = type(exporter)(versioned=True)
    assert smemkit.sum(exporter, device="cpu") == 78
    assert (exporter.given, exporter.deleted, exporter.asked) == (1, 1, [])


def test_exchange_api_is_looked_up_on_the_type():
    exporter = Exporter(versioned=True)
    exporter.__dlpack_c_exchange_api__ = exchanging_class(table(from_object=1)).__dlpack_c_exchange_api__
    assert smemkit.sum(exporter, device="cpu") == 78


def test_exception_in_exchange_api_lookup():
    class Silent(type):
        def __getattr__(cls, name):
            raise LookupError(name)

    with expect_launches(0), pytest.raises(LookupError, match="__dlpack_c_exchange_api__"):
        smemkit.sum(Silent("Told", (), {})())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (BufferError, "x: no"),
        (TypeError, "x: no"),
        (RuntimeError, "no"),
        (LookupError, "no"),
        (KeyboardInterrupt, ""),
    ],
)
def test_exception_of_the_exchange_api(error, message):
    def refuse(self):
        raise error(*["no"] * bool(message))

    pointer = table(from_object=address(fail))
    alone = exchanging_class(pointer, base=object, __len__=refuse)()
    exporter = exchanging_class(pointer, __len__=refuse)(versioned=True)
    with expect_launches(0), pytest.raises(error, match=f"^{message}$"):
        smemkit.sum(alone, device="cpu")
    if error in (LookupError, KeyboardInterrupt):
        with expect_launches(0), pytest.raises(error, match=f"^{message}$"):
            smemkit.sum(exporter, device="cpu")
        assert exporter.deleted == 0
    else:  # then __dlpack__ is used
        assert smemkit.sum(exporter, device="cpu") == 78
        assert (exporter.deleted, exporter.asked) == (1, [{"max_version": (1, 3)}])


def test_exchange_api_that_returns_null():
    pointer = table(from_object=address(give_nothing))
    with (
        expect_launches(0),
        pytest.raises(BufferError, match="x: expected an array of the DLPack exchange API of Exch"),
    ):
        smemkit.sum(exchanging_class(pointer, base=object)(), device="cpu")
    exporter = exchanging_class(pointer)(versioned=True)
    assert smemkit.sum(exporter, device="cpu") == 78
    assert (exporter.deleted, exporter.asked) == (1, [{"max_version": (1, 3)}])


def test_conjugate_and_negative_bits():
    complexes = np.ones((3, 4), np.complex64)
    needs = exchanging_class(requires_grad=True)(versioned=True)
    conjugate = exchanging_class(is_conj=lambda self: True)(complexes, versioned=True)
    for exporter, asked in ((needs, 0), (conjugate, 1)):  # __dlpack__ decides
        smemkit.sum(exporter, device="cpu")
        assert (exporter.given, exporter.deleted, len(exporter.asked)) == (asked, asked + 1, 1)
    negative = exchanging_class(is_neg=lambda self: True)(versioned=True)
    with (
        expect_launches(0),
        pytest.raises(BufferError, match=r"x: expected the elements .*Exchanging.*\.resolve_neg\(\)"),
    ):
        smemkit.sum(negative, device="cpu")
    assert (negative.given, negative.deleted, negative.asked) == (1, 1, [])
    plain = exchanging_class(is_neg=lambda self: False, is_conj=lambda self: 0, requires_grad=False)
    assert smemkit.sum(plain(complexes, versioned=True), device="cpu") == 12
    for name in ("is_neg", "requires_grad"):
        raising = exchanging_class(**{name: lambda self: 1 / 0})(versioned=True)
        with expect_launches(0), pytest.raises(ZeroDivisionError):
            smemkit.sum(raising, device="cpu")
        assert raising.deleted == raising.given


# ---- objects ----------------------------------------------------------------------------------------------------


class FakeDLPackObject:
    """Its methods return or raise what they were given."""

    def __init__(self, device=(1, 0), capsule=None):
        self.device, self.capsule = device, capsule

    def say(self, what):
        if isinstance(what, BaseException):
            raise what
        return what

    def __dlpack_device__(self):
        return self.say(self.device)

    def __dlpack__(self, stream=None, max_version=None):
        return self.say(self.capsule)


@pytest.mark.parametrize(
    "device", [None, (), (1,), (1, 0, 0), "ab", ("1", 0), (2**70, 0), (-1, 0), (1, -1), [1, 0]]
)
def test_invalid_dlpack_device(device):
    message = "x: expected __dlpack_device__ to return a type and a number, got "
    for call in (smemkit.sum, smemkit.from_dlpack):
        with expect_launches(0), pytest.raises(TypeError, match=re.escape(message)):
            call(FakeDLPackObject(device))


def test_unsupported_dlpack_device():
    message = "x: expected memory of the host or of a CUDA device, got DLPack's device (10, 1)"
    for call in (smemkit.sum, smemkit.from_dlpack):
        with expect_launches(0), pytest.raises(BufferError, match=re.escape(message)):
            call(FakeDLPackObject((10, 1)))


@pytest.mark.parametrize("capsule", [None, 5, "dltensor", b"", {}], ids=repr)
def test_invalid_dlpack_return_value(capsule):
    message = f"x: expected __dlpack__ to return a capsule, got {type(capsule).__name__}"
    for call in (smemkit.sum, smemkit.from_dlpack):
        with expect_launches(0), pytest.raises(TypeError, match=re.escape(message)):
            call(FakeDLPackObject(capsule=capsule))


def test_capsule_with_foreign_name():
    import datetime

    message = "x: expected an unconsumed capsule 'dltensor', got <capsule object \"datetime."
    for call in (smemkit.sum, smemkit.from_dlpack):
        with expect_launches(0), pytest.raises(BufferError, match=re.escape(message)):
            call(FakeDLPackObject(capsule=datetime.datetime_CAPI))


def test_capsule_returned_twice():
    exporter = Exporter()
    capsule = exporter.__dlpack__()
    assert smemkit.sum(FakeDLPackObject(capsule=capsule), device="cpu") == 78
    with expect_launches(0), pytest.raises(BufferError, match="expected an unconsumed capsule"):
        smemkit.sum(FakeDLPackObject(capsule=capsule), device="cpu")
    with (
        expect_launches(0),
        pytest.raises(BufferError, match="x2: expected an unconsumed capsule 'dltensor'"),
    ):
        exporter = Exporter()
        capsule = exporter.__dlpack__()
        smemkit.matmul(FakeDLPackObject(capsule=capsule), FakeDLPackObject(capsule=capsule), device="cpu")
    assert exporter.deleted == 1


@pytest.mark.parametrize("where", ["device", "capsule"])
@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
        (BufferError("no"), BufferError, "x: no"),
        (TypeError("no"), TypeError, "x: no"),
        (ValueError("no"), ValueError, "x: no"),
        (LookupError("no"), LookupError, "no"),
    ],
    ids=repr,
)
def test_exceptions_of_dlpack_methods_propagate(where, error, raised, message):
    for call in (smemkit.sum, smemkit.from_dlpack):
        with expect_launches(0), pytest.raises(raised, match=f"^{message}$"):
            call(FakeDLPackObject(**{where: error}))


def test_exceptions_of_lookups_propagate():
    """A failed lookup does not count as a missing method, nor a failed __index__ as an invalid number."""

    class OnlyTheExchangeApiIsMissing(type):
        def __getattr__(cls, name):
            raise AttributeError(name) if "exchange" in name else LookupError(name)

    class Number:
        def __index__(self):
            raise LookupError("__index__")

    silent = OnlyTheExchangeApiIsMissing("Silent", (), {})()
    for call in (smemkit.sum, smemkit.from_dlpack):
        with expect_launches(0), pytest.raises(LookupError, match="__dlpack__"):
            call(silent)
        with expect_launches(0), pytest.raises(LookupError, match="__index__"):
            call(FakeDLPackObject((Number(), 0)))
    with pytest.raises(LookupError, match="__array_ufunc__"):
        np.logaddexp(smemkit.asarray(X, device="cpu"), silent)


def test_fallback_from_dlpack_to_array():
    class Refuses(FakeDLPackObject):
        def __array__(self, dtype=None, copy=None):
            return X

    assert smemkit.sum(Refuses(capsule=BufferError("no")), device="cpu") == 12
    with pytest.raises(LookupError):
        smemkit.sum(Refuses(capsule=LookupError("no")), device="cpu")
    with pytest.raises(BufferError, match="x: no"):
        smemkit.from_dlpack(Refuses(capsule=BufferError("no")))


def test_dlpack_without_max_version():
    class Old(Exporter):
        def __dlpack__(self, stream=None):
            return super().__dlpack__()

    old = Old()
    assert smemkit.sum(old, device="cpu") == 78
    assert old.deleted == 1


def test_from_dlpack_of_other_objects():
    message = "x: expected an object with __dlpack__ and __dlpack_device__, got list"
    with pytest.raises(TypeError, match=message):
        smemkit.from_dlpack([1, 2])
    half = type("Half", (), {"__dlpack__": lambda self: None})()
    with pytest.raises(TypeError, match="x: expected an object with __dlpack__ and __dlpack_device__, got Half"):
        smemkit.from_dlpack(half)


def test_array_on_a_missing_gpu():
    exporter = Exporter(announced=(2, 9999))
    message = (
        "none is available: " + re.escape(NO_CUDA_REASON)
        if NO_CUDA_REASON
        else "its memory is on CUDA device 9999, there"
    )
    for use in USES.values():
        with expect_launches(0), pytest.raises(smemkit.NoDeviceError, match=message):
            use(exporter)
    assert exporter.asked == []


# ---- the CUDA Array Interface -----------------------------------------------------------------------------------


class HasInterface:
    def __init__(self, interface):
        self.interface = interface

    @property
    def __cuda_array_interface__(self):
        if isinstance(self.interface, BaseException):
            raise self.interface
        return self.interface


VALID_INTERFACE = {"shape": (3, 4), "typestr": "<f4", "data": (X.ctypes.data, False), "version": 3}
MISSING = object()
INTERFACES = {
    "shape, list": ({"shape": [3, 4]}, TypeError, "expected a tuple of up to 64 integers as 'shape', got [3, 4]"),
    "no shape": ({"shape": MISSING}, TypeError, "expected a tuple of up to 64 integers as 'shape', got None"),
    "shape, int": ({"shape": 12}, TypeError, "expected a tuple of up to 64 integers as 'shape', got 12"),
    "shape, texts": ({"shape": ("3",)}, TypeError, "'str' object cannot be interpreted as an integer"),
    "shape, floats": ({"shape": (3.0,)}, TypeError, "'float' object cannot be interpreted as an integer"),
    "shape, long": ({"shape": (1,) * 65}, TypeError, "expected a tuple of up to 64 integers as 'shape', got (1,"),
    "shape, huge": ({"shape": (2**70,)}, OverflowError, ""),
    "negative": ({"shape": (3, -4)}, ValueError, SHAPE),
    "product": ({"shape": (2**32, 2**32)}, ValueError, SHAPE),
    "no typestr": ({"typestr": MISSING}, TypeError, "expected a str as 'typestr', got None"),
    "typestr": ({"typestr": b"<f4"}, TypeError, "expected a str as 'typestr', got b'<f4'"),
    "nonsense": ({"typestr": "nonsense"}, TypeError, "data type 'nonsense' not understood"),
    "objects": ({"typestr": "|O"}, TypeError, "expected dtype bool, int8"),
    "records": ({"typestr": "<f4,<f4"}, TypeError, "expected dtype bool, int8"),
    "void": ({"typestr": "|V4"}, TypeError, "expected dtype bool, int8"),
    "no data": ({"data": MISSING}, TypeError, "expected an address and a bool as 'data', got None"),
    "data": ({"data": X.ctypes.data}, TypeError, "expected an address and a bool as 'data', got"),
    "data, three": ({"data": (1, 2, 3)}, TypeError, "expected an address and a bool as 'data', got (1, 2, 3)"),
    "data, text": (
        {"data": ("1", False)},
        TypeError,
        "expected an address and a bool as 'data', got ('1', False)",
    ),
    "data, negative": ({"data": (-4, False)}, OverflowError, ""),
    "data, huge": ({"data": (2**64, False)}, OverflowError, ""),
    "null": ({"data": (0, False)}, ValueError, "expected the address of its elements, got a null pointer"),
    "truth": ({"data": (64, np.ones(2))}, ValueError, "truth value of an array"),
    "strides, few": ({"strides": (16,)}, ValueError, "expected as many 'strides' as lengths in 'shape'"),
    "strides, list": ({"strides": [16, 4]}, TypeError, "integers as 'strides', got [16, 4]"),
    "strides, texts": ({"strides": ("16", "4")}, TypeError, "'str' object cannot be interpreted as an integer"),
    "strides, far": ({"strides": (2**62, 4)}, ValueError, STRIDES_MESSAGE),
    "strides, around": ({"strides": (-(2**61), 4)}, ValueError, STRIDES_MESSAGE),
    "end": ({"data": (2**64 - 8, False)}, ValueError, STRIDES_MESSAGE),
    "no version": (
        {"version": MISSING},
        ValueError,
        "expected version 1, 2 or 3 of the CUDA Array Interface, got None",
    ),
    "version 0": ({"version": 0}, ValueError, "expected version 1, 2 or 3 of the CUDA Array Interface, got 0"),
    "version 99": ({"version": 99}, ValueError, "expected version 1, 2 or 3 of the CUDA Array Interface, got 99"),
    "version huge": (
        {"version": 2**99},
        ValueError,
        "expected version 1, 2 or 3 of the CUDA Array Interface, got 6",
    ),
    "version, text": (
        {"version": "3"},
        ValueError,
        "expected version 1, 2 or 3 of the CUDA Array Interface, got '3'",
    ),
    "mask": ({"mask": X}, TypeError, "expected an array without a mask, got numpy.ndarray with one"),
}


def with_changes(changes):
    return {key: value for key, value in {**VALID_INTERFACE, **changes}.items() if value is not MISSING}


@pytest.mark.parametrize("use", ["x", "x2", "obj"])
@pytest.mark.parametrize("what", INTERFACES)
def test_malformed_cuda_array_interface(what, use):
    changes, error, message = INTERFACES[what]
    with expect_launches(0), pytest.raises(error, match=f"^{use}: .*{re.escape(message)}"):
        USES[use](HasInterface(with_changes(changes)))


@pytest.mark.parametrize(
    "interface", [None, 5, [], "", VALID_INTERFACE.items()], ids=lambda value: type(value).__name__
)
def test_cuda_array_interface_that_is_not_a_dict(interface):
    message = f"x: expected __cuda_array_interface__ to be a dict, got {type(interface).__name__}"
    with expect_launches(0), pytest.raises(TypeError, match=message):
        smemkit.sum(HasInterface(interface))


@pytest.mark.parametrize(
    "changes", [{}, {"strides": None}, {"mask": None, "descr": [("", "<f4")]}, {"version": 2}]
)
def test_host_address_in_cuda_array_interface(changes):
    error, message = smemkit.NoDeviceError, "x: its memory is on a CUDA device, but none is available: "
    if not NO_CUDA_REASON:
        error, message = ValueError, "x: expected the address of CUDA device memory, got another address"
    with (
        expect_launches(0),
        pytest.raises(error, match=message + (re.escape(NO_CUDA_REASON) if NO_CUDA_REASON else "$")),
    ):
        smemkit.sum(HasInterface(with_changes(changes)))


def test_exceptions_of_cuda_array_interface_propagate():
    with expect_launches(0), pytest.raises(KeyboardInterrupt):
        smemkit.sum(HasInterface(KeyboardInterrupt()))
    with expect_launches(0), pytest.raises(ValueError, match="x: no"):
        smemkit.sum(HasInterface(ValueError("no")))
    with expect_launches(0), pytest.raises(TypeError, match="x: " + "expected dtype bool"):
        smemkit.sum(HasInterface(AttributeError("no")))  # then it is not an array


def test_cuda_array_interface_changed_while_read():
    class Clears:
        def __index__(self):
            interface.clear()
            gc.collect()
            return 3

    interface = VALID_INTERFACE | {"shape": (Clears(), 2**20 + 7), "strides": (2**30 + 1, 2**31 + 3)}
    with expect_launches(0), pytest.raises((smemkit.NoDeviceError, ValueError)):
        smemkit.sum(HasInterface(interface))
    assert interface == {}


ARBITRARY_VALUES = st.one_of(
    st.none(),
    st.integers(),
    st.text(),
    st.binary(),
    st.booleans(),
    st.floats(),
    st.tuples(st.integers(), st.booleans()),
    st.lists(st.integers()).map(tuple),
    st.sampled_from(["<f4", "|b1", ">i8", "<c16", 3, (2, 3)]),
)


@settings(max_examples=times(300, 100), deadline=None)
@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys((*VALID_INTERFACE, "strides", "stream", "mask", "descr"), ARBITRARY_VALUES)
    )
)
def test_arbitrary_cuda_array_interface(junk):
    try:
        smemkit.sum(HasInterface(VALID_INTERFACE | junk))
    except (TypeError, ValueError, OverflowError, smemkit.NoDeviceError) as error:
        assert str(error).startswith("x: ")
    else:
        assert not NO_CUDA_REASON and 0 in junk["shape"]


# ---- interpreters -----------------------------------------------------------------------------------------------

INTERPRETERS = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
another = interpreters.create()
try:
    failed = str(interpreters.run_string(another, "import smemkit"))  # from CPython 3.13 on it is returned
except interpreters.RunFailedError as error:
    failed = str(error)
assert "interpreter" in failed, failed  # CPython 3.12 and later have their own message
interpreters.destroy(another)
import numpy, smemkit
assert smemkit.sum(numpy.arange(4.0), device="cpu") == 6
"""


def test_a_subinterpreter_is_refused_and_leaves_the_main_one_alone():
    done = run_python("-W", "error", "-c", INTERPRETERS)
    assert done.returncode == 0, done.stderr


# ---- threads and lifetimes --------------------------------------------------------------------------------------


def run_during_call(call, action):
    """Calls `action` while `call` runs in another thread. Returns the results of both."""
    before, results = smemkit.launches(), []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    while smemkit.launches() == before and thread.is_alive():
        time.sleep(0.001)
    running = thread.is_alive()
    result_of_action = action()
    thread.join()
    assert running, "the call was over too early for the test to say anything"
    return result_of_action, results[0]


N = 512


def test_no_other_thread_resizes_an_operand():
    x = np.ones((N, N), np.float32)
    out = np.zeros((N, N), np.float32)

    def resize():
        for array in (x, out):
            with pytest.raises(ValueError, match="cannot resize an array that"):
                array.resize((1, 1), refcheck=False)
        return True

    _, result = run_during_call(lambda: smemkit.matmul(x, x, kernel="naive", out=out, device="cpu"), resize)
    assert result is out
    assert_array_equal(out, np.full((N, N), N, np.float32))
    x.resize((1, 1), refcheck=False)
    assert x.shape == (1, 1)


def test_an_array_lives_as_long_as_the_call_on_it():
    gc.collect()  # Arrays of other tests, which could be released at any time
    exporter = Exporter(np.ones((N, N), np.float32))
    arrays = [smemkit.from_dlpack(exporter)]

    def drop():  # without a collection, which may take longer than the call
        arrays.clear()
        return exporter.deleted

    deleted, result = run_during_call(lambda: smemkit.matmul(arrays[0], arrays[0], kernel="naive"), drop)
    assert deleted == 0
    gc.collect()
    assert exporter.deleted == 1
    assert_array_equal(result.numpy(), np.full((N, N), N, np.float32))


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("without_gil", [False, True])
def test_our_deleter_may_be_called_anywhere(versioned, without_gil):
    gc.collect()  # Arrays of other tests, which could be released at any time
    x, before = smemkit.zeros((2, 3), device="cpu"), _core.allocations()
    managed = take_capsule(x.__dlpack__(max_version=(1, 0) if versioned else None), versioned)
    references = sys.getrefcount(x)
    thread = threading.Thread(target=delete, args=(managed, without_gil))
    thread.start()
    thread.join()
    assert sys.getrefcount(x) == references - 1
    managed = take_capsule(x.__dlpack__(max_version=(1, 0) if versioned else None), versioned)
    del x
    gc.collect()
    assert _core.allocations() == before
    delete(managed, without_gil)
    assert _core.allocations() == before - 1


@pytest.mark.parametrize("versioned", [False, True])
def test_unconsumed_capsule_is_released(versioned):
    x = smemkit.zeros((2, 3), device="cpu")
    references, before = sys.getrefcount(x), _core.allocations()
    capsules = [x.__dlpack__(max_version=(1, 0) if versioned else None) for _ in range(10)]
    assert sys.getrefcount(x) == references + 10
    assert read_capsule(capsules[0], versioned).tensor.ndim == 2
    capsules.clear()
    assert sys.getrefcount(x) == references
    copies = [x.__dlpack__(max_version=(1, 0), copy=True) for _ in range(10)]
    assert (sys.getrefcount(x), _core.allocations()) == (references, before + 10)
    copies.clear()
    assert _core.allocations() == before


@pytest.mark.parametrize("keep", ["capsule", "taken", "array"])
@pytest.mark.covering(most=2)
def test_interpreter_exits_with_exported_arrays(keep):
    lines = {
        "capsule": "builtins.kept = x.__dlpack__()",
        "taken": "builtins.kept = np.from_dlpack(x)",
        "array": "builtins.kept = smemkit.from_dlpack(np.ones(3))",
    }
    program = f"import builtins, numpy as np, smemkit\nx = smemkit.zeros(3, device='cpu')\n{lines[keep]}\ndel x\n"
    done = run_python("-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_capsule_names():
    x = smemkit.zeros(3, device="cpu")
    for versioned, version in ((False, None), (False, (0, 8)), (True, (1, 0)), (True, (7, 0))):
        assert f'"{NAMES[versioned].decode()}"' in repr(x.__dlpack__(max_version=version))
    assert ctypes.sizeof(ctypes.c_void_p) == 8
