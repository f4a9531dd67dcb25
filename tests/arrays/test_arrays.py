"""Arrays: their attributes, how they are created, and their conversion from and to NumPy."""

import contextlib
import copy
import doctest
import itertools
import operator
import os
import pickle
import re
import sys
import warnings
import weakref
from pathlib import Path

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from cases import DTYPE, DTYPES, expect_launches, integers, numbered, on
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from tiers import times

import smemkit
from smemkit import _core, arrays

SHAPES = [(), (1,), (0,), (3, 0), (2, 3), (5, 7, 11), (100_003,)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_round_trip_through_the_device(device, shape, dtype):
    x = integers(shape, dtype)
    assert_array_equal(on(device, x).numpy(), x, strict=True)


def test_array_attributes(device):
    x = on(device, numbered((2, 3, 4), np.float32))
    assert (x.shape, x.dtype, x.strides) == ((2, 3, 4), np.dtype(np.float32), (48, 16, 4))
    assert (x.size, x.nbytes, x.itemsize, x.ndim, x.device, len(x)) == (24, 96, 4, 3, device, 2)
    assert (x.readonly, x.is_contiguous) == (False, True)


def test_the_documentation_has_examples_that_run():
    runner = doctest.DocTestRunner()
    (test,) = doctest.DocTestFinder(recurse=False).find(smemkit.Array, globs={})
    assert test.examples
    with smemkit.Device("cpu"):
        assert runner.run(test).failed == 0


@pytest.mark.parametrize("name", [name for name in dir(smemkit.Array) if not name.startswith("_")])
def test_every_attribute_is_documented(name):
    assert getattr(smemkit.Array, name).__doc__


@pytest.mark.parametrize("make", [smemkit.empty, smemkit.zeros])
@pytest.mark.parametrize(
    ("shape", "expected"), [(3, (3,)), ((2, 3), (2, 3)), ([2, 3], (2, 3)), ((), ()), (0, (0,))]
)
def test_new_arrays(device, make, shape, expected):
    x = make(shape, device=device)
    assert (x.shape, x.dtype, x.device) == (expected, np.float32, device)
    assert make(shape, np.int32, device=device).dtype == np.int32


def test_zeros_are_zero(device):
    for _ in range(3):  # in memory that earlier arrays have used
        on(device, np.full(10_007, np.nan, np.float32))
        assert_array_equal(smemkit.zeros(10_007, device=device).numpy(), np.zeros(10_007, np.float32), strict=True)


def test_a_device_array_is_not_a_view(device):
    x = numbered(5, np.float32)
    array = on(device, x)
    x[:] = 0
    array.numpy()[:] = 0
    assert_array_equal(array.numpy(), numbered(5, np.float32))


@pytest.mark.parametrize(
    "x",
    [
        numbered((5, 7), np.float32).T,
        numbered((5, 7), np.float32)[::-2, ::3],
        numbered(5, ">f4").astype(">f4"),
        np.broadcast_to(np.float32(3), (4, 5)),
        [[1, 2], [3, 4]],
        3.5,
        np.float32(3),
        True,
    ],
    ids=["transposed", "strided", "big-endian", "broadcast", "list", "float", "scalar", "bool"],
)
def test_asarray_takes_what_numpy_takes(device, x):
    dtype = np.asarray(x).dtype.newbyteorder("=")
    array = smemkit.asarray(x, dtype=dtype, device=device)
    assert_array_equal(array.numpy(), np.asarray(x, dtype), strict=True)


@pytest.mark.parametrize(("given", "dtype"), [("int32", "float32"), ("float64", "float32"), ("float32", "int32")])
def test_asarray_converts(device, given, dtype):
    x = numbered((2, 3), given)
    for source in (x, on(device, x), x.tolist()):
        array = smemkit.asarray(source, dtype=dtype, device=device)
        assert_array_equal(array.numpy(), x.astype(dtype), strict=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_asarray_converts_to_every_dtype(device, dtype):
    for given in DTYPES:
        x = integers((3, 5), given)
        if given != "bool" and dtype != "bool" and np.dtype(given).kind != "c" and np.dtype(dtype).kind != "u":
            x = x * x.dtype.type(7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about imaginary parts
            expected = x.astype(dtype)
            results = [smemkit.asarray(x, dtype=dtype, device=device), smemkit.asarray(on(device, x), dtype=dtype)]
        for result in results:
            assert_array_equal(result.numpy(), expected, strict=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_preserve_bits(device, dtype):
    size = np.dtype(dtype).itemsize
    bits = np.random.default_rng(0).integers(0, 256, (33, 7, size), np.uint8)  # NaNs with payloads among them
    x = bits.view(dtype)[..., 0]
    for view, expected in ((x, bits), (x.T, bits.transpose(1, 0, 2)), (x[::-2], bits[::-2])):
        result = smemkit.asarray(view, device=device).numpy()
        assert_array_equal(np.ascontiguousarray(result)[..., None].view(np.uint8), expected)


def test_cuda_array_interface_is_missing_for_bfloat16():
    assert not hasattr(smemkit.zeros(3, "bfloat16", device="cpu"), "__cuda_array_interface__")


def test_asarray_warns_of_imaginary_parts(device):
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        assert smemkit.asarray(np.array([1 + 2j]), dtype=float, device=device).item() == 1


def test_zero_length_does_not_hide_overflow(device):
    with pytest.raises(ValueError, match="shape: expected no negative length and fewer than"):
        smemkit.empty((0, 2**40, 2**40), device=device)


def test_asarray_of_an_array_is_itself(device):
    x = on(device, numbered(3, np.float32))
    assert smemkit.asarray(x) is x
    assert smemkit.asarray(x, copy=False) is x
    assert smemkit.asarray(x, dtype=np.float32, device=device) is x


def test_asarray_with_copy_true(device):
    x = on(device, numbered(3, np.float32))
    copy = smemkit.asarray(x, copy=True)
    smemkit.add_one(x, out=x)
    assert_array_equal(copy.numpy(), [1, 2, 3])
    assert copy.device == device


def test_to_a_device_it_is_on_is_itself(device):
    x = on(device, numbered(3, np.float32))
    assert x.to(device) is x
    assert x.to(smemkit.Device(device)) is x


def test_to_another_device_and_back(device):
    x = numbered((3, 5), np.int32)
    there = on("cpu", x).to(device)
    assert there.device == device
    assert_array_equal(there.to("cpu").numpy(), x, strict=True)


@pytest.mark.gpu
def test_copies_between_devices():
    pairs = list(itertools.permutations(smemkit.devices(), 2))
    if not pairs:
        pytest.skip("one device")
    for (here, there), dtype, shape in itertools.product(pairs, ("bool", "int64", "bfloat16", "c16"), SHAPES):
        x = integers(shape, dtype)
        source = on(here, x)
        for array, expected in ((source, x), (source.T, x.T), (source.any(), np.asarray(x.astype("c16").any()))):
            copied = array.to(there)
            assert copied.device == there
            assert_array_equal(copied.numpy(), expected, strict=True)
        wide = smemkit.asarray(source, dtype="complex128", device=there)
        assert_array_equal(wide.numpy(), x.astype("complex128"), strict=True)
        with pytest.raises(ValueError, match="copy: False is impossible"):
            smemkit.asarray(source, device=there, copy=False)


@pytest.mark.gpu
def test_a_copy_to_another_gpu_comes_after_earlier_work_and_before_later():
    gpus = smemkit.devices()[:-1]
    if len(gpus) < 2:
        pytest.skip("fewer than two GPUs")
    n = 4096
    for here, there in itertools.permutations(gpus, 2):
        with smemkit.Stream(device=here), smemkit.Stream(device=there):
            x, out = smemkit.ones((n, n), device=here), smemkit.empty((n, n), device=here)
            for factor in range(4):
                smemkit.matmul(x, x, out=out)  # takes longer than the copy
                copied = out.to(there)
                out.fill(factor)  # must not reach the copy
                assert_array_equal(copied.numpy(), np.full((n, n), n, np.float32))
            moved = [(x * i).to(there) for i in range(8)]  # whose sources are released at once
            assert all((each == i).all().item() for i, each in enumerate(moved))
        with smemkit.Stream(device=there, synchronous=True) as stream:
            copied = x.to(there)
            assert stream.done
            assert (copied == 1).all().item()


@pytest.mark.parametrize(("value", "kind"), [(np.float32(2.5), float), (np.int32(7), int)])
def test_scalars_convert_to_python_numbers(device, value, kind):
    for x in (on(device, value), on(device, value.reshape(1, 1))):
        assert (x.item(), type(x.item())) == (value.item(), kind)
        assert (float(x), int(x)) == (float(value), int(value))


@pytest.mark.parametrize("shape", [(2,), (0,)])
def test_only_one_element_converts_to_a_number(device, shape):
    for read in (smemkit.Array.item, float, int):
        with pytest.raises(ValueError, match=f"item: expected an array of one element, got {shape[0]}"):
            read(smemkit.zeros(shape, device=device))


def test_len_of_a_0d_array_raises(device):
    with pytest.raises(TypeError, match=r"len\(\) of an array without dimensions"):
        len(smemkit.zeros((), device=device))


def test_numpy_takes_arrays(device):
    x = on(device, numbered((2, 3), np.float32))
    assert_array_equal(np.asarray(x), numbered((2, 3), np.float32), strict=True)
    assert_array_equal(np.array(x, dtype=np.float64), numbered((2, 3), np.float64), strict=True)
    assert_array_equal(np.asarray(x.T), numbered((2, 3), np.float32).T, strict=True)
    copied = np.array(x, copy=True)
    copied[:] = 0
    assert_array_equal(x.numpy(), numbered((2, 3), np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_shares_the_memory_of_the_cpu_device(dtype):
    x = on("cpu", integers((3, 5), dtype))
    for array, shape, strides in ((x, (3, 5), None), (x[::-2, 1:], (2, 4), (-10, 1))):
        for view in (np.asarray(array), np.asarray(array, copy=False), np.asarray(array, dtype)):
            assert (view.shape, view.dtype) == (shape, dtype)
            assert strides is None or view.strides == tuple(x.itemsize * s for s in strides)
            assert view.ctypes.data == array.address
            assert view.flags.writeable
    kept = np.asarray(x[1:])
    expected = kept.copy()
    kept[0, 0] = expected[0, 0] = 1
    assert_array_equal(x[1:].numpy(), expected)
    del x, array, view
    assert_array_equal(kept, expected)  # the view keeps the memory alive


def test_numpy_on_the_cpu_device_cannot_convert_without_a_copy():
    x = on("cpu", numbered(3, np.float32))
    with pytest.raises(ValueError, match="copy: False is impossible, the elements must be converted to int32"):
        x.__array__(np.int32, copy=False)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_numpy_must_copy_the_memory_of_a_gpu(device):
    x = on(device, numbered(3, np.float32))
    with pytest.raises(ValueError, match="copy: False is impossible, a GPU's memory must be copied to the host"):
        np.asarray(x, copy=False)
    with pytest.raises(BufferError, match=r"the host cannot read the memory of cuda:0; \.numpy\(\) copies it"):
        memoryview(x)


def test_a_buffer_on_the_cpu_device():
    x = on("cpu", numbered((4, 6), np.int16))
    with memoryview(x[::2, ::-1]) as view:
        assert (view.format, view.shape, view.strides, view.readonly) == ("h", (2, 6), (24, -2), False)
        assert view.tolist() == numbered((4, 6), np.int16)[::2, ::-1].tolist()
    with memoryview(x) as view:
        view.cast("B")[0] = 99
    assert x.item(0) == 99
    assert bytes(x[0]) == x[0].numpy().tobytes()
    with memoryview(smemkit.zeros((0, 3), device="cpu")) as view:
        assert (view.shape, view.nbytes) == ((0, 3), 0)
    with pytest.raises(ValueError, match="cannot include dtype"):
        memoryview(smemkit.zeros(3, "bfloat16", device="cpu"))


def test_asnumpy(device):
    x = numbered((2, 3), np.float32)
    assert_array_equal(smemkit.asnumpy(on(device, x)), x, strict=True)
    assert_array_equal(smemkit.asnumpy(on(device, x)[:, ::-2]), x[:, ::-2], strict=True)
    assert smemkit.asnumpy(x) is x
    assert_array_equal(smemkit.asnumpy([1, 2]), [1, 2])


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_asnumpy_of_other_libraries(device, library):
    module = pytest.importorskip(library)
    x = module.arange(6)
    theirs = x.to(device) if library == "torch" else x
    assert_array_equal(smemkit.asnumpy(theirs), np.arange(6))
    if library == "torch":
        assert_array_equal(smemkit.asnumpy(x), np.arange(6))  # on the host


# ---- views ------------------------------------------------------------------------------------------------------


def assert_same_view(view, expected, array, x):
    """Checks that `view` of `array` has the values, offset and strides of `expected`, a view of the NumPy array
    x."""
    assert view.shape == expected.shape
    assert_array_equal(view.numpy(), expected, strict=True)
    if expected.size:
        assert view.address - array.address == expected.ctypes.data - x.ctypes.data
        used_axes = [d for d in range(expected.ndim) if expected.shape[d] > 1]  # other strides are never used
        assert [view.strides[d] for d in used_axes] == [expected.strides[d] for d in used_axes]


INDICES = [
    0,
    -1,
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(-1, None, -2),
    slice(5, 1),
    slice(-100, 100, 3),
    slice(0, 2, 2**62),
    slice(None, None, -(2**62)),
    ...,
    None,
    (),
    (1, 2, 3),
    (1, ...),
    (..., 1),
    (..., 1, None),
    (None, ..., None),
    (0, ..., 0, 0),
    (slice(None, None, 2), None, -1, slice(None, None, -3)),
    np.int64(1),
    (np.uint8(1), slice(np.int32(1), None)),
    np.array(1),
    slice(0, 0),
    (slice(0, 0), 1),
]  # NumPy returns a copy for the 0-d array


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices(device, index):
    x = numbered((2, 4, 5), np.float32)
    array = on(device, x)
    view, expected = array[index], x[index]
    if isinstance(expected, np.ndarray) and np.shares_memory(expected, x):
        assert_same_view(view, expected, array, x)
    assert_array_equal(view.numpy(), np.asarray(expected), strict=True)


@settings(max_examples=times(300, 60), deadline=None)
@hypothesis.given(st.data())
def test_random_indices(data):
    x = data.draw(hnp.arrays(np.int32, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=6)))
    assume(x.size < 5000)
    x[...] = np.arange(x.size).reshape(x.shape)
    array = on("cpu", x)
    for _ in range(data.draw(st.integers(1, 3))):  # of views too
        index = data.draw(hnp.basic_indices(x.shape, allow_newaxis=True, allow_ellipsis=True, max_dims=8))
        view, expected = array[index], x[index]
        if not isinstance(expected, np.ndarray):  # NumPy returns a scalar
            assert_array_equal(view.numpy(), np.asarray(expected), strict=True)
            break
        assert_same_view(view, expected, array, x)
        array, x = view, expected
    assert smemkit.sum(array).item() == x.sum()


@settings(max_examples=times(100, 40), deadline=None)
@hypothesis.given(st.data())
def test_random_shapes(data):
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), max_size=4).map(tuple))
    x = numbered(shape, np.int16)
    array = on("cpu", x)
    if shape:
        axis = data.draw(st.integers(0, len(shape) - 1))
        step = data.draw(st.sampled_from([1, -1, 2]))
        index = (slice(None),) * axis + (slice(None, None, step),)
        x, array = x[index], array[index]
    if data.draw(st.booleans()):
        x, array = x.T, array.T
    factors = [n for n in range(1, x.size + 1) if x.size % n == 0]
    first = data.draw(st.sampled_from(factors))
    second = data.draw(st.sampled_from([n for n in factors if x.size // first % n == 0]))
    for wanted in ((first, -1), (-1, second), (first, second, x.size // first // second), (1, -1, 1, second), -1):
        expected = x.reshape(wanted)
        result = array.reshape(wanted)
        assert_array_equal(result.numpy(), expected, strict=True)
        if np.shares_memory(expected, x):
            assert np.shares_memory(np.asarray(result), np.asarray(array))


def test_reshape_copies_only_where_it_must(device):
    x = numbered((4, 6), np.float32)
    array = on(device, x)
    for view in (
        array.reshape(2, 12),
        array.reshape((3, 8)),
        array.reshape(24),
        array.ravel(),
        array[::2].reshape(2, 2, 3),
    ):
        assert view.address == array.address
    assert_array_equal(array.reshape(2, -1).numpy(), x.reshape(2, -1), strict=True)
    with expect_launches(1):
        copied = array.T.reshape(4, 6)
    assert_array_equal(copied.numpy(), x.T.reshape(4, 6), strict=True)
    assert_array_equal(array.T.ravel().numpy(), x.T.ravel(), strict=True)
    assert smemkit.zeros((0, 3), device=device).reshape(3, 0, 5).shape == (3, 0, 5)
    assert smemkit.zeros((0, 3), device=device).ravel().shape == (0,)
    assert array[0, 0].reshape(1, 1, 1).shape == (1, 1, 1)
    assert array[:1, :1].reshape(()).item() == 1
    assert smemkit.zeros((), device=device).reshape().shape == ()


def test_transposed_views(device):
    x = numbered((2, 3, 4), np.float32)
    array = on(device, x)
    assert_same_view(array.T, x.T, array, x)
    assert_same_view(array.mT, x.mT, array, x)
    assert_same_view(array[0, 0].T, x[0, 0].T, array, x)
    assert smemkit.zeros((), device=device).T.shape == ()
    for low_dimensional in (array[0, 0], array[0, 0, 0]):
        with pytest.raises(
            ValueError, match=f"mT: expected an array of at least 2 dimensions, got {low_dimensional.ndim}"
        ):
            low_dimensional.mT  # noqa: B018


def test_views_share_memory_and_keep_only_the_base_alive(device):
    array = on(device, numbered((4, 6), np.int32))
    view = array[1:][::-1].T[2:, None].reshape(4, 3, 1)
    smemkit.add_one(array, out=array)
    assert_array_equal(view.numpy(), numbered((4, 6), np.int32)[1:][::-1].T[2:, None].reshape(4, 3, 1) + 1)
    held = sys.getrefcount(array)
    more = [view[..., 0], view[0][0], view.T]
    assert sys.getrefcount(array) == held + len(more)  # and none references the view that it was made from
    assert sys.getrefcount(view) == 2
    before = _core.allocations()
    del array, view
    assert _core.allocations() == before
    assert more[0][0, 0].item() == 22
    more.clear()
    assert _core.allocations() == before - 1


@pytest.mark.parametrize("op", ["sum", "transpose", "add_one", "matmul", "argmax", "convert"])
def test_operations_take_views(device, op):
    x = numbered((6, 8), np.float32)
    array = on(device, x)
    for index in ((slice(None, None, -2), slice(1, 7)), (slice(1, 4), slice(None, None, 3)), (2,)):
        for transposed in (False, True):
            view, values = array[index], x[index]
            view, values = (view.T, values.T) if transposed else (view, values)
            if op == "matmul":
                result, expected = smemkit.matmul(view, view.T), values @ values.T
            else:
                result, expected = getattr(smemkit, op)(view), getattr(smemkit, op)(np.ascontiguousarray(values))
            assert_array_equal(result.numpy(), expected)


def test_iteration(device):
    x = numbered((3, 2), np.int32)
    rows = list(on(device, x))
    assert len(rows) == 3
    for row, expected in zip(rows, x, strict=True):
        assert_array_equal(row.numpy(), expected, strict=True)
    assert [n.item() for n in on(device, x[0])] == [1, 2]
    assert [row.item() for row in reversed(on(device, x[:, 0]))] == [5, 3, 1]
    assert list(smemkit.zeros((0, 2), device=device)) == []
    with pytest.raises(TypeError, match="iteration over an array without dimensions"):
        iter(smemkit.zeros((), device=device))
    assert 6 in on(device, x)
    assert np.int8(6) in on(device, x)
    assert 7 not in on(device, x)
    assert 1 not in smemkit.zeros((0, 2), device=device)
    with pytest.raises(TypeError, match=r"==: expected an Array on .* or a number, got str"):
        "a" in on(device, x)  # noqa: B015


BASIC_INDEX_MESSAGE = "integers, slices, ... and None, and tuples of them"
FANCY_INDEX_MESSAGE = (
    "index: arrays, lists and bools as indices are not supported; expected " + BASIC_INDEX_MESSAGE
)
WRONG_INDICES = {
    "large": (2, IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    "small": ((0, -4), IndexError, "index -4 is out of bounds for axis 1 with size 3"),
    "huge": (2**70, IndexError, "cannot fit 'int' into an index-sized integer"),
    "many": ((0, 0, ..., 0), IndexError, "index: the array has 2 dimensions, but 3 were indexed"),
    "ellipses": ((..., ...), IndexError, "index: expected a single ellipsis (...)"),
    "dimensions": ((None,) * 63, IndexError, "index: expected no more than 64 dimensions in the result"),
    "float": (1.0, IndexError, f"index: expected {BASIC_INDEX_MESSAGE}, got float"),
    "text": ("a", IndexError, f"index: expected {BASIC_INDEX_MESSAGE}, got str"),
    "list": ([0, 1], TypeError, f"{FANCY_INDEX_MESSAGE}, got list; .numpy() makes an array that takes them"),
    "nested": (((0, 1),), TypeError, FANCY_INDEX_MESSAGE + ", got tuple"),
    "array": (np.array([0, 1]), TypeError, FANCY_INDEX_MESSAGE + ", got numpy.ndarray"),
    "mask": (np.ones((2, 3), bool), TypeError, FANCY_INDEX_MESSAGE + ", got numpy.ndarray"),
    "truth": (True, TypeError, FANCY_INDEX_MESSAGE + ", got bool"),
    "NumPy's truth": (np.True_, TypeError, FANCY_INDEX_MESSAGE),
    "0-d mask": (np.array(True), TypeError, FANCY_INDEX_MESSAGE),
    "step": (slice(None, None, 0), ValueError, "slice step cannot be zero"),
    "bound": (slice(1.5), TypeError, "slice indices must be integers or None or have an __index__ method"),
}


@pytest.mark.parametrize("what", WRONG_INDICES)
def test_wrong_indices(device, what):
    index, error, message = WRONG_INDICES[what]
    x = on(device, numbered((2, 3), np.float32))
    with pytest.raises(error, match=re.escape(message)):
        x[index]
    with pytest.raises(error, match=re.escape(message)):
        x[index] = 0


def test_an_array_as_an_index(device):
    x = on(device, numbered(5, np.float32))
    assert x[on(device, np.int64(2))].item() == 3
    for wrong in (np.int64([2]), np.True_):
        with pytest.raises(TypeError, match=re.escape(FANCY_INDEX_MESSAGE)):
            x[on(device, wrong)]
    assert [10, 20, 30][on(device, np.uint8(2))] == 30
    with pytest.raises(TypeError, match="only an array of integers without dimensions can be an index"):
        operator.index(on(device, np.float32(2)))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((5, 5), "shape: expected one of 6 elements, with at most one -1, got (5, 5)"),
        ((4, -1), "shape: expected one of 6 elements, with at most one -1, got (4, -1)"),
        ((-1, -1), "shape: expected one of 6 elements, with at most one -1, got (-1, -1)"),
        ((-2, -3), "shape: expected one of 6 elements, with at most one -1, got (-2, -3)"),
        ((0, -1), "shape: expected one of 6 elements, with at most one -1, got (0, -1)"),
        ((2**40, 2**40), "shape: expected one of 6 elements, with at most one -1, got"),
    ],
)
def test_wrong_shapes(device, shape, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        on(device, numbered((2, 3), np.float32)).reshape(shape)


def test_reshape_of_empty_arrays_checks_overflow(device):
    nothing = smemkit.zeros((0, 3), device=device)
    assert nothing.reshape(2**40, 0).shape == (2**40, 0)
    for shape in ((0, 2**62, 4), (2**62, 4, 0)):
        with pytest.raises(ValueError, match="shape: expected one of 0 elements"):
            nothing.reshape(shape)


def test_reshape_rejects_other_types(device):
    with pytest.raises(TypeError, match="shape: "):
        on(device, numbered((2, 3), np.float32)).reshape("ab")


# ---- assignment -------------------------------------------------------------------------------------------------

ASSIGNMENTS = [
    (..., 7),
    (..., 2.75),
    (1, [1, 2, 3, 4]),
    (slice(None, None, -1), 5),
    ((slice(None), slice(1, 3)), numbered((3, 2), np.float64)),
    ((slice(None), slice(None, None, 2)), numbered((3, 2), np.float32)),
    ((slice(None), slice(None, None, -2)), numbered(2, np.int8)),
    ((slice(None), 1), numbered((3,), np.float32)),
    ((1, 2), np.float16(3)),
    ((..., None), numbered((1, 1, 4, 1), np.int64)),
    ((0, ...), True),
    (slice(0, 0), 3),
    ((slice(None), slice(3, None, -3)), numbered((2, 3), ">i2").T.astype(">i2")),
]


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "complex64"])
@pytest.mark.parametrize(("index", "value"), ASSIGNMENTS, ids=str)
def test_assignment(device, index, value, dtype):
    x = integers((3, 4), dtype) if dtype != "uint8" else numbered((3, 4), dtype)
    for source in (value, on(device, value)):
        expected, array = x.copy(), on(device, x)
        expected[index] = value
        array[index] = source
        assert_array_equal(array.numpy(), expected, strict=True)


def test_assignment_reads_before_it_writes(device):
    x = numbered(10, np.int32)
    array = on(device, x)
    array[1:] = array[:-1]
    x[1:] = x[:-1].copy()
    assert_array_equal(array.numpy(), x)
    array[...] = array[::-1]
    assert_array_equal(array.numpy(), x[::-1])


@settings(max_examples=times(100, 40), deadline=None)
@hypothesis.given(st.data())
def test_random_assignments(data):
    x = numbered(data.draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=5)), np.int32)
    array = on("cpu", x)
    index = data.draw(hnp.basic_indices(x.shape, allow_newaxis=True, allow_ellipsis=True))
    assume(isinstance(x[index], np.ndarray))
    shape = [data.draw(st.sampled_from([1, n])) for n in x[index].shape]
    value = -numbered(shape[data.draw(st.integers(0, len(shape))) :], np.int16)
    assume(value.ndim == 0 or np.broadcast_shapes(value.shape, x[index].shape) == x[index].shape)
    array[index] = value
    x[index] = value
    assert_array_equal(array.numpy(), x)


def test_a_read_only_array():
    x = numbered((3, 4), np.float32)
    x.flags.writeable = False
    array = smemkit.from_dlpack(x)
    message = "assignment: expected a writeable array, this one is read-only"
    for view in (array, array[1:], array.T, array[..., None].reshape(-1)):
        assert view.readonly
        assert not np.asarray(view).flags.writeable
        assert memoryview(view).readonly
        with pytest.raises(ValueError, match=message):
            view[0] = 1
        with pytest.raises(ValueError, match="out: expected a writeable array, got one that is read-only"):
            view += 1
    for copied in (array.copy(), array.numpy(), pickle.loads(pickle.dumps(array)), array + 1):
        copied[0] = 5
    assert_array_equal(x, numbered((3, 4), np.float32))


WRONG_VALUES = {
    "shape": (
        lambda x: np.zeros(3),
        ValueError,
        "value: expected a shape that can be broadcast to (2, 4), got (3,)",
    ),
    "longer": (lambda x: on(x.device, np.zeros((3, 1, 4))), ValueError, "broadcast to (2, 4), got (3, 1, 4)"),
    "object": (lambda x: np.array([None]), TypeError, "value: " + DTYPE + "object"),
    "None": (lambda x: None, TypeError, "value: " + DTYPE + "object"),
    "large": (lambda x: 300, OverflowError, "Python integer 300 out of bounds for uint8"),
    "ragged": (lambda x: [[1], [1, 2]], ValueError, "setting an array element with a sequence"),
}


@pytest.mark.parametrize("what", WRONG_VALUES)
def test_wrong_values(device, what):
    make, error, message = WRONG_VALUES[what]
    x = on(device, numbered((2, 4), np.uint8))
    with pytest.raises(error, match=re.escape(message)):
        x[...] = make(x)
    with pytest.raises(TypeError, match="the elements of an array cannot be deleted"):
        del x[0]
    assert_array_equal(x.numpy(), numbered((2, 4), np.uint8))


def test_assignment_warns_of_imaginary_parts(device):
    x = smemkit.zeros(2, device=device)
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        x[...] = np.array([1 + 2j, 3])
    assert_array_equal(x.numpy(), [1, 3])


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_assignment_and_operators_stay_on_one_device(device):
    here, there = smemkit.zeros(3, device=device), smemkit.zeros(3, device="cpu")
    with pytest.raises(ValueError, match=r"value: expected an array on cuda:0, got one on cpu; \.to\(\) moves it"):
        here[...] = there
    for op in (operator.add, operator.matmul):
        with pytest.raises(ValueError, match="on one device, got cuda:0 and cpu"):
            op(here, there)


# ---- numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_items(device, dtype):
    x = integers((2, 3), dtype)
    array = on(device, x)
    for view, values in ((array, x), (array.T, x.T), (array[:, ::-2], x[:, ::-2])):
        for i in range(-values.size, values.size):
            assert view.item(i) == values.item(i)
            assert type(view.item(i)) is type(values.item(i))
        for index in np.ndindex(*values.shape):
            assert view.item(*index) == view.item(index) == values.item(*index)
    assert array[1, 2].item() == array[1, 2].item(()) == x.item(1, 2)


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        ((6,), IndexError, "item: index 6 is out of bounds for a size of 6"),
        ((-7,), IndexError, "item: index -7 is out of bounds for a size of 6"),
        ((0, 3), IndexError, "item: index 3 is out of bounds for a length of 3"),
        ((0, 0, 0), ValueError, "item: expected no index, one, or one for each of 2 dimensions, got 3"),
        (("a",), TypeError, "item: 'str' object cannot be interpreted as an integer"),
        ((2**70,), IndexError, "cannot fit 'int' into an index-sized integer"),
    ],
)
def test_wrong_items(device, index, error, message):
    x = on(device, numbered((2, 3), np.float32))
    with pytest.raises(error, match=re.escape(message)):
        x.item(*index)
    with pytest.raises(error, match=re.escape(message)):
        x.item(index)


def test_python_numbers_of_one_element(device):
    x = on(device, np.float32([[2.5]]))
    assert (float(x), int(x), complex(x), bool(x)) == (2.5, 2, 2.5 + 0j, True)
    assert complex(on(device, np.complex64(1 + 2j))) == 1 + 2j
    assert operator.index(on(device, np.int16(-3))) == -3
    assert list(range(on(device, np.uint8(3)))) == [0, 1, 2]
    with pytest.raises(TypeError, match="float"):
        float(on(device, np.complex64(1)))


# ---- copies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies(device, dtype):
    x = integers((3, 4), dtype)
    view, values = on(device, x)[::-1, ::2], x[::-1, ::2]
    for copied in (view.copy(), copy.copy(view), copy.deepcopy(view), smemkit.asarray(view, copy=True)):
        assert_array_equal(copied.numpy(), values, strict=True)
        assert (copied.is_contiguous, copied.device) == (True, device)
        assert copied.address != view.address
    assert not view.is_contiguous
    assert smemkit.asarray(view) is view


def test_astype(device):
    x = numbered((2, 3), np.float32) + np.float32(0.5)
    array = on(device, x)
    assert_array_equal(array.T.astype(np.int32).numpy(), x.T.astype(np.int32), strict=True)
    assert_array_equal(array.astype("bfloat16").numpy(), x.astype(ml_dtypes.bfloat16), strict=True)
    assert array.astype(np.float32) is not array
    assert array.astype(np.float32, copy=False) is array
    assert array.astype(np.float64, copy=False).dtype == np.float64
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        array.astype(np.complex64).astype(np.float32)
    with pytest.raises(TypeError, match=re.escape("dtype: " + DTYPE + "<U3")):
        array.astype("U3")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex128", "bool"])
def test_pickles(device, dtype, protocol):
    x = integers((3, 4), dtype)
    for view, values in ((on(device, x), x), (on(device, x).T[1:], x.T[1:]), (on(device, x[:0]), x[:0])):
        loaded = pickle.loads(pickle.dumps(view, protocol))
        assert isinstance(loaded, smemkit.Array)
        assert_array_equal(loaded.numpy(), values, strict=True)
        assert loaded.device == device
        assert not loaded.readonly


def test_a_pickle_of_a_device_that_is_not_here():
    values = numbered((2, 3), np.float32)
    with pytest.warns(
        RuntimeWarning, match="an Array pickled on cuda:999 is put on the CPU device: .*is not available"
    ):
        loaded = arrays._rebuild(values, "cuda:999")
    assert_array_equal(loaded.numpy(), values, strict=True)
    assert loaded.device == "cpu"


def test_weak_references(device):
    x = smemkit.zeros(3, device=device)
    gone = []
    reference = weakref.ref(x, gone.append)
    assert reference() is x
    view = x[1:]
    del x
    assert reference() is not None  # the view keeps its base alive
    del view
    assert reference() is None
    assert gone == [reference]


# ---- text -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1, 3), (40,)], ids=str)
def test_str_and_repr_match_numpy(device, shape, dtype):
    x = integers(shape, dtype)
    array = on(device, x)
    assert str(array) == str(x)
    head, _, tail = repr(array).rpartition("dtype=")
    assert tail == f"{np.dtype(dtype).name}, device='{device}')"
    assert re.sub(r"\s", "", head) == re.sub(r"\s", "", f"Array({np.array2string(x, separator=',')},")


def test_long_repr_is_wrapped(device):
    text = repr(on(device, np.arange(31, dtype=np.int16)))
    assert max(map(len, text.splitlines())) <= 75
    assert text.splitlines()[-1] == f"      dtype=int16, device='{device}')"


def test_repr_of_empty_arrays(device):
    assert repr(smemkit.zeros(0, device=device)) == f"Array([], dtype=float32, device='{device}')"
    assert (
        repr(smemkit.zeros((0, 3), device=device)) == f"Array([], shape=(0, 3), dtype=float32, device='{device}')"
    )
    assert str(smemkit.zeros((0, 3), device=device)) == "[]"


@pytest.mark.parametrize("shape", [(1001,), (40, 40), (3, 700), (2, 5, 6, 40), (1, 2000, 1)], ids=str)
def test_long_arrays_are_summarised(device, shape):
    x = numbered(shape, np.int64)
    for array, values in ((on(device, x), x), (on(device, x).T, x.T)):
        assert str(array) == str(values)
        assert f"shape={values.shape}, dtype=int64" in repr(array)
        assert "..." in repr(array)


def test_summary_copies_only_leading_and_trailing_elements(device):
    x = smemkit.zeros((1000, 1000), device=device)
    assert arrays._leading_trailing(x, 3).shape == (7, 7)
    assert str(x) == str(np.zeros((1000, 1000), np.float32))


# ---- reference counts -------------------------------------------------------------------------------------------


def exercise_array_api(x, y):
    """Makes each kind of view, copy, number and sum once, and each call that must be rejected."""
    x[1:, ::-1].T.reshape(-1)
    x.mT.ravel()
    x[0, 0].item()
    x.item(3)
    list(x)
    x + y
    x * 2
    1.5 / x
    operator.neg(x)
    operator.le(x, y)
    operator.gt(x, 3)
    np.less(np.float32(1), x)
    operator.lt(x.astype(np.int8), 300)
    x @ x.T
    x[1] = y[0]
    x[:, 1] = 5
    x[0] = [1, 2, 3]
    x += y
    np.asarray(x)
    x.astype(np.int32)
    x.sum(0), x.var(axis=1, ddof=1, keepdims=True), x.argmax(), np.sum(x, 0, initial=1)
    x[None].squeeze(0), x.transpose(1, 0), x.tolist(), x[:, :1].fill(3), x.to_device(x.device)
    f"{x[0, 0]:.1f}", round(x[0, 0]), round(x[0, 0], 1), x.__array_namespace__()
    pickle.loads(pickle.dumps(x))
    copy.copy(x)
    repr(x), str(x)
    weakref.ref(x)
    float(x[0, 0])
    if x.device == "cpu":
        memoryview(x).release()
    wrong = [
        lambda: x[5],
        lambda: x[[0]],
        lambda: x[0, 0, 0],
        lambda: x["a"],
        lambda: x.reshape(5),
        lambda: x.item(9),
        lambda: x.item(),
        lambda: x + "a",
        lambda: x + x[:, :2],
        lambda: x @ "a",
        lambda: x @ x,
        lambda: float(x),
        lambda: operator.index(x),
        lambda: operator.setitem(x, 0, [1, 2]),
        lambda: operator.setitem(x, 0, "a"),
        lambda: operator.setitem(x, 9, 0),
        lambda: operator.delitem(x, 0),
        lambda: operator.iadd(x, 1j),
        lambda: operator.contains(x, "a"),
        lambda: x == [1],
        lambda: np.ones(3) == x,
        lambda: np.exp(x),
        lambda: hash(x),
        lambda: x.astype("U3"),
        lambda: x.__array__("nonsense"),
        lambda: x[0].mT,
        lambda: x.sum(nope=1),
        lambda: x.sum(0, axis=0),
        lambda: x.sum(7),
        lambda: x.squeeze(0),
        lambda: x.transpose(0, 0),
        lambda: x.fill("a"),
        lambda: f"{x:.1f}",
        lambda: f"{x[0, 0]:nope}",
        lambda: round(x),
        lambda: x.to_device(x.device, stream=1),
        lambda: np.sort(x),
        lambda: x.__array_namespace__(api_version="1"),
    ]
    for call in wrong:
        with contextlib.suppress(TypeError, ValueError, IndexError):
            call()
            raise AssertionError(f"not refused: {call}")


def test_reference_counts_are_stable(device):
    x, y = on(device, numbered((2, 3), np.float32)), on(device, numbered((2, 3), np.float32))
    held = (x, y, x.dtype, smemkit.Array)
    exercise_array_api(x, y)
    before = [sys.getrefcount(thing) for thing in held], _core.allocations()
    for _ in range(20):
        exercise_array_api(x, y)
    assert ([sys.getrefcount(thing) for thing in held], _core.allocations()) == before


# ---- the CUDA Array Interface -----------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_the_interface_on_a_gpu(device):
    interface = on(device, numbered((2, 3), np.int32)).__cuda_array_interface__
    address, read_only = interface.pop("data")
    assert address > 0
    assert not read_only
    assert interface == {"shape": (2, 3), "typestr": "<i4", "strides": None, "version": 3, "stream": 1}


def test_cuda_array_interface_is_missing_on_the_cpu():
    x = smemkit.zeros(3, device="cpu")
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match=r"this array is on the CPU device; \.to\('cuda:0'\) moves it"):
        x.__cuda_array_interface__  # noqa: B018


