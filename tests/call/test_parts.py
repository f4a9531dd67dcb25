"""Large calls with host arrays are split into parts: the result has the same bits as that of the whole call,
wherever the parts end, and a call that fails half-way says so.

`parts_of` splits small calls like large ones. Only matmul, reduce, transpose and convert are split.
"""

import contextlib
import gc
import itertools
import signal
import subprocess
import sys
import tempfile
import time

import ml_dtypes
import numpy as np
import pytest
from cases import (
    each_kernel,
    expect_launches,
    in_threads,
    integers,
    is_poison,
    numbered,
    on,
    parts_of,
    poison,
    refusal,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from tiers import times

import smemkit
from smemkit import _core

PARTS = (64, 1000, 4096, 20_000, 1 << 15)  # of one element: test_parts_of_one_element
WHOLE = 1 << 60
GPU = pytest.mark.parametrize("device", [pytest.param("cuda:0", marks=pytest.mark.gpu)], indirect=True)
DTYPES = ("float32", "float64")


def random(shape, dtype, seed=0):
    """Numbers whose sums depend on the order of the additions."""
    x = np.random.default_rng(seed).standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        return (x + 1j * np.random.default_rng(seed + 1).standard_normal(shape)).astype(dtype)
    return (x * 100 if np.dtype(dtype).kind in "iu" else x).astype(dtype)


def assert_same_bits(result, expected):
    assert type(result) is type(expected)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    if result.tobytes() != expected.tobytes():
        assert_array_equal(result, expected)  # reports where they differ, unless both are NaN
        pytest.fail("the bits differ")


def launches_of(call, *arguments, **options):
    """A call's result, and its number of launches."""
    before = smemkit.launches()
    result = call(*arguments, **options)
    return result, smemkit.launches() - before


def check(call, *operands, split=True, **options):
    """Checks that a call gives the same bits whole and in parts of all sizes. `split`: whether parts increase the
    number of launches; None if they may."""
    with parts_of(WHOLE):
        expected, launches = launches_of(call, *operands, **options)
    most_launches = 0
    for n in PARTS:
        with parts_of(n):
            result, count = launches_of(call, *operands, **options)
        assert_same_bits(result, expected)
        most_launches = max(most_launches, count)
    assert split is None or (most_launches > launches) is split
    return expected


def swapped(x):
    return x.astype(x.dtype.newbyteorder())


def unaligned(x):
    memory = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    memory[...] = x
    return memory


LAYOUTS = {  # the same elements in several layouts
    "C": lambda x: x,
    "F": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "wide strides": lambda x: np.repeat(np.repeat(x, 3, axis=0), 40, axis=-1)[::3, ..., ::40],
    "negative": lambda x: np.flip(np.flip(x).copy()),
    "one negative": lambda x: np.flip(np.flip(x, -1).copy(), -1),
    "swapped": swapped,
    "swapped and strided": lambda x: np.repeat(swapped(x), 2, axis=0)[::2],
    "unaligned": unaligned,
    "moved": lambda x: np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0),
}
BROADCAST_LAYOUTS = {  # elements that share memory
    "row": lambda x: np.broadcast_to(x[:1], x.shape),
    "column": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "one": lambda x: np.broadcast_to(x.flat[0], x.shape),
    "overlapping": lambda x: np.lib.stride_tricks.sliding_window_view(
        np.arange(x.size, dtype=x.dtype), x.size // x.shape[0] // 2 + 1
    )[: x.shape[0]],
}
EACH_LAYOUT = pytest.mark.parametrize("layout", [*LAYOUTS, *BROADCAST_LAYOUTS])


def with_layout(x, layout):
    return (LAYOUTS | BROADCAST_LAYOUTS)[layout](x)


# ---- matmul -----------------------------------------------------------------------------------------------------

PRODUCTS = [  # shapes, and whether the call is split; None: the number of launches does not show it
    ((70, 33), (33, 50), True),
    ((257, 5), (5, 3), True),
    ((64, 64), (64, 64), True),
    ((300, 1), (1, 40), True),
    ((40,), (40, 60), False),  # one row
    ((90, 40), (40,), True),
    ((40,), (40,), False),
    ((1, 500), (500, 1), False),
    ((100, 1), (1, 1), True),
    ((5, 33, 30), (5, 30, 20), True),
    ((5, 33, 30), (30, 20), True),
    ((5, 1, 30), (1, 30, 20), True),
    ((33, 30), (5, 30, 20), True),
    ((4, 1, 20, 30), (3, 30, 20), None),  # one launch per matrix of a, split or not
    ((2, 3, 40, 7), (2, 1, 7, 65), True),
    ((1, 3, 3, 7), (2, 1, 7, 5), None),
    ((7, 8, 9), (9,), True),
    ((9,), (7, 9, 8), True),
    ((1, 40, 8), (1, 8, 8), True),  # a batch of one
    ((600, 3), (3, 2500), True),
    ((9, 8), (8, 2300), None),
    ((40,), (40, 3000), False),
    ((0, 40), (40, 5), False),
    ((40, 0), (0, 5), False),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("a", "b", "split"), PRODUCTS, ids=str)
@pytest.mark.covering(1)
def test_products(device, a, b, split, dtype):
    check(smemkit.matmul, random(a, dtype), random(b, dtype, 9), device=device, split=split)


