"""Products of random integers by every shape and type of wmma equal NumPy's; what it lacks is refused by name."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from together import compile_errors

import smemkit

WMMA = """
#include <mma.h>
using namespace nvcuda;
using namespace nvcuda::wmma::experimental;
__global__ void product(const MEMORY *a, const MEMORY *b, TOTAL *c, int lda, int ldb, int ldc)
{
    wmma::fragment<wmma::matrix_a, SHAPE, ELEMENT, wmma::LAYOUT_A> fa;
    wmma::fragment<wmma::matrix_b, SHAPE, ELEMENT, wmma::LAYOUT_B> fb;
    wmma::fragment<wmma::accumulator, SHAPE, TOTAL> fc;
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(fc, c, ldc, wmma::mem_col_major);
    MULTIPLY
    wmma::store_matrix_sync(c, fc, ldc, wmma::mem_col_major);
}
"""
SMALL = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
INTEGERS = {"signed char": (np.int8, 8, -128, 127), "unsigned char": (np.uint8, 8, 0, 255)}
PACKED = {"precision::s4": (4, -8, 7), "precision::u4": (4, 0, 15), "precision::b1": (1, 0, 1)}
CASES = [
    *(
        ("half", np.float16, c, d, shape)
        for shape in SMALL
        for c, d in (("half", np.float16), ("float", np.float32))
    ),
    *(("__nv_bfloat16", ml_dtypes.bfloat16, "float", np.float32, shape) for shape in SMALL),
    *((name, INTEGERS[name][0], "int", np.int32, shape) for shape in SMALL for name in INTEGERS),
    ("wmma::precision::tf32", np.float32, "float", np.float32, (16, 16, 8)),
    ("double", np.float64, "double", np.float64, (8, 8, 4)),
    ("precision::s4", np.uint32, "int", np.int32, (8, 8, 32)),
    ("precision::u4", np.uint32, "int", np.int32, (8, 8, 32)),
    ("precision::b1", np.uint32, "int", np.int32, (8, 8, 128)),
]
MEMORY = {"precision::s4": "unsigned", "precision::u4": "unsigned", "precision::b1": "unsigned"}
MEMORY |= {"wmma::precision::tf32": "float"}


def launched(case, layouts, multiply="wmma::mma_sync(fc, fa, fb, fc);"):
    kind, _, accumulator, _, shape = case
    if kind == "precision::b1":
        multiply = "wmma::bmma_sync(fc, fa, fb, fc, bmmaBitOpAND);"
    texts = {"MEMORY": MEMORY.get(kind, kind), "MULTIPLY": multiply, "SHAPE": ", ".join(map(str, shape))}
    texts |= {"ELEMENT": kind, "TOTAL": accumulator, "LAYOUT_A": layouts[0], "LAYOUT_B": layouts[1]}
    source = WMMA
    for name, text in texts.items():
        source = source.replace(name, text)
    with smemkit.Device("cpu"):
        return smemkit.Kernel(source)[1, 32]


def stored(matrix, layout, padding, dtype, bits):
    """A matrix as it lies in memory, its rows or columns apart by `padding`, and the leading dimension."""
    lines = matrix if layout == "row_major" else matrix.T
    wide = np.zeros((lines.shape[0], lines.shape[1] + padding), np.int64)
    wide[:, : lines.shape[1]] = lines
    if bits >= 8:
        return wide.astype(dtype), wide.shape[1]
    fields = (wide.reshape(len(wide), -1, 32 // bits) & ((1 << bits) - 1)) << np.arange(0, 32, bits)
    return np.bitwise_or.reduce(fields, axis=2).astype(np.uint32), wide.shape[1]


@pytest.mark.parametrize("layouts", [("row_major", "col_major"), ("col_major", "row_major")], ids="-".join)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[2]}-{case[4]}")
@pytest.mark.covering(1, most=4)
def test_products_equal_numpy(case, layouts):
    kind, dtype, _, result, (m, n, k) = case
    bits, low, high = PACKED.get(kind, INTEGERS.get(kind, (0, 8, -9, 9))[1:])
    if kind in PACKED:
        layouts = ("row_major", "col_major")
    launch = launched(case, layouts)

    @settings(max_examples=6, deadline=None, database=None)
    @given(st.integers(0, 2**32 - 1), st.sampled_from([0, 128]))
    def run(seed, padding):
        random = np.random.default_rng(seed)
        a, b = random.integers(low, high + 1, (m, k)), random.integers(low, high + 1, (k, n))
        c = random.integers(-9, 10, (m, n))
        at, bt = (stored(x, layout, padding, dtype, bits) for x, layout in zip((a, b), layouts, strict=True))
        ct = np.zeros((n, m + padding), result)
        ct[:, :m] = c.T
        launch(at[0], bt[0], ct, at[1], bt[1], ct.shape[1])
        assert_array_equal(ct[:, :m].T.astype(np.int64), a @ b + c)

    run()


REFUSED = {
    "a shape": (
        "wmma::fragment<wmma::matrix_a, 16, 8, 16, half, wmma::row_major> f;",
        "no fragment of this shape",
    ),
    "a type": (
        "wmma::fragment<wmma::matrix_a, 16, 16, 16, float, wmma::row_major> f;",
        "no fragment of this shape",
    ),
    "a layout": (
        "wmma::fragment<wmma::matrix_a, 8, 8, 32, wmma::experimental::precision::s4, wmma::col_major> f;",
        "no fragment of this type and layout",
    ),
    "an accumulator": (
        "wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a; "
        "wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b; "
        "wmma::fragment<wmma::accumulator, 16, 16, 16, half> c; wmma::mma_sync(c, a, b, c);",
        "no such accumulator",
    ),
}


@cache
def errors():
    """The compiler's messages, by case."""
    head = "#include <mma.h>\nusing namespace nvcuda;\n"
    texts = [f"{head}__global__ void k(int *x) {{ {body} }}" for body, _ in REFUSED.values()]
    return dict(zip(REFUSED, compile_errors("k", texts), strict=True))


@pytest.mark.parametrize("case", REFUSED)
def test_what_wmma_lacks_is_refused(case):
    assert REFUSED[case][1] in errors()[case]


@pytest.mark.usefixtures("compiled_when_used")
def test_leading_dimensions_are_checked():
    launch = launched(CASES[0], ("row_major", "col_major"))
    a, b, c = (np.zeros((16, 24), np.float16) for _ in range(3))
    assert smemkit.check(launch, a, b, c, 24, 24, 24).ok
    (fault,) = smemkit.check(launch, a, b, c, 20, 24, 24).faults
    assert (fault.kind, fault.line) == ("misaligned", 10)
    assert "a leading dimension of 20 elements, which are not a multiple of 16 bytes" in fault.message