# ---- refusals ---------------------------------------------------------------------------------------------------

REFUSALS = {
    "text": (lambda d: smemkit.asarray("abc", device=d), TypeError, "obj: " + DTYPE + "<U3"),
    "object": (lambda d: smemkit.asarray(None, device=d), TypeError, "obj: " + DTYPE + "object"),
    "byte order": (lambda d: smemkit.empty(3, ">f4", device=d), TypeError, "dtype: " + DTYPE + ">f4"),
    "void": (lambda d: smemkit.empty(3, "V8", device=d), TypeError, "dtype: " + DTYPE + "|V8"),
    "copy=False": (
        lambda d: smemkit.asarray([1.0], device=d, copy=False),
        ValueError,
        "copy: False is impossible here, the elements must be moved or converted",
    ),
    "copy=False, dtype": (
        lambda d: smemkit.asarray(smemkit.zeros(3, device=d), dtype="int32", copy=False),
        ValueError,
        "copy: False is impossible here, the elements must be moved or converted",
    ),
    "negative": (
        lambda d: smemkit.empty((2, -1), device=d),
        ValueError,
        "shape: expected no negative length and fewer than 2**63 bytes, got (2, -1)",
    ),
    "too many": (
        lambda d: smemkit.empty((2**40, 2**40), device=d),
        ValueError,
        f"shape: expected no negative length and fewer than 2**63 bytes, got ({2**40}, {2**40})",
    ),
    "too long": (
        lambda d: smemkit.zeros(2**61, device=d),
        ValueError,
        f"shape: expected no negative length and fewer than 2**63 bytes, got ({2**61},)",
    ),
    "copy": (lambda d: smemkit.asarray(1.0, device=d, copy="no"), TypeError, "copy: expected True, False or None"),
    "shape": (lambda d: smemkit.empty("ab", device=d), TypeError, "cannot be interpreted as an integer"),
    "memory": (lambda d: smemkit.empty(2**50, device=d), smemkit.OutOfMemoryError, f"{2**52} bytes"),
    "new": (lambda d: smemkit.Array(), TypeError, "cannot create 'smemkit.Array' instances"),
    "to": (
        lambda d: smemkit.zeros(3, device=d).to("gpu"),
        ValueError,
        "device: expected 'cpu', 'cuda' or 'cuda:N', got 'gpu'",
    ),
    "to None": (
        lambda d: smemkit.zeros(3, device=d).to(None),
        TypeError,
        "device: expected a name such as 'cuda:0' or a Device, got NoneType",
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_refusals(device, what):
    call, error, message = REFUSALS[what]
    with pytest.raises(error, match=re.escape(message)):
        call(device)


def test_no_memory_is_a_memory_error_and_the_next_call_works(device):
    with pytest.raises(MemoryError):
        smemkit.zeros(2**50, device=device)
    assert smemkit.sum(np.ones(9, np.float32), device=device) == 9


def resident():
    """The resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_arrays_release_their_memory():
    x = on("cpu", np.ones((1024, 1024), np.float32))
    before = resident()
    for _ in range(200):
        smemkit.transpose(x, kernel="copy")
    assert resident() - before < 100 * x.nbytes


def test_bool_of_one_element(device):
    assert smemkit.asarray(np.float32(2), device=device)
    assert not smemkit.zeros((1, 1), device=device)
    with pytest.raises(ValueError, match="item: expected an array of one element, got 3"):
        bool(smemkit.zeros(3, device=device))