@EACH_LAYOUT
@pytest.mark.parametrize("shape", [(70, 70), (4, 40, 40)], ids=str)
@pytest.mark.covering(1)
def test_products_of_every_layout(device, shape, layout):
    x, y = random(shape, "float32"), random(shape, "float32", 9)
    if layout == "overlapping" and x.ndim > 2:
        pytest.skip("needs a matrix")
    y = y[..., : with_layout(x, layout).shape[-1], :]
    check(smemkit.matmul, with_layout(x, layout), y, device=device)
    check(smemkit.matmul, np.swapaxes(with_layout(x, layout), -1, -2)[..., :40, :], x[..., :, :9], device=device)
    check(smemkit.matmul, x[..., : with_layout(y, layout).shape[-2]], with_layout(y, layout), device=device)


@pytest.mark.parametrize(
    ("dtypes", "options"),
    [
        (("int8", "int8"), {}),
        (("int8", "int8"), {"dtype": "int32"}),
        (("int8", "float64"), {}),
        (("float32", "float64"), {"dtype": "float32"}),
        (("complex64", "float32"), {}),
        (("bool", "bool"), {}),
        (("bfloat16", "bfloat16"), {}),
        (("float16", "uint8"), {}),
        (("float32", "float32"), {"precision": "medium"}),
    ],
    ids=str,
)
def test_products_of_other_dtypes(device, dtypes, options):
    # on a GPU, kernels of tensor cores may take all 70 rows at once
    split = None if device != "cpu" and {"int8", "float16", "bfloat16", "float64"} & {*dtypes} else True
    if "bfloat16" in dtypes:
        x = random((70, 33), "float32").astype(ml_dtypes.bfloat16)
        check(smemkit.matmul, x, x.T, device=device, split=split)
        return
    x, y = random((70, 33), dtypes[0]), random((33, 50), dtypes[1], 9)
    check(smemkit.matmul, x, y, device=device, split=split, **options)


# ---- reduce -----------------------------------------------------------------------------------------------------

OPS = ["sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "argmin", "argmax", "count_nonzero"]
REDUCTIONS = [  # shape, axis, and whether the call is split
    ((30_000,), None, True),
    ((50_000,), 0, True),
    ((3000,), None, None),  # one or two chunks are the whole row
    ((70, 90), None, None),
    ((300, 180), None, True),
    ((70, 90), 0, None),  # by chunks, if the fold allows it
    ((70, 90), 1, True),
    ((7, 900), 0, True),
    ((70, 900), 0, True),
    ((700, 9), 0, None),  # too narrow, and without chunks
    ((40_000, 3), 0, None),
    ((9, 700), 1, True),
    ((2, 3000), 1, True),
    ((3000, 2), 0, None),
    ((12, 40, 10), 0, True),
    ((12, 40, 10), 1, True),
    ((12, 40, 10), 2, True),
    ((3, 400, 5), 1, True),
    ((3, 5, 400), 1, True),
]
TUPLE_AXES = [
    ((12, 40, 10), (0, 1), None),
    ((120, 400, 3), (0, 1), None),
    ((12, 40, 10), (0, 2), True),
    ((12, 40, 10), (1, 2), True),
    ((12, 40, 10), (2, 1, 0), None),
    ((12, 400, 10), (2, 1, 0), True),
    ((12, 40, 10), (), True),
    ((3, 4, 5, 6, 7), (1, 3), True),
    ((3, 4, 5, 6, 7), (0, -1), True),
    ((3, 4, 5, 6, 7), (2, 3), True),
    ((1, 2000, 1, 3), (0, 1), None),
]


@pytest.mark.parametrize(("shape", "axis", "split"), REDUCTIONS, ids=str)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.covering(1)
def test_reductions(device, op, shape, axis, split):
    x = random(shape, "float64" if op in ("mean", "argmax") else "float32")
    result = check(smemkit.reduce, x, op, axis, device=device, split=split)
    if op in ("min", "max", "any", "all", "argmin", "argmax", "count_nonzero"):
        assert_array_equal(result, getattr(np, op)(x, axis))


@pytest.mark.parametrize(("shape", "axis", "split"), TUPLE_AXES, ids=str)
@pytest.mark.parametrize("op", ["sum", "min", "var"])
def test_reductions_of_several_axes(device, op, shape, axis, split):
    x = random(shape, "float64")
    result = check(smemkit.reduce, x, op, axis, keepdims=op != "sum", device=device, split=split)
    np.testing.assert_allclose(result, getattr(np, op)(x, axis, keepdims=op != "sum"), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((100_003,), None), ((3, 20_001), 1), ((4099, 5), 0), ((2, 1025, 3), 1), ((257,), None)],
    ids=str,
)
@pytest.mark.covering(1)
def test_partial_sums_are_the_same_as_in_one_launch(device, shape, axis, dtype):
    """Reductions of rows whose elements are split into parts. Another order of the additions would change bits."""
    x = random(shape, dtype) * np.exp(5 * random(shape, dtype, 5))
    with parts_of(WHOLE):
        expected = [smemkit.reduce(x, op, axis, device=device) for op in ("sum", "mean", "var", "argmin")]
    for n in (256, 1000, 4096, 1 << 16):
        with parts_of(n):
            for op, whole in zip(("sum", "mean", "var", "argmin"), expected, strict=True):
                assert_same_bits(smemkit.reduce(x, op, axis, device=device), whole)


