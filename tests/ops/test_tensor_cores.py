"""The accuracy of `mma_split` as tensor cores round, which the executor does not imitate, and special numbers."""

import ml_dtypes
import numpy as np
import pytest
from cases import integers

import smemkit

EXTRA_BITS = (
    2  # in addition to the 24 of a float32, to which all summands of an mma are cut off on an H100 (Khattak and
)
# Mikaitis, "Accurate Models of NVIDIA Tensor Cores", 2025)
STEP, FLUSH = 16, 2048  # numbers along k in an mma, and in a sum


def truncated(x, exponent):
    """x without what is below 2**exponent."""
    return np.ldexp(np.trunc(np.ldexp(x, -exponent)), exponent)


def mma(a, b, c):
    """c + a @ b for (m, STEP) @ (STEP, n): summands are cut off below the largest one, and so is the sum."""
    terms = np.concatenate([a[:, :, None] * b[None], c[:, None, :]], axis=1)  # exact in float64
    largest = np.frexp(np.abs(terms).max(axis=1))[1]
    total = truncated(terms, (largest - 24 - EXTRA_BITS)[:, None, :]).sum(axis=1)
    return truncated(total, np.frexp(total)[1] - 24)


def parts(x):
    """The three numbers of bfloat16 that add up to x."""
    found = []
    for _ in range(3):
        found.append(x.astype(ml_dtypes.bfloat16).astype(np.float32))
        x = x - found[-1]
    return [part.astype(np.float64) for part in found]


def split_product(a, b):
    """What `mma_split` computes on tensor cores."""
    result = total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(0, a.shape[1], STEP):
        if k % FLUSH == 0:
            result, total = result + total, np.zeros_like(total)
        of_a, of_b = parts(a[:, k : k + STEP]), parts(b[k : k + STEP])
        step = np.zeros(total.shape)
        for order in 2, 1, 0:
            for part in range(order + 1):
                step = mma(of_a[part], of_b[order - part], step)
        total += step.astype(np.float32)
    return result + total


OPERANDS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "one sign": lambda rng, shape: rng.random(shape),
    "wide exponents": lambda rng, shape: rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 31, shape),
}


def error(result, a, b):
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return np.linalg.norm(result - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("k", [64, 1024, 8192])
@pytest.mark.parametrize("values", OPERANDS)
def test_products_on_tensor_cores_are_as_accurate_as_those_of_float32(values, k):
    rng = np.random.default_rng(k)
    a, b = (OPERANDS[values](rng, shape).astype(np.float32) for shape in ((24, k), (k, 20)))
    result, plain = split_product(a, b), smemkit.matmul(a, b, kernel="simt", device="cpu")
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert np.all(np.abs(result - a.astype(np.float64) @ b.astype(np.float64)) <= (k + 2) * 2.0**-24 * magnitude)
    if values != "wide exponents":
        assert error(result, a, b) <= error(plain, a, b)


def test_the_kernel_adds_the_same_products():
    """The executor rounds each mma once, to nearest: the results differ in the last bits only."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((40, 256), (256, 30)))
    result = smemkit.matmul(a, b, kernel="mma_split", device="cpu")
    magnitude = np.abs(a) @ np.abs(b)
    assert np.all(np.abs(result - split_product(a, b)) <= 4 * 2.0**-24 * magnitude)
    assert error(result, a, b) < error(smemkit.matmul(a, b, kernel="simt", device="cpu"), a, b)


def test_the_kernel_adds_several_sums():
    """Numbers of one sign have an error that grows with the length of a sum."""
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape).astype(np.float32) for shape in ((20, 8192), (8192, 20)))
    assert error(smemkit.matmul(a, b, kernel="mma_split", device="cpu"), a, b) < 2.5 * 2.0**-24


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 3.4e38, 1e-38, 1e-45])
@pytest.mark.covering(1, most=3)
def test_numbers_beyond_the_parts_are_multiplied_as_float32(special):
    a, b = integers((130, 40), np.float32), integers((40, 135), np.float32, seed=1)
    b[b == 0] = 1  # infinity times 0 is NaN everywhere
    a[3, 5], b[7, 134] = special, special
    with np.errstate(invalid="ignore", over="ignore"):
        plain = smemkit.matmul(a, b, kernel="simt", device="cpu")
        result = smemkit.matmul(a, b, kernel="mma_split", device="cpu")
    np.testing.assert_array_equal(result, plain)
    assert not smemkit.check(smemkit.matmul, a, b, kernel="mma_split", blocks="all").faults
