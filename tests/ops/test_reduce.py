"""Every kernel of reduce: sums within their bounds, NumPy's dtypes and scalars, NaN never lost by min and max."""

import math

import numpy as np
import pytest
from cases import DTYPES, each_kernel, each_variant, expect_launches, integers, on, poison, refusal, rung_refuses
from numpy.testing import assert_array_equal

import smemkit

U = 2.0**-24  # the unit roundoff of float32
OPS = ["sum", "min", "max"]
SHAPES = [1, 2, 31, 32, 33, 255, 256, 257, 1009, 1025, 65_537, (7, 11, 13), (1, 1), ()]


def numpy_result(op, x):
    """NumPy's result, in its dtype."""
    return getattr(np, op)(x)


def kernel_result(kernel, device, x, op):
    """The kernel's result in an output that was poisoned before."""
    out = on(device, poison((), numpy_result(op, x).dtype))
    with expect_launches(1):
        assert kernel(on(device, x), op, out=out) is out
    return out.numpy()


def random_magnitudes(n):
    """Random numbers of both signs and many magnitudes."""
    rng = np.random.default_rng(n)
    return (rng.standard_normal(n) * 10 ** rng.uniform(-4, 4, n)).astype(np.float32)


def bound(kernel, x, result):
    """The error bound of kernel=None; for a named rung, that of a float32 sum in any order."""
    magnitude = math.fsum(np.abs(x))
    if kernel.default:
        return np.spacing(np.abs(result)).astype(float) / 2 + x.size * 2.0**-53 * magnitude
    return x.size * U * magnitude


@each_kernel("reduce")
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.covering
def test_small_integers_are_exact(device, kernel, op, shape):
    x = integers(shape, kernel.dtype)
    result = kernel_result(kernel, device, x, op)
    assert_array_equal(result, np.asarray(numpy_result(op, x.astype(int)), result.dtype))


OPS_ALONG_AXES = ["sum", "prod", "min", "max", "mean", "any", "all", "count_nonzero"]
EVERY_OP = [*OPS_ALONG_AXES, "var", "std", "argmin", "argmax"]


def numpy_result_of_float64(op, x):
    """NumPy's result; where NumPy computes in 16 bits, the float64 result rounded to 16 bits."""
    wide = op in ("mean", "var", "std", "prod") and x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
    return getattr(np, op)(x.astype(np.float64)).astype(x.dtype) if wide else getattr(np, op)(x)


@each_kernel("reduce", dtypes=DTYPES)
@pytest.mark.parametrize("op", EVERY_OP)
@pytest.mark.covering
def test_every_op_of_every_dtype(device, kernel, op):
    if rung_refuses(kernel, op, None, 1):
        with refusal(kernel, op):
            kernel(integers(5, kernel.dtype), op, device=device)
        return
    for n in (1, 5, 300):
        x = integers(n, kernel.dtype)
        if op == "prod":
            x = (
                np.where(x > 0, x.dtype.type(1), np.abs(x) // 5).astype(x.dtype)
                if x.dtype.kind != "c"
                else x * 0 + 1
            )
        result, expected = kernel(x, op, device=device), numpy_result_of_float64(op, x)
        assert (type(result), result.dtype) == (type(expected), expected.dtype)
        if op in ("mean", "var", "std"):
            eps = np.finfo(np.float32 if expected.dtype.kind == "V" else expected.dtype).eps
            eps = 2.0**-8 if expected.dtype.kind == "V" else eps
            assert abs(complex(result) - complex(expected)) <= 64 * eps * max(1, abs(complex(expected)))
        else:
            assert_array_equal(result, expected)


@each_kernel("reduce")
@pytest.mark.parametrize("op", OPS_ALONG_AXES)
@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), (0, 1), (2, 1), ()], ids=str)
@pytest.mark.covering
def test_every_kernel_reduces_along_any_axes(device, kernel, op, axis):
    x = integers((3, 40, 5), kernel.dtype)
    if rung_refuses(kernel, op, axis, 3):
        with refusal(kernel, op, axis, 3):
            kernel(x, op, axis, device=device)
        return
    if op == "prod":
        x = np.sign(x)
    result, expected = (
        kernel(x, op, axis, device=device),
        getattr(np, op)(x, axis=axis) if op != "prod" else x.prod(axis),
    )
    assert_array_equal(result, expected, strict=True)
    assert_array_equal(smemkit.asnumpy(kernel(on(device, x), op, axis)), expected, strict=True)


