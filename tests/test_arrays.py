"""Arrays: what they say of themselves, how they are made, and the ways to NumPy and back."""

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from cases import DTYPE, DTYPES, integers, numbered, on
from numpy.testing import assert_array_equal

import smemkit

SHAPES = [(), (1,), (0,), (3, 0), (2, 3), (5, 7, 11), (100_003,)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_there_and_back(device, shape, dtype):
    x = integers(shape, dtype)
    assert_array_equal(on(device, x).numpy(), x, strict=True)


def test_what_an_array_says_of_itself(device):
    x = on(device, numbered((2, 3, 4), np.float32))
    assert (x.shape, x.dtype, x.strides) == ((2, 3, 4), np.dtype(np.float32), (48, 16, 4))
    assert (x.size, x.nbytes, x.ndim, x.device, len(x)) == (24, 96, 3, device, 2)
    assert repr(x) == f"<smemkit.Array shape=(2, 3, 4) dtype=float32 device='{device}'>"


@pytest.mark.parametrize("make", [smemkit.empty, smemkit.zeros])
@pytest.mark.parametrize(
    ("shape", "expected"), [(3, (3,)), ((2, 3), (2, 3)), ([2, 3], (2, 3)), ((), ()), (0, (0,))]
)
def test_new_arrays(device, make, shape, expected):
    x = make(shape, device=device)
    assert (x.shape, x.dtype, x.device) == (expected, np.float32, device)
    assert make(shape, np.int32, device=device).dtype == np.int32


def test_zeros_are_zero(device):
    for _ in range(3):  # in memory that others have left
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
            warnings.simplefilter("ignore")  # of imaginary parts
            expected = x.astype(dtype)
            results = [smemkit.asarray(x, dtype=dtype, device=device), smemkit.asarray(on(device, x), dtype=dtype)]
        for result in results:
            assert_array_equal(result.numpy(), expected, strict=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_stay_where_nothing_is_converted(device, dtype):
    size = np.dtype(dtype).itemsize
    bits = np.random.default_rng(0).integers(0, 256, (33, 7, size), np.uint8)  # NaNs with payloads among them
    x = bits.view(dtype)[..., 0]
    for view, expected in ((x, bits), (x.T, bits.transpose(1, 0, 2)), (x[::-2], bits[::-2])):
        result = smemkit.asarray(view, device=device).numpy()
        assert_array_equal(np.ascontiguousarray(result)[..., None].view(np.uint8), expected)


def test_the_interface_has_no_bfloat16():
    assert not hasattr(smemkit.zeros(3, "bfloat16", device="cpu"), "__cuda_array_interface__")


def test_asarray_warns_of_imaginary_parts(device):
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        assert smemkit.asarray(np.array([1 + 2j]), dtype=float, device=device).item() == 1


def test_no_length_hides_another(device):
    with pytest.raises(ValueError, match="shape: expected no negative length and fewer than"):
        smemkit.empty((0, 2**40, 2**40), device=device)


def test_asarray_of_an_array_is_itself(device):
    x = on(device, numbered(3, np.float32))
    assert smemkit.asarray(x) is x
    assert smemkit.asarray(x, copy=False) is x
    assert smemkit.asarray(x, dtype=np.float32, device=device) is x


def test_asarray_copies_where_it_is_told_to(device):
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


@pytest.mark.parametrize(("value", "kind"), [(np.float32(2.5), float), (np.int32(7), int)])
def test_numbers(device, value, kind):
    for x in (on(device, value), on(device, value.reshape(1, 1))):
        assert (x.item(), type(x.item())) == (value.item(), kind)
        assert (float(x), int(x)) == (float(value), int(value))


@pytest.mark.parametrize("shape", [(2,), (0,)])
def test_more_or_less_than_one_number_is_none(device, shape):
    for read in (smemkit.Array.item, float, int):
        with pytest.raises(ValueError, match=f"item: expected an array of one element, got {shape[0]}"):
            read(smemkit.zeros(shape, device=device))


def test_without_dimensions_there_is_no_length(device):
    with pytest.raises(TypeError, match=r"len\(\) of an array without dimensions"):
        len(smemkit.zeros((), device=device))


def test_numpy_takes_arrays(device):
    x = on(device, numbered((2, 3), np.float32))
    assert_array_equal(np.asarray(x), numbered((2, 3), np.float32), strict=True)
    assert_array_equal(np.array(x, dtype=np.float64), numbered((2, 3), np.float64), strict=True)
    with pytest.raises(ValueError, match="copy: False is impossible, a device's memory must be copied"):
        np.asarray(x, copy=False)


def test_asnumpy(device):
    x = numbered((2, 3), np.float32)
    assert_array_equal(smemkit.asnumpy(on(device, x)), x, strict=True)
    assert smemkit.asnumpy(x) is x
    assert_array_equal(smemkit.asnumpy([1, 2]), [1, 2])


# ---- the CUDA Array Interface -----------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_the_interface_on_a_gpu(device):
    interface = on(device, numbered((2, 3), np.int32)).__cuda_array_interface__
    address, read_only = interface.pop("data")
    assert address > 0
    assert not read_only
    assert interface == {"shape": (2, 3), "typestr": "<i4", "strides": None, "version": 3, "stream": 1}


def test_the_cpu_has_no_such_interface():
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
    """Bytes of memory that this process uses now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_arrays_give_their_memory_back():
    x = on("cpu", np.ones((1024, 1024), np.float32))
    before = resident()
    for _ in range(200):
        smemkit.transpose(x, kernel="copy")
    assert resident() - before < 100 * x.nbytes


def test_the_truth_of_one_element(device):
    assert smemkit.asarray(np.float32(2), device=device)
    assert not smemkit.zeros((1, 1), device=device)
    with pytest.raises(ValueError, match="item: expected an array of one element, got 3"):
        bool(smemkit.zeros(3, device=device))
