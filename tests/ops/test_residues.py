"""Products of float64 by the residues of integers (kernels/matmul/production/wgmma_residues.cu)."""

from fractions import Fraction

import numpy as np
import pytest
from cases import integers, parts_of
from hypothesis import given, settings
from hypothesis import strategies as st

import smemkit
from smemkit import _core
from smemkit.bench.fit import H200

KERNEL = "wgmma_residues"


def multiply(a, b, device="cpu", kernel=KERNEL):
    return smemkit.asnumpy(smemkit.matmul(a, b, kernel=kernel, device=device))


def narrow(rng, shape):
    """Numbers of 53 bits, of like size and any sign: rows and columns of eight and more are not wide."""
    return rng.uniform(0.76, 1, shape) * rng.choice([-1.0, 1.0], shape)


def exact(a, b):
    """The product in fractions."""
    a, b = ([[Fraction(float(value)) for value in row] for row in x] for x in (a, b.T))
    return [[sum(map(Fraction.__mul__, row, column)) for column in b] for row in a]


def assert_within_bound(a, b, result):
    """That of sums in float64: (k + 2) 2^-53 |A||B|."""
    magnitude = exact(np.abs(a), np.abs(b))
    for i, row in enumerate(exact(a, b)):
        for j, value in enumerate(row):
            allowed = (a.shape[1] + 2) * magnitude[i][j] * Fraction(1, 2**53)
            assert abs(Fraction(float(result[i, j])) - value) <= allowed, (i, j)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 5), st.integers(0, 60), st.integers(0, 2**32 - 1))
def test_errors_are_below_the_bound(m, k, n, range_bits, seed):
    """Also where the numbers of a row have a wide range."""
    rng = np.random.default_rng(seed)
    a, b = (
        narrow(rng, shape) * 2.0 ** rng.integers(-range_bits, range_bits + 1, shape) for shape in ((m, k), (k, n))
    )
    assert_within_bound(a, b, multiply(a, b))


@pytest.mark.parametrize("least", [1, 30, 60], ids=str)
def test_small_numbers_beside_large_ones_count(device, least):
    """Each row of a and column of b has one large number, which meets a small one."""
    rng = np.random.default_rng(least)
    a, b = narrow(rng, (6, 40)) * 2.0**-least, narrow(rng, (40, 5)) * 2.0**-least
    a[:, 7], b[9] = narrow(rng, 6), narrow(rng, 5)
    assert_within_bound(a, b, multiply(a, b, device))


def test_zeros_make_no_side_narrow(device):
    """The only number that counts is far below the largest, but for zeros the row would have a narrow range."""
    rng = np.random.default_rng(0)
    a, b = np.zeros((3, 40)), narrow(rng, (40, 4))
    a[:, 0], a[:, 39], b[0] = narrow(rng, 3), narrow(rng, 3) * 2.0**-50, 0
    assert_within_bound(a, b, multiply(a, b, device))


@pytest.mark.parametrize("k", [64, 2048])  # elements of 53 bits, and of 52
@pytest.mark.parametrize("beyond", [False, True])
def test_how_far_numbers_are_below_the_largest_decides(device, k, beyond):
    """In bits and on average: (log2(k) - 2 - (53 - bits)) / 2."""
    rng = np.random.default_rng(k)
    a, b = narrow(rng, (3, k)), narrow(rng, (k, 4))
    most = (np.log2(k) - 2 - (k > 1585)) / 2
    a[:] = 31 / 32  # 1/16 below 1 on a straight line from 1/2 to 1
    small = int((most - 1 / 16) * k / 16)  # so many numbers may be 16 bits smaller
    a[:, : small + beyond] *= 2.0**-16
    in_float64 = multiply(a, b, device, "dmma_large")
    assert (multiply(a, b, device) == in_float64).all() == beyond


def test_subnormal_numbers_among_others_make_a_side_wide(device):
    rng = np.random.default_rng(0)
    a, b = narrow(rng, (3, 64)) * 2.0**-1020, narrow(rng, (64, 4))
    assert (multiply(a, b, device) != multiply(a, b, device, "dmma_large")).any()
    a[:, ::8] = 5e-324
    np.testing.assert_array_equal(multiply(a, b, device), multiply(a, b, device, "dmma_large"))