@each_variant("reduce", dtypes=["float16", "int8", "complex128"])
@pytest.mark.parametrize("op", ["sum", "max"])
@pytest.mark.covering
def test_every_variant_of_other_dtypes(device, kernel, op):
    block = kernel.options[0][1]
    if kernel.dtype not in kernel.row.dtypes:
        message = f"x: expected dtype .* for kernel '{kernel.row.name}', got {kernel.dtype}; kernel=None"
        with pytest.raises(ValueError, match=message):
            kernel(integers(5, kernel.dtype), "sum", device=device)
        return
    for n in (block - 1, 2 * block + 1):
        x = integers(n, kernel.dtype)
        result, expected = (
            kernel(x, op, device=device),
            getattr(np, op)(x.astype(complex if x.dtype.kind == "c" else float)),
        )
        assert complex(result) == complex(expected)


@each_variant("reduce")
@pytest.mark.parametrize("op", OPS)
@pytest.mark.covering
def test_every_variant_guards_its_edges(device, kernel, op):
    block = kernel.options[0][1]
    for n in (1, block - 1, block, block + 1, 3 * block + 1, min(block**2, 65_536) + 1):
        x = integers(n, kernel.dtype) + (20 if op == "min" else -20 if op == "max" else 0)
        x = x.astype(kernel.dtype)
        assert_array_equal(kernel_result(kernel, device, x, op), numpy_result(op, x), err_msg=f"n = {n}")


@each_kernel("reduce", dtypes=["float32"])
@pytest.mark.parametrize("n", [1, 7, 257, 10_007])
def test_sums_of_random_numbers_are_within_their_bound(device, kernel, n):
    x = random_magnitudes(n)
    result = kernel_result(kernel, device, x, "sum")
    assert abs(float(result) - math.fsum(x)) <= bound(kernel, x, result)


def test_the_default_sum_rounds_once(device):
    x = np.float32([2**24] + 999 * [1])  # in float32, adding 1 does not change 2**24
    assert smemkit.sum(x, device=device) == np.float32(2**24 + 999)


def test_float32_sums_to_float64(device):
    x = random_magnitudes(10_007)
    result = smemkit.sum(x, dtype=np.float64, device=device)
    assert type(result) is np.float64
    assert abs(result - math.fsum(x)) <= x.size * 2.0**-53 * math.fsum(np.abs(x))


@each_kernel("reduce", dtypes=["float32"])
def test_every_kernel_sums_float32_to_float64(device, kernel):
    x = np.float32([2**24] + 999 * [1])
    out = on(device, poison((), np.float64))
    kernel(on(device, x), "sum", dtype=np.float64, out=out)
    assert out.item() == 2**24 + 999


@each_kernel("reduce", dtypes=["int32"])
def test_int32_sums_to_int64(device, kernel):
    x = np.full(1009, 2**31 - 1, np.int32)
    result = kernel(x, "sum", device=device)
    assert type(result) is np.int64
    assert result == 1009 * (2**31 - 1)


@each_kernel("reduce", dtypes=["float32"])
@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("where", [0, 1, 31, 256, 599, 600])
@pytest.mark.covering(1)
def test_a_nan_is_never_lost(device, kernel, op, where):
    x = integers(601, np.float32)
    x[where] = np.nan
    assert np.isnan(kernel_result(kernel, device, x, op))


@each_kernel("reduce")
@pytest.mark.parametrize("op", OPS)
@pytest.mark.covering
def test_extreme_values_are_results(device, kernel, op):
    if kernel.dtype == "float32":
        extremes = [np.inf, -np.inf, np.finfo(np.float32).max, -np.finfo(np.float32).max, 1e-45]
    else:
        extremes = [2**31 - 1, -(2**31)]
    if kernel.row.name == "atomic" and device.startswith("cuda"):
        extremes = [x for x in extremes if abs(x) > 1e-38]  # a GPU's atomicAdd of float32 flushes subnormals to 0
    for extreme in extremes:  # the padding of a block must not change the result
        x = np.full(33, extreme, kernel.dtype)
        with np.errstate(over="ignore"):
            assert_array_equal(kernel_result(kernel, device, x, op), numpy_result(op, x), err_msg=str(extreme))