@pytest.mark.parametrize("kernel", [None, "columns"])
def test_columns_are_split_into_chunks(device, kernel):
    """Several launches share partial results and counters, with other chunks in between."""
    x = random((40_000, 3), "float32") * np.exp(5 * random((40_000, 3), "float32", 5))
    for op in ("sum", "mean", "var", "argmin"):
        with parts_of(WHOLE):
            expected = smemkit.reduce(x, op, 0, kernel=kernel, device=device)
        for n in (1 << 16, 1 << 17):
            with parts_of(n):
                result, launches = launches_of(smemkit.reduce, x, op, 0, kernel=kernel, device=device)
            assert_same_bits(result, expected)
            assert launches > 1


def test_rows_are_split_into_parts(device):
    x = random((100, 1024), "float32")
    for kernel in (None, "single_pass"):
        with parts_of(4096), expect_launches(100):
            smemkit.sum(x, 1, kernel=kernel, device=device)
        with parts_of(x.nbytes), expect_launches(1):
            smemkit.sum(x, 1, kernel=kernel, device=device)
        with parts_of(x.nbytes - 1), expect_launches(2):
            smemkit.sum(x, 1, kernel=kernel, device=device)


@EACH_LAYOUT
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)], ids=str)
@pytest.mark.covering(1, most=7)
def test_reductions_of_every_layout(device, axis, layout):
    x = with_layout(random((180, 110), "float32"), layout)
    for op in ("sum", "argmax", "std"):
        if op != "argmax" or not isinstance(axis, tuple):
            check(smemkit.reduce, x, op, axis, device=device, split=True if layout == "C" and axis != 0 else None)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (1, 2)], ids=str)
@pytest.mark.covering(1)
def test_reductions_of_every_layout_in_three_dimensions(device, axis, layout):
    split = True if layout == "C" and axis != 0 else None
    check(smemkit.sum, with_layout(random((12, 30, 20), "float32"), layout), axis, device=device, split=split)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "float16", "complex64", "bfloat16"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.covering(1, most=2)
def test_reductions_of_other_dtypes(device, dtype, axis):
    x = random((700, 170), "float32").astype(dtype)
    split = axis != 0 or None
    check(smemkit.reduce, x, "sum", axis, device=device, split=split)
    check(smemkit.reduce, x, "prod", axis, dtype="complex128", initial=3, device=device, split=split)
    check(smemkit.reduce, x, "max", axis, initial=1, device=device, split=split)


# ---- transpose and convert --------------------------------------------------------------------------------------

PERMUTATIONS = [  # shape, axes, and whether float32 is split
    ((70, 90), None, False),  # the parts of a row would be too short
    ((700, 300), None, True),
    ((700, 9), None, True),
    ((9, 700), None, True),
    ((1, 700), None, True),
    ((5000,), None, True),
    ((33, 17, 9), None, True),
    ((6, 33, 17), (0, 2, 1), True),
    ((6, 33, 17), (1, 0, 2), True),
    ((6, 33, 17), (2, 0, 1), False),
    ((6, 33, 17), (1, 2, 0), True),
    ((6, 33, 17), (0, 1, 2), True),
    ((2, 40, 50), (0, 2, 1), True),
    ((3, 4, 5, 6, 7), (4, 2, 0, 3, 1), True),
    ((3, 4, 5, 6, 7), (0, 1, 2, 4, 3), True),
    ((3, 1, 50, 1, 7), (4, 3, 0, 2, 1), False),
]


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128"])
@pytest.mark.parametrize(("shape", "axes", "split"), PERMUTATIONS, ids=str)
@pytest.mark.covering(1)
def test_transpositions(device, shape, axes, split, dtype):
    x = random(shape, dtype)
    result = check(smemkit.transpose, x, axes, device=device, split=split if dtype == "float32" else None)
    assert_array_equal(result, np.transpose(x, axes))


@EACH_LAYOUT
@pytest.mark.parametrize("shape", [(3, 270), (6, 30, 20)], ids=str)
@pytest.mark.covering(1)
def test_transpositions_of_every_layout(device, shape, layout):
    x = random(shape, "float32")
    if layout == "overlapping" and x.ndim > 2:
        pytest.skip("needs a matrix")
    x = with_layout(x, layout)
    for axes in itertools.permutations(range(x.ndim)):
        split = True if layout == "C" and shape == (3, 270) and axes == (1, 0) else None
        result = check(smemkit.transpose, x, axes, device=device, split=split)
        assert_array_equal(result, np.transpose(x, axes))
        assert result.dtype == x.dtype


@EACH_LAYOUT
@pytest.mark.parametrize("dtype", [None, "float64", "int16", "complex64", "bool"])
@pytest.mark.covering(1, most=5)
def test_conversions(device, dtype, layout):
    x = with_layout(random((90, 70), "float32"), layout)
    result = check(smemkit.convert, x, dtype, device=device)
    assert_array_equal(result, x.astype(dtype or x.dtype))


@pytest.mark.parametrize("shape", [(5000,), (1,), (0, 3), (), (3, 2000), (2000, 1, 3), (7, 8, 9, 10)], ids=str)
@pytest.mark.covering(most=4)
def test_conversions_of_every_shape(device, shape):
    x = random(shape, "float64")
    split = x.size > 1
    assert_array_equal(check(smemkit.convert, x, "float32", device=device, split=split), x.astype("float32"))
    assert_array_equal(check(smemkit.convert, swapped(x), device=device, split=split), x)


