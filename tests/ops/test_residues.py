"""Products of float64 by the residues of integers (kernels/matmul/production/wgmma_residues.cu)."""

from fractions import Fraction

import numpy as np
import pytest
from cases import integers
from hypothesis import given, settings
from hypothesis import strategies as st

import smemkit

KERNEL = "wgmma_residues"


def multiply(a, b, device="cpu"):
    return smemkit.asnumpy(smemkit.matmul(a, b, kernel=KERNEL, device=device))


def exact(a, b):
    """The product in fractions."""
    a, b = ([[Fraction(float(value)) for value in row] for row in x] for x in (a, b.T))
    return [[sum(map(Fraction.__mul__, row, column)) for column in b] for row in a]


def assert_within_bound(a, b, result):
    """Elements are rounded by less than 2^-51 of the largest of their row of a or column of b, sums by 2^-52."""
    for i, row in enumerate(exact(a, b)):
        for j, value in enumerate(row):
            largest = Fraction(float(np.abs(a[i]).max())) * Fraction(float(np.abs(b[:, j]).max()))
            allowed = a.shape[1] * largest * Fraction(1, 2**50) + abs(value) * Fraction(1, 2**52)
            assert abs(Fraction(float(result[i, j])) - value) <= allowed, (i, j)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 5), st.integers(0, 60), st.integers(0, 2**32 - 1))
def test_errors_are_below_the_bound(m, k, n, range_bits, seed):
    """Also where the numbers of a row have a wide range, whose small ones are lost."""
    rng = np.random.default_rng(seed)
    a, b = (
        rng.standard_normal(shape) * 2.0 ** rng.integers(-range_bits, range_bits + 1, shape)
        for shape in ((m, k), (k, n))
    )
    assert_within_bound(a, b, multiply(a, b))


def test_errors_are_no_larger_than_those_of_sums_in_float64(device):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((10, 1000)), rng.standard_normal((1000, 10))
    expected = np.array(exact(a, b), dtype=object)
    one_after_another = np.zeros((10, 10))
    for i in range(1000):
        one_after_another += np.outer(a[:, i], b[i])
    errors = [
        np.linalg.norm((np.vectorize(Fraction)(x) - expected).astype(float))
        for x in (multiply(a, b, device), one_after_another)
    ]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("shape", [(3, 5, 4), (130, 300, 260), (1, 1, 1), (7, 1000, 9)], ids=str)
def test_integers_are_exact(device, shape):
    m, k, n = shape
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-(2**20), 2**20, s).astype(float) for s in ((m, k), (k, n)))
    np.testing.assert_array_equal(multiply(a, b, device), (a.astype(np.int64) @ b.astype(np.int64)).astype(float))


def test_any_scale_of_rows_and_columns(device):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((6, 50)), rng.standard_normal((50, 5))
    down, right = np.array([0, 900, -900, 1000, -1000, 30]), np.array([0, -900, 900, 20, -1000])
    plain = multiply(a, b, device)
    with np.errstate(over="ignore"):
        expected = np.ldexp(plain, down[:, None] + right)  # some overflow, some underflow
    result = multiply(np.ldexp(a, down[:, None]), np.ldexp(b, right), device)
    np.testing.assert_array_equal(result, expected)
    assert np.isinf(result).any()
    assert (result == 0).any()


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_and_columns_that_are_not_finite(device, order):
    a, b = integers((9, 40), "float64"), integers((40, 11), "float64", seed=1)
    b = np.array(b, order=order)  # with its columns one after the other, memory ends with the last one
    a[1, 3], a[2, 4], a[5] = np.inf, np.nan, 0
    b[7, 2], b[3, 4], b[8, 6] = -np.inf, 0, np.nan
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(multiply(a, b, device), a @ b)


@pytest.mark.parametrize("k", [2, pytest.param(30_000, marks=pytest.mark.slow)])  # which has elements of 50 bits
def test_subnormal_numbers(device, k):
    """Numbers that are smaller than all normal ones have exponents, too."""
    tiny = np.float64(5e-324)
    a, b = np.zeros((1, k)), np.zeros((k, 1))
    a[0, :2], b[:2, 0] = [3 * tiny, 5 * tiny], [2, 1]
    np.testing.assert_array_equal(multiply(a, b, device), [[11 * tiny]])


def test_no_bit_of_a_column_is_lost(device):
    x = np.random.default_rng(0).standard_normal((50, 1))
    np.testing.assert_array_equal(multiply(x, np.ones((1, 1)), device), x)


@pytest.mark.slow
def test_sums_of_a_long_k_are_reduced_on_the_way(device):
    """All residues to 255 are 127: their products add up to 1.05 * 2^31."""
    k, x = 140_000, 2**48 + 126
    result = multiply(np.full((2, k), float(x)), np.full((k, 3), float(x)), device)
    np.testing.assert_allclose(result, np.full((2, 3), float(k * x * x)), rtol=2.0**-51, atol=0)


def test_it_is_taken_by_name_only(device):
    plan = smemkit.plan(smemkit.matmul, np.ones((600, 600)), np.ones((600, 600)), device=device)
    assert KERNEL not in plan.kernels
