"""smemkit agrees with NumPy: random calls, tables of dtypes, and results that are known to the last bit.

calls.py draws the random calls and computes the expected results; fuzz.py runs more of them. This file also tests
calls.py: it must detect each of the CORRUPTIONS.
"""

import math
import types
import warnings
from random import Random

import calls
import numpy as np
import pytest
from calls import (
    DTYPES,
    FAMILIES,
    OPS_WITH_KERNEL,
    REDUCTIONS,
    Call,
    Layout,
    MismatchError,
    Operand,
    Out,
    Problem,
    cast,
)
from cases import each_kernel, expect_launches, integers, poison, refusal, rung_refuses, tf32
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from tiers import times

import smemkit

FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")


def bits(x):
    """The bytes of x, for comparisons that distinguish -0 from 0 and one NaN from another."""
    return np.ascontiguousarray(x).view(np.uint8)


# ---- random calls -----------------------------------------------------------------------------------------------


@st.composite
def random_calls(draw, rows, family):
    return calls.draw(lambda options: draw(st.sampled_from(options)), rows, family)


@pytest.mark.parametrize("family", FAMILIES)
@settings(
    max_examples=times(1000, 30),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_random_calls(device, family, data):
    call = data.draw(random_calls(calls.launchable(smemkit, device), family))
    call.verify(smemkit, device, calls.draw_fault(lambda options: data.draw(st.sampled_from(options))))


def problem(function, *shapes, dtype="float32", values="normal", form="array", **keywords):
    operands = (Operand(dtype, shape, values, seed, form) for seed, shape in enumerate(shapes))
    return Problem(function, tuple(operands), keywords)


SWAPPED = Out("bfloat16", (3,), Layout(swapped=True))
EDGE_CASES = {
    "out without elements": Call(problem("add_one", (3, 0), form="Array"), Out("float32", (3, 0))),
    "min over an empty axis, without results": Call(problem("min", (3, 0, 0), axis=-1)),
    "min over a nonempty axis, without results": Call(problem("min", (0, 3, 0), axis=1)),
    "complex mean of nothing": Call(problem("mean", (0, 3), dtype="complex64", axis=0)),
    "prod of nothing, byte-swapped": Call(problem("prod", (3, 0), dtype="bfloat16", axis=1), SWAPPED),
    "mean of nothing, byte-swapped": Call(problem("mean", (3, 0), dtype="bfloat16", axis=1), SWAPPED),
    "a rung along the last axis of a 0-d array": Call(problem("max", (), axis=-1, kernel="conflicting")),
}
EDGE_CASES["initial that wraps around, and that out does not hold"] = Call(
    Problem("sum", (Operand("float32", (7,), "natural"),), {"dtype": "uint32", "initial": np.int8(-1)}),
    Out("float32", ()),
)
for op, keywords in {"sum": {"initial": True}, "prod": {"initial": False}, "mean": {}}.items():
    x = (Operand("int8", (5, 7), "few"),)
    EDGE_CASES[f"{op} as bool"] = Call(Problem(op, x, {"dtype": "bool", "axis": 1, **keywords}))
for op in "sum", "prod", "mean":
    x = (Operand("int16", (5, 37), "extreme"),)
    EDGE_CASES[f"{op} that wraps around"] = Call(Problem(op, x, {"dtype": "int8", "axis": 1}))
for op in "sum", "prod":
    x = (Operand("int16", (5, 37), "extreme"),)
    EDGE_CASES[f"{op} that wraps around before out"] = Call(
        Problem(op, x, {"dtype": "int8"}), Out("complex128", ())
    )


@pytest.mark.parametrize("what", EDGE_CASES)
def test_edge_cases(device, what):
    EDGE_CASES[what].verify(smemkit, device)


# ---- every dtype ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", DTYPES)
@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.covering(most=40)
def test_matmul_promotes(device, first, second):
    operands = Operand(first, (2, 3), seed=1), Operand(second, (3, 2), seed=2)
    Call(Problem("matmul", operands)).verify(smemkit, device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("given", DTYPES)
@pytest.mark.covering(most=40)
def test_matmul_casts_to_dtype(device, given, dtype):
    operands = Operand(given, (2, 3), seed=1), Operand(given, (3, 2), seed=2)
    Call(Problem("matmul", operands, {"dtype": dtype})).verify(smemkit, device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.covering(1)
def test_reductions(device, op, dtype):
    x = Operand(dtype, (3, 37), "few", seed=1)
    for axis in (None, 0, 1):
        Call(Problem(op, (x,), {"axis": axis})).verify(smemkit, device)


@pytest.mark.parametrize("dtype", ["float64", "float16", "complex64", "int8"])
@pytest.mark.parametrize("op", ["var", "std"])
def test_degrees_of_freedom(device, op, dtype):
    x = Operand(dtype, (5, 37), seed=1)
    for axis in (None, 0, 1):
        for ddof in (0, 1, 1.5, 5, 37):  # 5 and 37 leave no degrees of freedom along an axis
            Call(Problem(op, (x,), {"axis": axis, "ddof": ddof})).verify(smemkit, device)


@each_kernel("reduce", dtypes=FLOATS + COMPLEX)
@pytest.mark.parametrize("op", ["argmin", "argmax"])
@pytest.mark.covering(1)
def test_argmin_and_argmax_return_the_first_nan(device, kernel, op):
    n = 300
    if rung_refuses(kernel, op, 1, 2):
        with refusal(kernel, op, 1, 2):
            kernel(integers((n, n), kernel.dtype), op, axis=1, device=device)
        return
    x = integers((n, n), kernel.dtype)
    x[np.triu_indices(n, 7)] = np.nan  # in row i from column i + 7 on
    expected = [*range(7, n), *getattr(np, op)(x[n - 7 :].astype(complex), axis=1)]
    assert_array_equal(kernel(x, op, axis=1, device=device), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("given", DTYPES)
@pytest.mark.parametrize("op", ["sum", "prod", "mean", "var", "std"])
@pytest.mark.covering(most=40)
def test_reductions_cast_to_dtype(device, op, given, dtype):
    if op in ("var", "std") and given in COMPLEX and dtype in FLOATS:
        pytest.skip("NumPy drops the imaginary part of the mean, but not of the elements")
    x = Operand(given, (3, 7), "natural", seed=1)
    for axis in (None, 0):
        Call(Problem(op, (x,), {"axis": axis, "dtype": dtype})).verify(smemkit, device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("given", DTYPES)
@pytest.mark.covering(most=40)
def test_casts(device, given, dtype):
    values = ["natural"]
    if given not in FLOATS + COMPLEX:
        values += ["extreme"] if given != "bool" else []
    elif dtype in FLOATS + COMPLEX:
        values += ["normal", "special"]
    for kind in values:
        x = Operand(given, (1009,), kind, seed=1)
        for function in FAMILIES["casts"]:
            Call(Problem(function, (x,), {"dtype": dtype})).verify(smemkit, device)


def test_casts_round_once(device):
    ulp = 2.0**-10
    x = 1 + ulp * np.array([0.5, 0.5 + 2.0**-20, 1.5 - 2.0**-20, 1.5])  # float32 rounds all of them to ties
    expected = 1 + ulp * np.array([0, 1, 1, 2])
    for sign in 1, -1:
        assert_array_equal(smemkit.convert(sign * x, np.float16, device=device), np.float16(sign * expected))
        assert_array_equal(smemkit.asarray(sign * x, dtype=np.float16, device=device).numpy(), sign * expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["matmul", "sum", "argmax", "transpose", "add_one"])
def test_out_takes_what_same_kind_casting_allows(device, op, dtype):
    for source in DTYPES:
        operands = (Operand(source, (3, 5), seed=1),) + (Operand(source, (5, 3), seed=2),) * (op == "matmul")
        problem = Problem(op, operands, {"axis": 0} if op in REDUCTIONS else {})
        Call(problem, Out(dtype, problem.answer.shape)).verify(smemkit, device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["transpose", "reverse", "add_one", "convert", "asarray"])
def test_every_layout_of_every_dtype(device, op, dtype):
    layouts = [
        Layout(order=(2, 1, 0)),
        Layout(order=(1, 2, 0)),
        Layout(steps=(1, 1, 2)),
        Layout(steps=(-1, 1, 1)),
        Layout(steps=(-2, 3, -1), leads=(1, 0, 2)),
        Layout(repeated=(False, True, False)),
        Layout(odd=True),
        Layout(swapped=True),
        Layout(order=(1, 0, 2), steps=(2, -1, -1), repeated=(True, False, False), odd=True, swapped=True),
        Layout(read_only=True),
    ]
    for layout in layouts:
        x = Operand(dtype, (5, 3, 7), "small", seed=1, layout=layout)
        Call(Problem(op, (x,))).verify(smemkit, device)


# ---- every computation launches a kernel ------------------------------------------------------------------------

COMPUTED = {
    "matmul": lambda x, device: smemkit.matmul(x, x.T, device=device),
    **{op: lambda x, device, op=op: getattr(smemkit, op)(x, axis=0, device=device) for op in REDUCTIONS},
    "transpose": lambda x, device: smemkit.transpose(x, device=device),
    "reverse": lambda x, device: smemkit.reverse(x, device=device),
    "add_one": lambda x, device: smemkit.add_one(x, device=device),
    "convert": lambda x, device: smemkit.convert(x, "complex128", device=device),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", COMPUTED)
@pytest.mark.covering(1)
def test_every_computation_launches_a_kernel(device, op, dtype):
    x = integers((8, 12), dtype)
    swapped = x.astype(x.dtype.newbyteorder("S")) if x.dtype.itemsize > 1 else x
    for view in x, x.T, x[::-2, ::3], swapped, x[:1, :1]:
        before = smemkit.launches()
        COMPUTED[op](view, device)
        assert smemkit.launches() > before, f"strides {view.strides}"


@pytest.mark.parametrize("op", COMPUTED)
def test_empty_operands_launch_nothing(device, op):
    with expect_launches(0):
        COMPUTED[op](np.ones((3, 0), np.float32), device)


# ---- exact, to the last bit -------------------------------------------------------------------------------------


def magnitudes(shape, dtype, seed=0):
    """Nonzero numbers of many magnitudes."""
    return calls.VALUES["wild"](np.random.default_rng(seed), shape, DTYPES[dtype])


def operand_without_rounding(kernel, shape):
    """Nonzero numbers of many magnitudes, with the bits that the kernel multiplies; for `wgmma_residues`, which
    rounds all numbers of a row alike, of one magnitude."""
    if kernel.row.name == "wgmma_residues" and not kernel.default:
        return np.random.default_rng(0).integers(1, 2**40, shape) * 2.0**-300
    x = magnitudes(shape, kernel.dtype)
    return tf32(x) if kernel.precision == "high" and kernel.dtype == "float32" else x


@each_kernel("matmul", dtypes=FLOATS + COMPLEX)
@pytest.mark.covering(1)
def test_the_identity_changes_no_bit(device, kernel):
    for shape in (1, 1), (7, 5), (33, 31), (65, 67):
        x = operand_without_rounding(kernel, shape)
        left, right = (np.eye(n, dtype=x.dtype) for n in shape)
        assert_array_equal(bits(kernel(x, right, device=device)), bits(x))
        assert_array_equal(bits(kernel(left, x, device=device)), bits(x))


@each_kernel("matmul", dtypes=FLOATS + COMPLEX)
@pytest.mark.covering
def test_a_permutation_moves_rows(device, kernel):
    x, order = operand_without_rounding(kernel, (37, 33)), np.random.default_rng(1).permutation(37)
    moves = np.eye(37, dtype=x.dtype)[order]
    assert_array_equal(bits(kernel(moves, x, device=device)), bits(x[order]))
    assert_array_equal(bits(kernel(x.T, moves.T, device=device)), bits(x[order].T))


@each_kernel("matmul", dtypes=FLOATS + COMPLEX)
@pytest.mark.covering
def test_powers_of_two_scale_exactly(device, kernel):
    a, b = (integers((35, 33), kernel.dtype) / 8).astype(kernel.dtype), magnitudes((33, 31), kernel.dtype, 1)
    c, four = kernel(a, b, device=device), np.asarray(4, kernel.dtype)
    assert_array_equal(bits(kernel(a * four, b / four, device=device)), bits(c))
    assert_array_equal(bits(kernel(a * four, b, device=device)), bits(c * four))


@each_kernel("matmul", dtypes=FLOATS + COMPLEX)
@pytest.mark.covering
def test_zeros_at_the_end_of_k_change_nothing(device, kernel):
    a, b = magnitudes((33, 31), kernel.dtype), magnitudes((31, 35), kernel.dtype, 1)
    c, kernels = kernel(a, b, device=device), smemkit.plan(kernel, a, b, device=device).kernels
    for more in (1, 2, 33):
        longer = np.hstack([a, np.zeros((33, more), a.dtype)]), np.vstack([b, np.zeros((more, 35), b.dtype)])
        if not kernel.default or smemkit.plan(kernel, *longer, device=device).kernels == kernels:
            assert_array_equal(kernel(*longer, device=device), c)


@each_kernel("matmul", dtypes=FLOATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.covering
def test_nonfinite_values_stay_in_their_row_and_column(device, kernel, bad):
    a, b = magnitudes((35, 34), kernel.dtype), magnitudes((34, 33), kernel.dtype, 1)
    clean = kernel(a, b, device=device)
    a[3, 5], b[33, 7] = bad, bad
    c = kernel(a, b, device=device)
    assert not np.isfinite(c[3]).any()
    assert not np.isfinite(c[:, 7]).any()
    c[3], c[:, 7] = clean[3], clean[:, 7]
    assert_array_equal(bits(c), bits(clean))


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "bool"])
@pytest.mark.parametrize("op", ["matmul", "sum", "transpose", "add_one"])
def test_only_the_elements_of_out_are_written(device, op, dtype):
    x = integers((6, 6), dtype)
    expected = {
        "matmul": lambda: cast(x.astype(int) @ x.astype(int), x.dtype),
        "sum": lambda: x.sum(axis=0, keepdims=True),
        "transpose": lambda: x.T,
        "add_one": lambda: x + (1 if dtype == "bool" else x.dtype.type(1)),
    }[op]()
    canvas = poison((20, 20), expected.dtype)
    out = canvas[3:15:2, 16:4:-2][: len(expected)]
    options = {"axis": 0, "keepdims": True} if op == "sum" else {}
    operands = (x, x) if op == "matmul" else (x,)
    assert getattr(smemkit, op)(*operands, **options, out=out, device=device) is out
    assert_array_equal(out, expected)
    out[...] = poison(out.shape, out.dtype)
    assert_array_equal(bits(canvas), bits(poison(canvas.shape, canvas.dtype)))


# ---- types, dtypes, bits and errors of NumPy --------------------------------------------------------------------


def outcome(module, call, device=None):
    """A call's result as type, dtype character, shape and bytes, or the base class of its exception."""
    options = {"device": device} if device else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call(module, options)
        except (TypeError, ValueError, OverflowError) as error:
            return next(kind for kind in (OverflowError, TypeError, ValueError) if isinstance(error, kind))
    values = (
        np.where(result != result, np.array(np.nan, result.dtype), result) if result.dtype.kind in "fc" else result
    )
    return type(result), result.dtype.char, result.shape, np.asarray(values).tobytes()  # all NaNs are equal


NEGATIVE_ZERO_SHAPES = [
    *((shape, axis) for shape in [(2, 3), (1, 3), (3, 1), (600, 70), (3, 4, 5)] for axis in (None, 0, 1, -1, ())),
    ((7,), None),
    ((70_000,), 0),
    ((0,), None),
    ((), None),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64", "complex128"])
def test_the_sign_of_a_sum_of_negative_zeros(device, dtype):
    for shape, axis in NEGATIVE_ZERO_SHAPES:
        x = np.full(shape, -0.0, dtype)
        if x.dtype.kind == "c":
            x.imag = -0.0
        for initial in ({}, {"initial": -0.0}, {"initial": 0.0}):
            call = lambda module, options: module.sum(x, axis, **initial, **options)  # noqa: B023, E731
            assert outcome(smemkit, call, device) == outcome(np, call), (shape, axis, initial)


@each_kernel("reduce", dtypes=("float32", "float64"))
def test_every_kernel_keeps_the_sign_of_zero(device, kernel):
    for n in (1, 5, 300, 5000):
        x = np.full((2, n), -0.0, kernel.dtype)
        for initial, negative in ((-0.0, True), (0.0, False), (None, False)):
            result = kernel(x, op="sum", axis=1, initial=initial, device=device)
            assert_array_equal(np.signbit(result), [negative] * 2)
        assert_array_equal(np.signbit(kernel(x, op="max", axis=1, device=device)), [True] * 2)


LONG = np.arange(1, 7, dtype=np.longlong).reshape(2, 3)
ULONG = LONG.astype(np.ulonglong)
LONG_LONG = {
    "sum": lambda m, o: m.sum(LONG, **o),
    "sum of unsigned": lambda m, o: m.sum(ULONG, 0, **o),
    "sum of swapped": lambda m, o: m.sum(LONG.astype(">q"), **o),
    "prod": lambda m, o: m.prod(LONG, 1, **o),
    "min": lambda m, o: m.min(LONG, **o),
    "max": lambda m, o: m.max(ULONG, **o),
    "argmax": lambda m, o: m.argmax(LONG, **o),
    "count_nonzero": lambda m, o: m.count_nonzero(LONG, 0, **o),
    "mean": lambda m, o: m.mean(LONG, **o),
    "any": lambda m, o: m.any(LONG, **o),
    "transpose": lambda m, o: m.transpose(LONG, **o),
    "matmul": lambda m, o: m.matmul(LONG, LONG.T, **o),
    "matmul with int64": lambda m, o: m.matmul(LONG.astype("l"), LONG.T, **o),
    "matmul with int32": lambda m, o: m.matmul(LONG, LONG.T.astype("i"), **o),
    "matmul with uint32": lambda m, o: m.matmul(LONG, LONG.T.astype("I"), **o),
    "matmul with uint64": lambda m, o: m.matmul(ULONG, LONG.T.astype("L"), **o),
    "matmul as longlong": lambda m, o: m.matmul(LONG.astype("l"), LONG.T.astype("l"), dtype="q", **o),
    "sum as longlong": lambda m, o: m.sum(LONG.astype("f"), dtype="q", **o),
    "sum as int64": lambda m, o: m.sum(LONG, dtype="l", **o),
    "sum of int64": lambda m, o: m.sum(LONG.astype("l"), **o),
    "sum of intc": lambda m, o: m.sum(LONG.astype(np.intc), **o),
    "sum of scalar": lambda m, o: m.sum(np.longlong(3), **o),
    "sum of nothing": lambda m, o: m.sum(LONG[:0], **o),
}


@pytest.mark.parametrize("what", LONG_LONG)
def test_longlong_is_preserved(device, what):
    assert outcome(smemkit, LONG_LONG[what], device) == outcome(np, LONG_LONG[what])


def test_array_of_longlong_is_preserved(device):
    x = smemkit.asarray(LONG, device=device)
    for result in (x, x.T, x + 1, x + x, x @ x.T, smemkit.add_one(x), x.copy(), x.reshape(3, 2), smemkit.sum(x)):
        assert (result.dtype.char, result.numpy().dtype.char) == ("q", "q")
    for _ in range(3):  # the second call finds the first in the launch cache
        assert smemkit.sum(smemkit.asarray(LONG.astype("l"), device=device)).dtype.char == "l"
        assert smemkit.sum(x).dtype.char == "q"
    assert smemkit.convert(LONG.astype("l"), "q", device=device).dtype.char == "q"
    assert x.astype("l").dtype.char == smemkit.zeros(2, "l", device=device).dtype.char == "l"
    assert smemkit.zeros(2, "Q", device=device).dtype.char == "Q"


INITIAL = [
    *(
        math.nan,
        math.inf,
        1e300,
        1.5,
        -0.0,
        300,
        -1,
        2**63,
        2**70,
        10**400,
        True,
        1j,
        "3",
        "x",
        b"1",
        [1],
        object(),
    ),
    *(np.float64("nan"), np.float64("inf"), np.float64(1e300), np.float32(1e30), np.float16(3), np.uint64(2**63)),
    *(np.int64(300), np.int64(-1), np.int8(-1), np.bool_(True), np.complex64(1j), np.str_("3"), np.longdouble(3)),
    *(np.array(300), np.array(1.5), np.array(np.nan), np.array([1]), np.array(2**63, np.uint64)),
]


@pytest.mark.parametrize("op", OPS_WITH_KERNEL)
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bfloat16"])
def test_initial_is_read_as_numpy_reads_it(device, op, dtype):
    x = np.ones(3, dtype)
    for initial in INITIAL:
        call = lambda module, options: getattr(module, op)(x, initial=initial, **options)  # noqa: B023, E731
        assert outcome(smemkit, call, device) == outcome(np, call), initial


EXACT_CALLS = {
    "transpose of no dimensions": lambda m, o: m.transpose(np.array(5.0), **o),
    "transpose of a scalar": lambda m, o: m.transpose(np.float64(5), **o),
    "transpose of a number": lambda m, o: m.transpose(5, **o),
    "transpose of a vector": lambda m, o: m.transpose(np.arange(3), **o),
    "initial 0": lambda m, o: m.prod(np.full(400, 10.0), initial=0, **o),
    "initial -0": lambda m, o: m.prod(np.full(400, 10.0), initial=-0.0, **o),
    "initial 0 of rows": lambda m, o: m.prod(np.full((3, 4000), 10.0), axis=1, initial=0, **o),
    "initial 0 of columns": lambda m, o: m.prod(np.full((4000, 3), -10.0, "f"), axis=0, initial=0, **o),
    "initial 0 and infinity": lambda m, o: m.prod([np.inf, 2.0], initial=0, **o),
    "initial infinity": lambda m, o: m.prod(np.full(400, 0.1), initial=-np.inf, **o),
    "NaN degrees of freedom": lambda m, o: m.var([1.0, 2, 3], ddof=np.nan, **o),
    "NaN degrees of freedom of rows": lambda m, o: m.std(np.ones((2, 40)), axis=1, ddof=np.nan, **o),
    "infinite degrees of freedom": lambda m, o: m.var([1.0, 2, 3], ddof=-np.inf, **o),
    "no degrees of freedom": lambda m, o: m.var([1.0, 2, 3], ddof=np.inf, **o),
    "mean of integers in out": lambda m, o: m.mean([1, 2], dtype=int, out=np.array(0.0), **o),
    "mean of int8 in out": lambda m, o: m.mean([100, 101], dtype="i1", out=np.array(0.0, "f"), **o),
    "mean of uint64 in out": lambda m, o: m.mean([1, 2], dtype="Q", out=np.array(0.0), **o),
    "mean as bool in out": lambda m, o: m.mean([1, 0, 3], dtype=bool, out=np.array(0.0), **o),
    "mean of floats as integers in out": lambda m, o: m.mean([1.5, 2.5], dtype=int, out=np.array(0j), **o),
    "mean as bool": lambda m, o: m.mean([1, 0, 3], dtype=bool, **o),
    "mean of integers into integers": lambda m, o: m.mean([1, 2], dtype="i1", out=np.array(0, "i8"), **o),
}


@pytest.mark.parametrize("what", EXACT_CALLS)
def test_type_dtype_and_bits_are_those_of_numpy(device, what):
    assert outcome(smemkit, EXACT_CALLS[what], device) == outcome(np, EXACT_CALLS[what])


@each_kernel("reduce", dtypes=("float64",), devices=("cpu",))
def test_ddof_of_every_kernel(device, kernel):
    x = np.arange(40.0).reshape(4, 10)
    if rung_refuses(kernel, "var", None, 2):
        with refusal(kernel, "var", None, 2):
            kernel(x, op="var", device=device)
        return
    for ddof in (0, 1, 10, 11, np.nan, np.inf, -np.inf):
        for axis in (None, 0, 1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = np.var(x, axis, ddof=ddof)
                result = kernel(x, op="var", axis=axis, ddof=ddof, device=device)
            assert_allclose(result, expected, rtol=1e-14)


def test_a_nan_as_ddof_does_not_warn(device):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(smemkit.var([1.0, 2], ddof=np.nan, device=device))


# ---- more than 32 bits ------------------------------------------------------------------------------------------


@pytest.mark.slow  # half a minute, 9 GiB
def test_more_elements_than_32_bits_count():
    x = np.zeros(2**31 + 9, np.int8)
    positions = [0, 2**31 - 1, 2**31, x.size - 1]
    x[positions] = [1, 2, 3, 4]
    result = smemkit.add_one(x, device="cpu")
    assert_array_equal(result[positions], [2, 3, 4, 5])
    result -= 1
    result[positions] = 0
    assert not result.any()


@pytest.mark.slow  # a quarter of a minute, 8 GiB
def test_offsets_of_more_than_32_bits():
    x = np.zeros((2**26 + 8, 4), np.complex128)[:, ::2].T  # untouched zeros take no memory; shape (2, 2**26 + 8)
    positions = (
        [0, 1, 0, 1, 0, 1],
        [0, 2**25 - 1, 2**25, 2**25, x.shape[1] - 1, x.shape[1] - 1],
    )  # up to byte 2**32 and beyond
    x[positions] = [1, 2, 3, 4, 5, 6]
    result = smemkit.convert(x, device="cpu")
    assert_array_equal(result[positions], [1, 2, 3, 4, 5, 6])
    result[positions] = 0
    assert not result.any()


# ---- calls.py finds wrong results -------------------------------------------------------------------------------


class FakeArray:
    """A fake smemkit.Array."""

    def __init__(self, x):
        self.x, self.shape, self.dtype = x.copy(), x.shape, x.dtype

    def numpy(self):
        return self.x.copy()


def fake(call, spoil):
    """A fake smemkit, whose function returns the right answer to `call`, changed by `spoil`."""
    state = types.SimpleNamespace(launches=0, operands=(), out=None)

    def function(*operands, out=None, **keywords):
        answer, state.operands, state.out = call.answer, operands, out
        if answer.errors:
            result = answer.errors[0]("as it has to")
        else:
            state.launches += all(0 not in operand.shape for operand in call.problem.operands)
            for text in answer.warnings:
                warnings.warn(text, RuntimeWarning, stacklevel=1)
            result = answer.rounded()
            if out is not None:
                out[...] = result
                result = out
        result = spoil(result, state)
        if isinstance(result, Exception):
            raise result
        return result

    return types.SimpleNamespace(
        Array=FakeArray,
        asarray=lambda x, device: FakeArray(x),
        launches=lambda: state.launches,
        **{call.problem.function: function},
    )


def changed(by):
    """Changes one element of the result."""

    def spoil(result, state):
        result = np.array(result)
        result.flat[result.size // 2] = by(result.flat[result.size // 2])
        return result[()]

    return spoil


def ulps(n):
    return changed(lambda x: x + n * np.spacing(x))


def written(write):
    """Changes something other than the result."""

    def spoil(result, state):
        write(state)
        return result

    return spoil


def launched(n):
    return written(lambda state: setattr(state, "launches", state.launches + n))


def write_gap(state):
    """Writes to a gap between the elements of `out`."""
    out = state.out
    np.ndarray(1, out.dtype, out.base, out.itemsize)[...] = 1


SUM, PRODUCT = Call(problem("sum", (7, 31), axis=1)), Call(problem("matmul", (5, 33), (33, 7)))
INTEGER_SUM = Call(problem("sum", (7, 31), dtype="int8", values="small"))
CALL_WITH_STRIDED_OUT = Call(problem("add_one", (5,)), Out("float32", (5,), Layout(steps=(2,))))
SPECIAL = Call(problem("max", (31, 7), values="special", axis=0))
TIES = Call(problem("argmin", (2, 31), dtype="int8", values="few", axis=1))
TRANSPOSED = Call(problem("transpose", (3, 5, 7)))
INVALID_AXIS = Call(problem("sum", (3,), axis=5))
EMPTY_MEAN = Call(problem("mean", (0, 3), axis=0))
WRONG_OUT_SHAPE = Call(problem("add_one", (3,)), Out("float32", (4,)))
VARIANCE = Call(problem("var", (257,), values="shifted"))
CORRUPTIONS = {
    "an ulp of a sum": (SUM, ulps(1)),
    "an ulp of a sum in float64": (Call(problem("sum", (9, 3), dtype="float64", axis=0)), ulps(1000)),
    "an ulp of a sum in float16": (Call(problem("sum", (9, 3), dtype="float16", axis=0)), ulps(1)),
    "an ulp of a sum in bfloat16": (Call(problem("sum", (9, 3), dtype="bfloat16", axis=0)), ulps(1)),
    "an ulp of a complex sum": (
        Call(problem("sum", (9, 3), dtype="complex64", axis=0)),
        changed(lambda z: z + 1j * np.spacing(z.imag)),
    ),
    "an element of a sum": (SUM, changed(lambda x: x - np.float32(0.5))),
    "a sum too large by one": (INTEGER_SUM, changed(lambda x: x + 1)),
    "an element of a product": (PRODUCT, changed(lambda x: x - np.float32(0.01))),
    "ulps of a mean": (Call(problem("mean", (31,))), ulps(1)),
    "ulps of a product": (Call(problem("prod", (31,), values="factors")), ulps(1)),
    "the divisor of a variance": (VARIANCE, changed(lambda x: x * np.float32(257 / 256))),
    "an ulp of a variance": (VARIANCE, ulps(1)),
    "an ulp of a deviation": (Call(problem("std", (31,))), ulps(1)),
    "a lost NaN": (SPECIAL, lambda r, state: np.nan_to_num(r)),
    "a wrong NaN": (SUM, changed(lambda x: np.nan)),
    "a wrong infinity": (SUM, changed(lambda x: np.inf)),
    "the index of the last minimum": (TIES, lambda r, state: 30 - np.argmin(state.operands[0][:, ::-1], axis=1)),
    "axes in the wrong order": (TRANSPOSED, lambda r, state: np.ascontiguousarray(r.transpose(2, 0, 1))),
    "the wrong dtype": (SUM, lambda r, state: r.astype(np.float64)),
    "the wrong byte order": (SUM, lambda r, state: r.astype(">f4")),
    "an integer not widened": (INTEGER_SUM, lambda r, state: r.astype(np.int32)),
    "an extra axis": (SUM, lambda r, state: r[None]),
    "a 0-d array instead of a scalar": (INTEGER_SUM, lambda r, state: np.asarray(r)),
    "a scalar instead of an array": (SUM, lambda r, state: r[0]),
    "a subclass": (SUM, lambda r, state: r.view(calls.Tagged)),
    "an Array instead of a NumPy array": (SUM, lambda r, state: FakeArray(r)),
    "a view that is not contiguous": (TRANSPOSED, lambda r, state: np.array(r, order="F")),
    "a copy of out returned": (CALL_WITH_STRIDED_OUT, lambda r, state: r.copy()),
    "a gap of out written": (CALL_WITH_STRIDED_OUT, written(write_gap)),
    "an operand written": (SUM, written(lambda state: state.operands[0].fill(0))),
    "an operand written, not out": (CALL_WITH_STRIDED_OUT, written(lambda state: state.operands[0].fill(0))),
    "out written in an invalid call": (WRONG_OUT_SHAPE, written(lambda state: state.out.fill(0))),
    "an error of a valid call": (SUM, lambda r, state: ValueError("no")),
    "a result of an invalid call": (INVALID_AXIS, lambda r, state: np.float32(1)),
    "the wrong exception": (INVALID_AXIS, lambda r, state: TypeError("no")),
    "ValueError instead of AxisError": (INVALID_AXIS, lambda r, state: ValueError("no")),
    "a crash": (INVALID_AXIS, lambda r, state: RuntimeError("no")),
    "a launch before an error": (INVALID_AXIS, launched(1)),
    "no launch": (SUM, launched(-1)),
    "a launch without elements": (EMPTY_MEAN, launched(1)),
    "a warning": (SUM, written(lambda state: warnings.warn("Mean of empty slice.", RuntimeWarning, 2))),
}


@pytest.mark.parametrize("what", CORRUPTIONS)
def test_verification_detects(what):
    call, spoil = CORRUPTIONS[what]
    call.verify(fake(call, lambda result, state: result), "cpu")  # the unchanged answer passes
    with pytest.raises(MismatchError):
        call.verify(fake(call, spoil), "cpu")


def test_verification_detects_a_missing_warning():
    EMPTY_MEAN.verify(fake(EMPTY_MEAN, lambda result, state: result), "cpu")
    silent = fake(Call(problem("sum", (0, 3), axis=0)), lambda result, state: np.full(3, np.nan, np.float32))
    silent.mean = silent.sum
    with pytest.raises(MismatchError, match="warnings"):
        EMPTY_MEAN.verify(silent, "cpu")


def test_verification_detects_a_written_device_operand():
    call = Call(Problem("sum", (Operand("float32", (3,), form="Array"),)))
    module = fake(call, lambda result, state: FakeArray(np.asarray(result)))
    call.verify(module, "cpu")
    module = fake(call, lambda result, state: state.operands[0].x.fill(0) or FakeArray(np.asarray(result)))
    with pytest.raises(MismatchError, match="an operand was written"):
        call.verify(module, "cpu")


def test_call_repr_is_reproducible():
    for seed in range(50):
        call = calls.draw(Random(seed).choice, None)
        assert repr(eval(repr(call), vars(calls) | {"nan": np.nan, "inf": np.inf})) == repr(call)


def test_calls_of_every_kind_are_drawn():
    drawn = [calls.draw(Random(seed).choice, None) for seed in range(3000)]
    operands = [operand for call in drawn for operand in call.problem.operands]
    assert {call.problem.op for call in drawn} == {op for family in FAMILIES.values() for op in family}
    assert {operand.dtype for operand in operands} == set(DTYPES)
    assert {operand.values for operand in operands} == set(calls.VALUES)
    assert {"array", "list", "scalar", "number", "Tagged", "Boxed", "Array"} == {x.form for x in operands}
    assert {len(operand.shape) for operand in operands} >= {0, 1, 2, 3, 4, 5}
    assert {error for call in drawn for error in call.answer.errors} == {
        OverflowError,
        TypeError,
        ValueError,
        np.exceptions.AxisError,
    }
    layouts = [operand.layout for operand in operands]
    for feature in "order", "steps", "leads", "repeated", "odd", "swapped", "read_only":
        assert sum(bool(getattr(layout, feature)) for layout in layouts) > 100, feature
    outs = [call.out for call in drawn if call.out and not call.answer.errors]
    assert sum(out.overlap is not None for out in outs) > 30
    assert sum(out.layout != calls.PLAIN for out in outs) > 100
    assert sum(bool(call.answer.warnings) for call in drawn) > 5