@EACH_LAYOUT
@pytest.mark.covering(most=6)
def test_arrays_are_made_in_parts(device, layout):
    x = with_layout(random((90, 70), "float32"), layout)
    for dtype in (None, "float64", "int8"):
        for n in (*PARTS, WHOLE):
            with parts_of(n):
                array = smemkit.asarray(x, dtype=dtype, device=device)
                assert_array_equal(array.numpy(), x.astype(dtype or x.dtype))
                assert_array_equal(array.T[::-2].numpy(), x.astype(dtype or x.dtype).T[::-2])


def test_device_arrays_are_not_split(device):
    x = on(device, random((90, 70), "float32"))
    expected = smemkit.sum(x, 0).numpy(), smemkit.transpose(x).numpy(), (x @ x[:70]).numpy()
    with parts_of(1), expect_launches(3):
        results = smemkit.sum(x, 0), smemkit.transpose(x), x @ x[:70]
    for result, whole in zip(results, expected, strict=True):
        assert_same_bits(result.numpy(), whole)


@pytest.mark.parametrize("n", PARTS)
def test_operations_that_are_never_split(device, n):
    x = random((90, 70), "float32")
    with parts_of(n), expect_launches(2):
        assert_array_equal(smemkit.add_one(x, device=device), x + np.float32(1))
        assert_array_equal(smemkit.reverse(x.ravel(), device=device), x.ravel()[::-1])


# ---- every kernel -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", PARTS)
@each_kernel("matmul", dtypes=("float32", "int32"))
@pytest.mark.covering(1)
def test_products_by_every_kernel(device, kernel, n):
    x, y = integers((70, 33), kernel.dtype), integers((33, 20), kernel.dtype, 1)
    with parts_of(n):
        assert_array_equal(kernel(x, y, device=device), x @ y)


@pytest.mark.parametrize("n", PARTS)
@each_kernel("reduce", dtypes=("float32", "int32"))
@pytest.mark.covering(1, most=3)
def test_sums_by_every_kernel(device, kernel, n):
    x = integers((9, 400, 7), kernel.dtype)
    with parts_of(n):
        for axis in (None, 0, 1, 2, (0, 2), (1, 2)):
            with refusal(kernel, "sum", axis, 3):
                assert_array_equal(kernel(x, axis=axis, device=device), x.sum(axis))


@pytest.mark.parametrize("n", PARTS)
@each_kernel("transpose", dtypes=("float32", "uint8"))
@pytest.mark.covering(1)
def test_transpositions_by_every_kernel(device, kernel, n):
    x = numbered((3, 70, 33), kernel.dtype)
    axes = (0, 1, 2) if kernel.row.role == "ceiling" else (0, 2, 1)
    with parts_of(n):
        assert_array_equal(kernel(x, axes=axes, device=device), x.transpose(axes))


# ---- out --------------------------------------------------------------------------------------------------------