def test_errors_are_no_larger_than_those_of_sums_in_float64(device):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (10, 1000)), rng.uniform(-1, 1, (1000, 10))
    expected = np.array(exact(a, b), dtype=object)
    errors = [
        np.linalg.norm((np.vectorize(Fraction)(multiply(a, b, device, kernel)) - expected).astype(float))
        for kernel in (KERNEL, "dmma_large")
    ]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("orders", ["CC", "FF"])
@pytest.mark.parametrize("k", [40, 37])  # rows of 37 are copied before their products in float64
def test_tiles_between_wide_strips_are_sums_in_float64(device, k, orders):
    """Strips of 128 rows and of 128 columns: the others have the bits that they have without wide ones."""
    rng = np.random.default_rng(k)
    a, b = narrow(rng, (300, k)), narrow(rng, (k, 420))
    a[5] = b[:, 400] = 0
    of_narrow, in_float64 = multiply(a, b, device), multiply(a, b, device, "dmma_large")
    for rows in slice(0, 128), slice(128, 256), slice(256, 300):
        for columns in slice(0, 128), slice(128, 256), slice(256, 384), slice(384, 420):
            assert (of_narrow[rows, columns] != in_float64[rows, columns]).any()
    a[130, 3], b[4, 290] = 2.0**60, np.inf
    a, b = (np.array(x, order=order) for x, order in zip((a, b), orders, strict=True))
    expected = multiply(a, b, device, "dmma_large")
    for rows in slice(0, 128), slice(256, 300):
        for columns in slice(0, 256), slice(384, 420):
            expected[rows, columns] = of_narrow[rows, columns]
    np.testing.assert_array_equal(multiply(a, b, device), expected)


def test_strips_of_batches(device):
    rng = np.random.default_rng(0)
    a, b = narrow(rng, (130, 24)), narrow(rng, (3, 24, 130))
    a[129, 3] = b[1, 2, 5] = 2.0**60  # rows from 128 on; in the second matrix, columns up to 128
    expected = np.stack([multiply(a, each, device) for each in b])
    np.testing.assert_array_equal(multiply(a, b, device), expected)
    np.testing.assert_array_equal(expected[:, 128:], multiply(a[128:], b, device, "dmma_large"))
    np.testing.assert_array_equal(expected[1, :, :128], multiply(a, b[1, :, :128], device, "dmma_large"))
    assert (expected[0, :128] != multiply(a[:128], b[0], device, "dmma_large")).any()


@pytest.mark.parametrize(("m", "n"), [(513, 20), (20, 513)])
def test_the_same_bits_in_parts_and_whole(device, m, n):
    """Parts of 256 rows or columns would leave a single one, and those of 288 would divide a strip."""
    rng = np.random.default_rng(m)
    a, b = narrow(rng, (m, 24)), narrow(rng, (24, n))
    (a if m > n else b.T)[270, 5] = 2.0**60  # the sides from 256 to 383 are wide
    whole = multiply(a, b, device)
    assert (whole != multiply(a, b, device, "dmma_large")).any()
    with parts_of(1000):
        np.testing.assert_array_equal(multiply(a, b, device), whole)


@pytest.mark.parametrize("shape", [(3, 5, 4), (130, 300, 260), (7, 1000, 9)], ids=str)
def test_integers_are_exact(device, shape):
    m, k, n = shape
    rng = np.random.default_rng(m)
    a, b = (np.rint(narrow(rng, s) * 2**20) for s in ((m, k), (k, n)))
    np.testing.assert_array_equal(multiply(a, b, device), (a.astype(np.int64) @ b.astype(np.int64)).astype(float))


