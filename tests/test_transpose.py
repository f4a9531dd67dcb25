"""Every kernel of transpose moves every element to its place, on all shapes; `copy`, its ceiling, keeps them."""

import numpy as np
import pytest
from cases import DTYPES, each_kernel, each_variant, launching, numbered, on, poison
from numpy.testing import assert_array_equal

import smemkit

SIZES = ["int8", "float16", "float32", "float64", "complex128"]  # 1, 2, 4, 8 and 16 bytes
SHAPES = [
    (1, 1),
    (2, 3),
    (31, 33),
    (32, 32),
    (33, 31),
    (64, 64),
    (65, 63),
    (67, 41),
    (1, 257),
    (257, 1),
    (2, 1009),
]
EMPTY = [(0, 0), (0, 5), (5, 0)]


def turned(kernel, x):
    """What the kernel has to make of `x`."""
    return x if kernel.row.ceiling else x.T


def transposed(kernel, device, x):
    """The result as an array of NumPy, from a poisoned output."""
    out = on(device, poison(turned(kernel, x).shape, x.dtype))
    with launching(1):
        assert kernel(on(device, x), out=out) is out
    return out.numpy()


@each_kernel("transpose")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_element_is_in_its_place(device, kernel, shape):
    x = numbered(shape, kernel.dtype)
    assert_array_equal(transposed(kernel, device, x), turned(kernel, x), strict=True)


@each_kernel("transpose", dtypes=DTYPES)
def test_every_dtype(device, kernel):
    for shape in (33, 31), (1, 67), (64, 65):
        x = numbered(shape, kernel.dtype)
        assert_array_equal(transposed(kernel, device, x), turned(kernel, x), strict=True)


@each_variant("transpose", dtypes=SIZES)
def test_every_variant_guards_its_edges(device, kernel):
    tile = dict(kernel.options)["tile"]
    for shape in (tile - 1, tile + 1), (tile, tile), (tile + 1, 2 * tile - 1), (1, 2 * tile + 1):
        x = numbered(shape, kernel.dtype)
        assert_array_equal(transposed(kernel, device, x), turned(kernel, x), strict=True)


@each_kernel("transpose", dtypes=[*SIZES, "bfloat16", "complex64", "bool"])
def test_bits_are_moved_and_not_computed(device, kernel):
    size = np.dtype(kernel.dtype).itemsize
    bits = np.random.default_rng(0).integers(0, 256, (33, 35, size), np.uint8)  # NaNs with payloads among them
    x = bits.view(kernel.dtype)[..., 0]
    expected = bits if kernel.row.ceiling else bits.transpose(1, 0, 2)
    for result in (transposed(kernel, device, x), kernel(x, device=device)):
        assert_array_equal(result[..., None].view(np.uint8), expected)


@each_kernel("transpose")
def test_numpy_in_numpy_out(device, kernel):
    x = numbered((33, 31), kernel.dtype)
    result = kernel(x, device=device)
    assert type(result) is np.ndarray
    assert result.flags.c_contiguous
    assert result.flags.owndata
    assert_array_equal(result, turned(kernel, x), strict=True)


@each_kernel("transpose")
def test_numpy_out_is_overwritten_and_returned(device, kernel):
    x = numbered((33, 31), kernel.dtype)
    out = poison(turned(kernel, x).shape, kernel.dtype)
    assert kernel(x, out=out, device=device) is out
    assert_array_equal(out, turned(kernel, x))


@each_kernel("transpose")
@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_nothing_is_turned_without_a_launch(device, kernel, shape):
    x = np.ones(shape, kernel.dtype)
    with launching(0):
        result = kernel(x, device=device)
        array = kernel(on(device, x))
    assert result.shape == array.shape == turned(kernel, x).shape


@pytest.mark.parametrize("axes", [None, (1, 0), [1, 0], (-1, 0), (-1, -2)])
def test_axes(device, axes):
    x = numbered((3, 4), np.float32)
    assert_array_equal(smemkit.transpose(x, axes, device=device), x.T)


PERMUTED = [  # shape, axes
    ((5,), None),
    ((5,), (0,)),
    ((), ()),
    ((), None),
    ((3, 4, 5), None),
    ((3, 4, 5), (0, 2, 1)),
    ((3, 4, 5), (1, 0, 2)),
    ((3, 4, 5), (1, 2, 0)),
    ((3, 4, 5), (0, 1, 2)),
    ((3, 4, 5), (-1, 0, 1)),
    ((3, 1, 5), (1, 2, 0)),
    ((2, 3, 4, 5), (2, 3, 0, 1)),
    ((2, 3, 4, 5), (0, 3, 1, 2)),
    ((2, 3, 4, 5), (3, 1, 2, 0)),
    ((2, 1, 3, 2, 1, 2, 3), (6, 0, 5, 1, 4, 2, 3)),
]


@each_kernel("transpose")
@pytest.mark.parametrize(("shape", "axes"), PERMUTED, ids=str)
def test_any_permutation_of_any_dimensions(device, kernel, shape, axes):
    x = numbered(shape, kernel.dtype)
    expected = x if kernel.row.ceiling else np.transpose(x, axes)
    for operand in (x, on(device, x)):
        result = smemkit.asnumpy(kernel(operand, axes, device=device))
        assert_array_equal(result, expected, strict=True)
        assert result.flags.c_contiguous


@pytest.mark.parametrize(("shape", "axes"), PERMUTED, ids=str)
def test_a_permutation_left_to_smemkit_is_one_launch(device, shape, axes):
    x = on(device, numbered(shape, np.float32))
    with launching(1):
        smemkit.transpose(x, axes)


def test_out_may_be_the_operand(device):
    x = on(device, numbered((33, 33), np.float32))
    assert_array_equal(smemkit.transpose(x, out=x).numpy(), numbered((33, 33), np.float32).T)


def test_numpy_out_may_be_a_view_of_the_operand(device):
    x = numbered((33, 31), np.float32)
    expected = x.T.copy()
    smemkit.transpose(x, out=x.reshape(31, 33), device=device)
    assert_array_equal(x.reshape(31, 33), expected)


def test_the_operand_is_not_written(device):
    x = on(device, numbered((33, 31), np.float32))
    smemkit.transpose(x)
    assert_array_equal(x.numpy(), numbered((33, 31), np.float32))


def test_more_rows_of_tiles_than_a_grid_is_high(device):
    tile = min(size for row in smemkit.kernels("transpose") for size in row.sizes)
    x = numbered((65535 * tile + 3, 1), np.int32)
    assert_array_equal(smemkit.transpose(x, tile=tile, device=device), x.T)


@each_kernel("transpose", devices=["cuda:0"])  # the CPU takes a minute
def test_every_kernel_goes_on_beyond_the_grids_height(device, kernel):
    x = numbered((65535 * 32 + 3, 1), np.int32).view(kernel.dtype)
    assert_array_equal(transposed(kernel, device, x).view(np.int32), turned(kernel, x).view(np.int32))
