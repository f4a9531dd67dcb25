"""reverse and add_one, the tutorials' first kernels: every element, for many sizes."""

import numpy as np
import pytest
from cases import DTYPES, each_kernel, expect_launches, integers, numbered, on, poison
from numpy.testing import assert_array_equal

import smemkit

BLOCKS = [32, 64, 128, 256, 512, 1024]
SIZES = [1, 2, 3, 1009, *(n for block in BLOCKS for n in (block - 1, block, block + 1))]


@each_kernel("reverse")
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.covering(1)
def test_reverse(device, kernel, n):
    x = numbered(n, kernel.dtype)
    for _ in range(2):
        on(device, poison(n, kernel.dtype))  # released at once: the result may reuse its memory
    with expect_launches(1):
        result = kernel(on(device, x))
    assert_array_equal(result.numpy(), x[::-1], strict=True)


@each_kernel("reverse", dtypes=DTYPES)
def test_every_dtype_is_reversed(device, kernel):
    x = numbered((7, 11), kernel.dtype)
    assert_array_equal(kernel(x, device=device), np.flip(x), strict=True)


@each_kernel("reverse")
def test_reverse_takes_numpy_and_gives_numpy(device, kernel):
    x = numbered(257, kernel.dtype)
    assert_array_equal(kernel(x, device=device), x[::-1], strict=True)
    assert_array_equal(x, numbered(257, kernel.dtype))


@each_kernel("reverse")
def test_reverse_into_out(device, kernel):
    x = numbered((4, 257), kernel.dtype)
    array, out = on(device, x), on(device, poison(x.shape, x.dtype))
    with expect_launches(1):
        assert kernel(array, out=out) is out
    assert_array_equal(out.numpy(), np.flip(x), strict=True)
    kernel(array, out=array)
    assert_array_equal(array.numpy(), np.flip(x), strict=True)
    single = np.empty((), kernel.dtype)  # a call without out would return a scalar
    assert kernel(np.ones((), kernel.dtype), out=single, device=device) is single
    assert single == 1


@each_kernel("reverse")
def test_reverse_of_nothing_launches_nothing(device, kernel):
    with expect_launches(0):
        assert kernel(np.ones(0, kernel.dtype), device=device).shape == (0,)


@each_kernel("add_one")
@pytest.mark.parametrize("shape", [*SIZES, (7, 11, 13), ()], ids=str)
@pytest.mark.covering
def test_add_one(device, kernel, shape):
    x = integers(shape, kernel.dtype)
    out = on(device, poison(shape, kernel.dtype))
    with expect_launches(1):
        assert kernel(on(device, x), out=out) is out
    assert_array_equal(out.numpy(), x + 1)


@each_kernel("add_one")
def test_add_one_in_place(device, kernel):
    x, array = integers(1009, kernel.dtype), on(device, integers(1009, kernel.dtype))
    kernel(array, out=array)
    assert_array_equal(array.numpy(), x + 1)
    kernel(x, out=x, device=device)
    assert_array_equal(x, array.numpy())


@each_kernel("add_one")
@pytest.mark.parametrize("shape", [0, (3, 0)], ids=str)
def test_add_one_to_nothing_launches_nothing(device, kernel, shape):
    with expect_launches(0):
        assert kernel(np.ones(shape, kernel.dtype), device=device).size == 0


@each_kernel("add_one", dtypes=DTYPES)
def test_add_one_of_every_dtype(device, kernel):
    x = numbered((7, 11), kernel.dtype)
    assert_array_equal(kernel(x, device=device), x + 1, strict=True)


def test_add_one_of_bool_is_integer(device):
    x = np.array([[True, False]])
    assert_array_equal(smemkit.add_one(x, device=device), x + 1, strict=True)


def test_add_one_to_an_array_that_overlaps_its_operand(device):
    x = numbered(1000, np.float32)
    expected = x[:-1] + 1
    smemkit.add_one(x[:-1], out=x[1:], device=device)
    assert_array_equal(x[1:], expected)


def test_add_one_wraps_around(device):
    assert smemkit.add_one(np.int32([2**31 - 1]), device=device) == -(2**31)