OUTS = {  # of a shape and a dtype
    "C": lambda shape, dtype: poison(shape, dtype),
    "F": lambda shape, dtype: np.asfortranarray(poison(shape, dtype)),
    "strided": lambda shape, dtype: poison((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2],
    "rows apart": lambda shape, dtype: poison((2 * shape[0], *shape[1:]), dtype)[::2],
    "negative": lambda shape, dtype: np.flip(poison(shape, dtype)),
    "swapped": lambda shape, dtype: swapped(poison(shape, dtype)),
    "wider": lambda shape, dtype: poison(shape, np.result_type(dtype, "complex64")),
    "wider, swapped and strided": lambda shape, dtype: poison((*shape, 2), ">c16")[..., 1],
    "unaligned": lambda shape, dtype: unaligned(poison(shape, dtype)),
}
CALLS = {
    "matmul": lambda x, **options: smemkit.matmul(x, x.T, **options),
    "matmul of a batch": lambda x, **options: smemkit.matmul(x.reshape(9, -1, x.shape[-1]), x.T, **options),
    "sum of columns": lambda x, **options: smemkit.sum(x, 0, **options),
    "sum of rows": lambda x, **options: smemkit.sum(x, 1, **options),
    "sum of all": lambda x, **options: smemkit.sum(np.tile(x.ravel(), 9), keepdims=True, block_size=32, **options),
    "long rows": lambda x, **options: smemkit.sum(np.tile(x[:9], 10), 1, keepdims=True, block_size=32, **options),
    "transpose": lambda x, **options: smemkit.transpose(x, **options),
    "permutation": lambda x, **options: smemkit.transpose(x.reshape(9, -1, x.shape[-1]), (1, 0, 2), **options),
    "reversed axes": lambda x, **options: smemkit.transpose(x.reshape(9, -1, x.shape[-1]), (2, 1, 0), **options),
    "convert": lambda x, **options: smemkit.convert(x, **options),
}


@pytest.mark.parametrize("out", OUTS)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.covering(1)
def test_out(device, name, out):
    x = random((90, 70), "float32")
    call = CALLS[name]
    with parts_of(WHOLE):
        result = call(x, device=device)
        target = OUTS[out](result.shape, result.dtype)
        base = target if target.base is None else target.base
        assert call(x, device=device, out=target) is target
        expected, around = target.copy(), base.tobytes()
    np.testing.assert_allclose(expected, result, rtol=1e-4)
    for n in PARTS:
        target = OUTS[out](result.shape, result.dtype)
        base = target if target.base is None else target.base
        with parts_of(n):
            assert call(x, device=device, out=target) is target
        assert_same_bits(target.copy(), expected)
        assert base.tobytes() == around  # nothing is written between the elements


@pytest.mark.parametrize("layout", ["C", "strided", "swapped"])
@pytest.mark.parametrize("name", CALLS)
def test_out_on_the_device_is_not_split(device, name, layout):
    x = on(device, with_layout(random((90, 70), "float32"), "strided" if layout == "swapped" else layout))
    if name in ("sum of all", "long rows"):
        pytest.skip("their operand is a NumPy array")
    with parts_of(WHOLE):
        expected = CALLS[name](x).numpy()
    target = on(device, poison(expected.shape, expected.dtype))
    with parts_of(1):
        assert CALLS[name](x, out=target) is target
    assert_same_bits(target.numpy(), expected)


@pytest.mark.parametrize("name", CALLS)
def test_parts_of_one_element(device, name):
    """Of one row, for operations that split no row."""
    for x in (random((9, 5), "float32"), random((9, 1), "float32"), np.asfortranarray(random((9, 5), "float32"))):
        with parts_of(WHOLE):
            expected = CALLS[name](x, device=device)
        with parts_of(1):
            assert_same_bits(CALLS[name](x, device=device), expected)


OVERLAPPING_CALLS = {  # calls whose `out` overlaps their operand x
    "rows reversed": lambda x, **o: smemkit.convert(x[:, ::-1], out=x, **o),
    "columns reversed": lambda x, **o: smemkit.convert(x[::-1], out=x, **o),
    "one to the right": lambda x, **o: smemkit.convert(x[:, :-1], out=x[:, 1:], **o),
    "one down": lambda x, **o: smemkit.convert(x[:-1], out=x[1:], **o),
    "one up": lambda x, **o: smemkit.convert(x[1:], out=x[:-1], **o),
    "in place": lambda x, **o: smemkit.convert(x, out=x, **o),
    "transpose": lambda x, **o: smemkit.transpose(x, out=x, **o),
    "transpose into the transpose": lambda x, **o: smemkit.transpose(x, out=x.T, **o),
    "transpose of some": lambda x, **o: smemkit.transpose(x[:50], out=x[:, 10:60], **o),
    "square": lambda x, **o: smemkit.matmul(x, x, out=x, **o),
    "product on the left": lambda x, **o: smemkit.matmul(x[::-1], x.copy(), out=x, **o),
    "product on the right": lambda x, **o: smemkit.matmul(x.copy(), x.T, out=x, **o),
    "sums into a row": lambda x, **o: smemkit.sum(x, 0, out=x[3], **o),
    "sums into a column": lambda x, **o: smemkit.sum(x, 1, out=x[:, 3], **o),
    "sum into an element": lambda x, **o: smemkit.sum(x, out=x[5:6, 5].reshape(()), block_size=32, **o),
    "sum over no axes": lambda x, **o: smemkit.sum(x, (), out=x[::-1], **o),
}


@pytest.mark.parametrize("name", OVERLAPPING_CALLS)
@pytest.mark.covering(1)
def test_out_that_overlaps_the_operand(device, name):
    original = random((70, 70), "float32")
    expected = original.copy()
    with parts_of(WHOLE):
        OVERLAPPING_CALLS[name](expected, device=device)
    for n in PARTS:
        x = original.copy()
        with parts_of(n):
            OVERLAPPING_CALLS[name](x, device=device)
        assert_same_bits(x, expected)


def test_interleaved_views(device):
    both = random((90, 140), "float32")
    expected = both[:, ::2].copy()
    for n in PARTS:
        x = both.copy()
        with parts_of(n):
            smemkit.convert(x[:, ::2], out=x[:, 1::2], device=device)
        assert_array_equal(x[:, 1::2], expected)
        assert_array_equal(x[:, ::2], expected)


# ---- random calls -----------------------------------------------------------------------------------------------

LAYOUT = st.sampled_from([*LAYOUTS, "row", "column", "one"])
LENGTH = st.one_of(st.integers(1, 9), st.sampled_from([16, 31, 32, 33, 65, 257, 300]))
PART = st.one_of(st.sampled_from(PARTS), st.integers(1, 1 << 16))
SETTINGS = settings(
    max_examples=times(60, 10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def operands(draw, least=1, most=4):
    shape = draw(st.lists(LENGTH, min_size=least, max_size=most).filter(lambda s: np.prod(s) <= 40_000))
    x = random(shape, draw(st.sampled_from([*DTYPES, "int16"])))
    layout = draw(LAYOUT)
    return with_layout(x, layout) if x.ndim > 1 or layout != "wide strides" else x


def assert_same_bits_in_parts(n, call, *arguments, **options):
    with parts_of(WHOLE):
        expected = call(*arguments, **options)
    with parts_of(n):
        assert_same_bits(call(*arguments, **options), expected)


@SETTINGS
@given(st.data())
def test_any_reduction(device, data):
    x = data.draw(operands())
    axes = data.draw(st.sets(st.integers(0, x.ndim - 1)))
    op = data.draw(st.sampled_from(OPS))
    axis = tuple(axes) if not op.startswith("arg") else min(axes, default=None)
    options = {"keepdims": data.draw(st.booleans()), "device": device}
    assert_same_bits_in_parts(data.draw(PART), smemkit.reduce, x, op, axis, **options)


@SETTINGS
@given(st.data())
def test_any_transposition(device, data):
    x = data.draw(operands())
    axes = data.draw(st.permutations(range(x.ndim)))
    n = data.draw(PART)
    assert_same_bits_in_parts(n, smemkit.transpose, x, axes, device=device)
    with parts_of(n):
        assert_array_equal(smemkit.transpose(x, axes, device=device), x.transpose(axes))


@SETTINGS
@given(st.data())
def test_any_conversion(device, data):
    x = data.draw(operands())
    dtype = data.draw(st.sampled_from(["float32", "float64", "int8", "complex64", None]))
    n = data.draw(PART)
    assert_same_bits_in_parts(n, smemkit.convert, x, dtype, device=device)
    with parts_of(n):
        assert_array_equal(smemkit.asarray(x, dtype=dtype, device=device).numpy(), x.astype(dtype or x.dtype))


@SETTINGS
@given(st.data())
def test_any_product(device, data):
    batch = data.draw(st.lists(st.integers(1, 4), max_size=2))
    m, k, n = (data.draw(st.one_of(st.integers(1, 9), st.sampled_from([31, 33, 64, 70, 130]))) for _ in range(3))
    shapes = [[*(data.draw(st.sampled_from([1, b])) for b in batch), *s] for s in ((m, k), (k, n))]
    dtype = data.draw(st.sampled_from(DTYPES))
    x, y = (with_layout(random(shape, dtype, i), data.draw(LAYOUT)) for i, shape in enumerate(shapes))
    assert_same_bits_in_parts(data.draw(PART), smemkit.matmul, x, y, device=device)


# ---- failures half-way ------------------------------------------------------------------------------------------

IN_PART = "out has been written in part"


@contextlib.contextmanager
def failing_allocation(n):
    _core.fail_allocation(n)
    yield
    _core.fail_allocation(0)


@pytest.mark.parametrize("part", [4000, 1 << 40])
def test_a_product_takes_fewer_columns_after_a_failed_allocation(device, part):
    x, y = random((70, 40), "float32", 0), random((40, 1024), "float32", 1)
    with parts_of(part):
        expected = smemkit.matmul(x, y, device=device)
        gc.collect()
        before = _core.allocations()
        for n in itertools.count(1):
            with failing_allocation(n):
                product = smemkit.matmul(x, y, device=device)
                failed = _core.fail_allocation(0) == 0
            assert _core.allocations() == before
            assert_array_equal(product, expected)
            if not failed:
                break
    assert n > 3


def fail_each_allocation(device, call, make_out, is_untouched):
    """Makes the first allocation of a call in parts fail, then the second, … until the call succeeds. Yields
    whether the message says that `out` has been written."""
    gc.collect()  # other tests' Arrays, which would be released at any time
    for n in itertools.count(1):
        out = make_out()
        allocations = _core.allocations()
        with failing_allocation(n), parts_of(4000):
            try:
                call(out)
            except smemkit.OutOfMemoryError as error:
                message = str(error)
            else:
                return
        assert _core.allocations() == allocations
        assert "for a test" in message
        assert (IN_PART in message) is not is_untouched(out)
        yield IN_PART in message


@pytest.mark.parametrize("out", OUTS)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.covering(1)
def test_out_of_memory_reports_partial_out(device, name, out):
    x = random((90, 70), "float32")
    like = CALLS[name](x, device=device)
    reported = list(
        fail_each_allocation(
            device,
            lambda target: CALLS[name](x, device=device, out=target),
            lambda: OUTS[out](like.shape, like.dtype),
            is_poison,
        )
    )
    assert reported[0] is False
    if not name.startswith("sum") and name != "transpose":  # these are small
        assert True in reported
    assert reported == sorted(reported)  # no later failure finds `out` unwritten again
    assert_array_equal(CALLS[name](x, device=device), like)


@pytest.mark.parametrize("name", OVERLAPPING_CALLS)
def test_overlapping_out_is_untouched_on_failure(device, name):
    original = random((70, 70), "float32")
    reported = list(
        fail_each_allocation(
            device,
            lambda x: OVERLAPPING_CALLS[name](x, device=device),
            original.copy,
            lambda x: np.array_equal(x, original),
        )
    )
    assert reported  # at least one has failed
    assert not any(reported)


def test_out_on_the_device_reports_partial_writes(device):
    x = random((90, 70), ">f4")
    reported = list(
        fail_each_allocation(
            device,
            lambda out: out.__setitem__(slice(None), x),
            lambda: on(device, poison((90, 70), "float32")),
            lambda out: is_poison(out.numpy()),
        )
    )
    assert reported


def test_errors_without_out_do_not_mention_it(device):
    x = random((90, 70), ">f4")
    calls = [
        lambda: smemkit.asarray(x, dtype="float64", device=device),
        lambda: smemkit.convert(x, device=device),
        lambda: smemkit.matmul(x, x.T, device=device),
    ]
    gc.collect()
    for call in calls:
        for n in itertools.count(1):
            allocations = _core.allocations()
            with failing_allocation(n), parts_of(1000):
                try:
                    call()
                    break
                except smemkit.OutOfMemoryError as error:
                    assert IN_PART not in str(error)
            assert _core.allocations() == allocations
        assert n > 3


CTRL_C = """
import numpy, signal, smemkit, sys
from smemkit import _core

device, n, k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores SIGINT
if device == "cpu":
    _core.set_part_bytes(1 << 14)
x = numpy.ones((n, k), numpy.float32)
out = numpy.full((n, n), numpy.nan, numpy.float32)
allocations = _core.allocations()
print("begins", flush=True)
try:
    smemkit.matmul(x, x.T, kernel="naive", out=out, device=device)
except KeyboardInterrupt as error:
    message = str(error)
    print("interrupted", flush=True)
assert _core.allocations() == allocations
done = ~numpy.isnan(out)
assert message == ("out has been written in part" if done.any() else "")
assert (out[done] == k).all()
assert not done.all()
assert smemkit.sum(x[:2], device=device) == 2 * k
assert (smemkit.matmul(x[:70], x[:70].T, device=device) == k).all()
print("goes on", flush=True)
"""


@pytest.mark.timeout(200)
def test_ctrl_c_ends_a_call_in_parts_and_the_next_one_works(device):
    sizes = ["3000", "4000"] if device == "cpu" else ["40000", "30000"]  # many seconds, on any machine
    command = [sys.executable, "-c", CTRL_C, device, *sizes]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tempfile.gettempdir()) as process:
        try:
            assert process.stdout.readline() == "begins\n"
            time.sleep(2 if device != "cpu" else times(2, 0.3))
            process.send_signal(signal.SIGINT)
            start = time.perf_counter()
            assert process.stdout.readline() == "interrupted\n"
            assert time.perf_counter() - start < 4
            assert process.stdout.readline() == "goes on\n"
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


# ---- threads, and times -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [(32 << 20) + 1, (77 << 20) + 4321])
@pytest.mark.covering(most=1)
def test_large_copies_at_once(device, n):
    """Copies of more bytes than pinned memory holds, with odd lengths."""
    hosts = [np.random.default_rng(seed).integers(0, 256, n, np.uint8) for seed in range(3)]

    def copy(i):
        for _ in range(times(2, 1)):
            assert np.array_equal(smemkit.asarray(hosts[i], device=device).numpy(), hosts[i])

    in_threads(len(hosts), copy)


def test_eight_threads_call_in_parts(device):
    scale = 1 if device == "cpu" else 40  # large enough for a GPU's copy pool
    x = [random((90 * scale, 70 * scale), "float32", i) for i in range(8)]
    calls = [
        lambda x, **o: smemkit.sum(x, device=device, **o),
        lambda x, **o: smemkit.sum(x, 0, device=device, **o),
        lambda x, **o: smemkit.transpose(x, device=device, **o),
        lambda x, **o: smemkit.matmul(x, x.T[:, :90], device=device, **o),
        lambda x, **o: smemkit.asarray(x, dtype="float64", device=device).numpy(),
        lambda x, **o: smemkit.convert(x[::-1, ::2], "int8", device=device, **o),
    ]
    with parts_of(WHOLE):
        expected = [[call(matrix) for call in calls] for matrix in x]

    def work(i):
        for iteration in range(4):
            for j in range(len(calls)):
                which = (i + j) % len(calls)
                assert_same_bits(calls[which](x[(i + iteration) % 8]), expected[(i + iteration) % 8][which])

    with parts_of(1000 if device == "cpu" else 0):
        in_threads(8, work)


@pytest.mark.parametrize("n", [1000, 1 << 15])
def test_timed_counts_the_parts(device, n):
    x = random((400, 300), "float32")
    with parts_of(n):
        for call in (smemkit.transpose, smemkit.sum, lambda x, **o: smemkit.matmul(x, x.T, **o)):
            _, timing = smemkit.timed(call, x, device=device)
            parts = timing.upload, timing.kernel, timing.download
            assert min(parts) > 0
            assert max(parts) <= 2 * timing.total  # a part's upload begins while the previous part is computed
            assert timing.overlap == max(0, sum(parts) - timing.total)


def test_timed_counts_the_parts_of_every_matrix(device):
    """Six matrices of four parts each: the pipeline's three slots start anew with each matrix."""
    a, b = random((6, 1024, 128), "float32"), random((6, 128, 128), "float32")
    with parts_of(256 * 128 * 4):
        (_, launches), timing = smemkit.timed(launches_of, smemkit.matmul, a, b, device=device)
    assert launches == 24
    assert timing.kernel <= timing.total
    assert timing.kernel >= 0.75 * timing.total or device != "cpu"


# ---- operands larger than GPU memory ----------------------------------------------------------------------------


@pytest.fixture
def ballast(device):
    """A function that fills the device's memory except for about one GiB."""
    kept = []

    def fill():
        smemkit.empty_cache(device)
        while (spare := smemkit.Device(device).free_bytes - (1 << 30)) > 1 << 28:
            kept.append(smemkit.empty(min(spare, 8 << 30), np.uint8, device=device))

    yield fill
    kept.clear()
    smemkit.empty_cache(device)


@pytest.fixture(scope="module")
def large():
    """2 GiB of numbers."""
    return np.random.default_rng(0).random((1 << 14, 1 << 15), np.float32)


LARGE = {
    "sum": lambda x, **o: smemkit.sum(x, **o),
    "sum of rows": lambda x, **o: smemkit.sum(x, 1, **o),
    "sum of columns": lambda x, **o: smemkit.sum(x, 0, **o),
    "argmax": lambda x, **o: smemkit.argmax(x, 1, **o),
    "transpose": lambda x, **o: smemkit.transpose(x, **o),
    "convert": lambda x, **o: smemkit.convert(x, np.float64, **o),
    "sum in three dimensions": lambda x, **o: smemkit.sum(x.reshape(64, 256, 1 << 15), (0, 2), **o),
    "middle": lambda x, **o: smemkit.sum(x.reshape(4, 1 << 17, 1 << 10), 1, **o),
}


@pytest.mark.alone
@GPU
@pytest.mark.parametrize("name", LARGE)
def test_operands_larger_than_gpu_memory(device, large, ballast, name):
    x, call = large, LARGE[name]
    expected = call(x, device=device)
    rows, columns = np.s_[:3], np.s_[-3:]
    if name == "transpose":
        assert_array_equal(expected[columns], x[:, columns].T)
    elif name == "sum of rows":
        np.testing.assert_allclose(expected[rows], x[rows].sum(1, dtype=np.float64), rtol=1e-6)
    elif name == "sum of columns":
        np.testing.assert_allclose(expected[columns], x[:, columns].sum(0, dtype=np.float64), rtol=1e-6)
    ballast()
    assert_same_bits(call(x, device=device), expected)


@pytest.mark.alone
@GPU
def test_products_larger_than_gpu_memory(device, ballast):
    rng = np.random.default_rng(0)
    a, b = rng.random((512, 20_000), np.float32), rng.random((20_000, 30_000), np.float32)  # b: 2.4 GB
    expected, transposed = smemkit.matmul(a, b, device=device), smemkit.matmul(b.T, a.T, device=device)
    some = a[:4].astype(np.float64) @ b[:, -50:].astype(np.float64)
    np.testing.assert_allclose(expected[:4, -50:], some, rtol=20_002 * 2.0**-24)
    np.testing.assert_allclose(transposed[-50:, :4], some.T, rtol=20_002 * 2.0**-24)
    ballast()
    assert_same_bits(smemkit.matmul(a, b, device=device), expected)
    assert_same_bits(smemkit.matmul(b.T, a.T, device=device), transposed)


@GPU
def test_unsplittable_calls_raise_out_of_memory(device, large, ballast):
    ballast()
    allocations = _core.allocations()
    with pytest.raises(smemkit.OutOfMemoryError, match=r"out of memory on cuda:0: \d+ bytes"):
        smemkit.add_one(large, device=device)
    assert _core.allocations() == allocations
    assert smemkit.sum(np.ones(10), device=device) == 10


@GPU
@pytest.mark.parametrize("shape", [(300, 200), (3000, 5000)], ids=str)
def test_pinned_memory(device, shape):
    torch = pytest.importorskip("torch")
    x = torch.empty(shape, dtype=torch.float32, pin_memory=True).numpy()
    x[...] = random(shape, "float32")
    pageable = x.copy()
    out = torch.empty(shape[::-1], dtype=torch.float32, pin_memory=True).numpy()
    for call in (
        lambda x, **o: smemkit.transpose(x, device=device, **o),
        lambda x, **o: smemkit.matmul(x.T[:, :700], x[:700], device=device)[: shape[1], : shape[1]],
        lambda x, **o: smemkit.sum(x, 0, device=device),
        lambda x, **o: smemkit.sum(x[:, ::-2], 1, device=device),
        lambda x, **o: smemkit.asarray(x, device=device).numpy(),
    ):
        assert_same_bits(call(x), call(pageable))
    for target in (out, out[:, ::-1]):
        out[...] = np.nan
        assert smemkit.transpose(x, out=target, device=device) is target
        assert_array_equal(target, pageable.T)
        out[...] = np.nan
        smemkit.transpose(pageable, out=target, device=device)
        assert_array_equal(target, pageable.T)


@GPU
def test_pinned_memory_may_change_after_the_call(device):
    torch = pytest.importorskip("torch")
    x = torch.empty((5000, 5000), dtype=torch.float32, pin_memory=True).numpy()
    for iteration in range(5):
        x[...] = iteration
        array = smemkit.asarray(x, device=device)
        x[...] = -1
        assert (array.numpy() == iteration).all()


@pytest.mark.alone
@GPU
@pytest.mark.parametrize("name", ["sum", "sum of columns", "transpose"])
def test_times_of_parts_on_a_gpu(device, large, name):
    LARGE[name](large, device=device)  # starts the copy pool's threads
    _, timing = smemkit.timed(LARGE[name], large, device=device)
    parts = timing.upload, timing.kernel, timing.download
    assert min(parts) > 0
    assert max(parts) <= timing.total
    assert sum(parts) >= 0.3 * timing.total
    if name == "transpose":  # uploads and downloads overlap
        assert timing.overlap > 0
        assert "overlapped" in str(timing)


@GPU
def test_parts_wait_for_memory_that_is_still_in_use(device):
    """The second part is small, and runs on the other stream, where nothing else waits for the product."""
    a, b = random((2100, 256), "float32"), random((256, 256), "float32", seed=1)
    expected, large = (
        smemkit.matmul(a, b, device=device),
        smemkit.asarray(random((4000, 4000), "float32"), device=device),
    )
    for _ in range(5):
        smemkit.matmul(large, large)  # released while it is computed: its memory is allocated next
        assert_same_bits(smemkit.matmul(a, b, device=device), expected)


@GPU
def test_overlapping_kernel_times_count_once(device):
    a = random((3000, 3000), "float32")
    array = smemkit.asarray(a, device=device)
    whole = min(smemkit.timed(smemkit.matmul, array, array)[1].kernel for _ in range(3))
    (_, launches), timing = smemkit.timed(launches_of, smemkit.matmul, a, a, device=device)
    assert launches > 2
    assert 0.7 * whole <= timing.kernel <= timing.total  # a kernel's waits count once