@pytest.mark.parametrize("k", [8, 64])
def test_no_bit_is_lost(device, k):
    """What is left of numbers of 53 bits that cancel each other."""
    rng = np.random.default_rng(k)
    a = narrow(rng, (20, k))
    a[:, k // 2 :] = -np.nextafter(a[:, : k // 2], 2 * np.sign(a[:, : k // 2]))
    result = multiply(a, np.full((k, 3), 0.9375), device)
    left = np.array([[float(sum(map(Fraction, row)) * 15 / 16)] for row in a.tolist()])
    np.testing.assert_array_equal(result, np.tile(left, (1, 3)))


def test_any_scale_of_rows_and_columns(device):
    rng = np.random.default_rng(0)
    a, b = narrow(rng, (6, 50)), narrow(rng, (50, 5))
    down, right = np.array([0, 900, -900, 1000, -1000, 30]), np.array([0, -900, 900, 20, -1000])
    plain = multiply(a, b, device)
    with np.errstate(over="ignore"):
        expected = np.ldexp(plain, down[:, None] + right)  # some overflow, some underflow
    result = multiply(np.ldexp(a, down[:, None]), np.ldexp(b, right), device)
    np.testing.assert_array_equal(result, expected)
    assert np.isinf(result).any()
    assert (result == 0).any()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("numbers", ["any", "narrow"])
def test_rows_and_columns_that_are_not_finite(device, order, numbers):
    a, b = integers((9, 40), "float64"), integers((40, 11), "float64", seed=1)
    if numbers == "narrow":
        a, b = (np.where(x < 0, -1.0, 1.0) for x in (a, b))
    b = np.array(b, order=order)  # with its columns one after the other, memory ends with the last one
    a[1, 3], a[2, 4], a[5], a[6] = np.inf, np.nan, 0, np.inf
    b[7, 2], b[3, 4], b[8, 6] = -np.inf, 0, np.nan
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(multiply(a, b, device), a @ b)


def test_nothing_but_infinities(device):
    """A row whose numbers are all as large as its largest."""
    a, b = np.full((2, 40), np.inf), np.ones((40, 3))
    a[1], b[:, 1] = -1, -1
    np.testing.assert_array_equal(multiply(a, b, device), a @ b)


def test_subnormal_numbers(device):
    tiny = np.float64(5e-324)
    a, b = np.array([[3 * tiny, 5 * tiny] * 8]), np.array([[2.0], [1]] * 8)
    np.testing.assert_array_equal(multiply(a, b, device), [[88 * tiny]])


@pytest.mark.slow
def test_sums_of_a_long_k_are_reduced_on_the_way(device):
    """All residues to 255 are 127: their products add up to 1.05 * 2^31."""
    k, x = 140_000, 2**48 + 126
    result = multiply(np.full((2, k), float(x)), np.full((k, 3), float(x)), device)
    np.testing.assert_allclose(result, np.full((2, 3), float(k * x * x)), rtol=2.0**-51, atol=0)


@pytest.mark.parametrize(
    ("shape", "chosen"),
    [
        ((4096, 4096, 4096), True),
        ((3001, 5000, 4003), True),
        ((700, 3000, 700), False),
        ((8192, 2500, 8192), False),
    ],
    ids=str,
)
def test_the_policy_takes_it_for_large_products(shape, chosen):
    m, k, n = shape
    row, column = (np.broadcast_to(np.float64(0), s) for s in ((m, k), (k, n)))
    calls = _core.dry_run_as(*H200, "matmul", None, smemkit.matmul, (row, column), {"device": "cpu"})
    assert (KERNEL in [kernel for _, kernel, *_ in calls]) == chosen


def test_plan_names_both_paths_and_the_condition(device):
    plan = smemkit.plan(smemkit.matmul, np.ones((3, 5)), np.ones((5, 4)), kernel=KERNEL, device=device)
    assert "bytes of an integer per number; a tile in float64 where some row or column" in str(plan)


@pytest.mark.gpu
def test_numpy_arrays_are_multiplied_in_float64():
    """They come in parts, for each of which the residues of b would be stored again."""
    a = np.zeros((4096, 4096))
    x = smemkit.asarray(a, device="cuda:0")
    assert smemkit.plan(smemkit.matmul, x, x).kernels == (KERNEL,)
    assert set(smemkit.plan(smemkit.matmul, a, a, device="cuda:0").kernels) == {"dmma_large"}