@each_kernel("reduce")
@pytest.mark.parametrize("op", OPS)
@pytest.mark.covering
def test_numpy_in_numpy_scalar_out(device, kernel, op):
    x = integers(1009, kernel.dtype)
    result, expected = kernel(x, op, device=device), numpy_result(op, x)
    assert type(result) is type(expected)
    assert result == expected


@each_kernel("reduce")
def test_numpy_out_is_overwritten_and_returned(device, kernel):
    x = integers(1009, kernel.dtype)
    out = poison((), x.sum().dtype)
    assert kernel(x, "sum", out=out, device=device) is out
    assert out == x.sum()


@pytest.mark.parametrize("op", OPS)
def test_keepdims(device, op):
    x = integers((3, 4, 5), np.float32)
    result = getattr(smemkit, op)(x, keepdims=True, device=device)
    assert_array_equal(result, getattr(x, op)(keepdims=True), strict=True)


def test_keepdims_into_out(device):
    out = on(device, poison((1, 1), np.int64))
    smemkit.sum(on(device, integers((3, 4), np.int32)), keepdims=True, out=out)
    assert_array_equal(out.numpy(), integers((3, 4), np.int32).sum(keepdims=True))


@pytest.mark.parametrize("axis", [None, (0, 1), (1, 0), (-1, 0)])
def test_all_axes_in_any_order(device, axis):
    x = integers((3, 4), np.int32)
    assert smemkit.sum(x, axis, device=device) == x.sum()


@pytest.mark.parametrize("op", OPS)
def test_sum_min_max_equal_reduce(device, op):
    x = integers(257, np.float32)
    assert getattr(smemkit, op)(x, device=device) == smemkit.reduce(x, op, device=device) == numpy_result(op, x)


@each_kernel("reduce")
@pytest.mark.parametrize("shape", [0, (0, 3), (3, 0)], ids=str)
@pytest.mark.covering
def test_an_empty_sum_is_zero_and_launches_nothing(device, kernel, shape):
    x = np.ones(shape, kernel.dtype)
    out = on(device, poison((), x.sum().dtype))
    with expect_launches(0):
        kernel(on(device, x), "sum", out=out)
        host = kernel(x, "sum", device=device)
    assert out.item() == host == 0
    assert type(host) is type(x.sum())


def test_array_in_array_out(device):
    result = smemkit.sum(on(device, integers(1009, np.float32)))
    assert (type(result), result.shape, result.device) == (smemkit.Array, (), device)


@pytest.mark.parametrize(
    ("op", "x", "out"),
    [
        ("sum", np.full(1000, 100, np.float16), "f4"),  # 100 000 overflows float16
        ("prod", np.array([2**40, 2**40]), "f8"),  # 2**80 overflows int64
        ("sum", np.full(1000, 0.1, np.float32), "f8"),
        ("sum", np.array([True, True]), "?"),
        ("sum", np.array([100, 100, 100], np.int8), "i8"),
        ("sum", np.array([100, 100, 100], np.int8), "i1"),
        ("mean", np.full(1000, 100, np.float16), "f8"),
        ("sum", np.full(1000, 100, np.float16), "c8"),
    ],
)
def test_out_of_another_dtype_gives_numpys_result(device, op, x, out):
    expected = getattr(np, op)(x, out=np.zeros((), out))
    result = getattr(smemkit, op)(x, out=np.zeros((), out), device=device)
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    array = on(device, poison((), out))
    np.testing.assert_allclose(getattr(smemkit, op)(on(device, x), out=array).item(), expected, rtol=1e-12)


def test_out_may_be_the_operand(device):
    x = on(device, np.float32(7))
    assert smemkit.max(x, out=x).item() == 7


def test_the_operand_is_not_written(device):
    x = on(device, integers(1009, np.float32))
    smemkit.sum(x)
    assert_array_equal(x.numpy(), integers(1009, np.float32))


def test_the_same_bits_on_every_run(device):
    x = random_magnitudes(10_007)
    first = smemkit.sum(x, device=device)
    for _ in range(5):
        assert smemkit.sum(x, device=device) == first
