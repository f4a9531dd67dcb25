"""The operators of Array: + - * /, comparisons and @, compared with NumPy's."""

import enum
import math
import operator
import re

import ml_dtypes  # noqa: F401  makes "bfloat16" a name of a dtype
import numpy as np
import pytest
from cases import DTYPES, expect_launches, integers, numbered, on
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

import smemkit
from smemkit import _core

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv]
EACH = pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARISONS], ids=lambda op: op.__name__)
INTEGERS = [dtype for dtype in DTYPES if np.dtype(dtype).kind in "biu"]
FLOATS = [dtype for dtype in DTYPES if np.dtype(dtype).kind in "fcV"]
SHAPES = [
    ((3, 4), (4,)),
    ((3, 1), (1, 4)),
    ((), (2, 3)),
    ((5, 1, 3), (4, 1)),
    ((0, 3), (3,)),
    ((1,), (0,)),
    ((), ()),
]


@pytest.fixture(autouse=True)
def quiet():
    """NumPy warns of divisions by zero and of NaN."""
    with np.errstate(all="ignore"):
        yield


def values(dtype, seed, shape=(3, 40)):
    """Integers of both signs, zeros among them; for complex dtypes in both parts."""
    x = integers(shape, dtype, seed)
    return (x + 1j * integers(shape, "int8", seed + 9)).astype(dtype) if x.dtype.kind == "c" else x


def with_number(op, x, y):
    """op(x, y) in NumPy, but bfloat16 with a Python float stays bfloat16, like every other float dtype."""
    narrow = [v for v in (x, y) if isinstance(v, np.ndarray) and v.dtype == "bfloat16"]
    if narrow:
        x, y = (narrow[0].dtype.type(v) if type(v) is float else v for v in (x, y))
    return op(x, y)


def check(actual, expected, fused=False):
    """Equal, of the same dtype and shape; NaN equals NaN, which NumPy does not see in bfloat16. `fused`: complex
    numbers may be rounded less often than NumPy does."""
    assert actual.dtype == expected.dtype
    if actual.dtype.kind == "c" and fused:
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=4 * np.finfo(actual.dtype).eps)
        return
    if expected.dtype == "bfloat16":
        actual, expected = actual.astype(np.float32), expected.astype(np.float32)
    assert_array_equal(actual, expected, strict=True)


def outcome(call):
    """The result of a call, or TypeError if it raises that."""
    try:
        return call()
    except TypeError:
        return TypeError


# ---- arrays with arrays -----------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_arrays_of_every_dtype(device, dtype, op):
    x = values(dtype, 1)
    for other in DTYPES:
        y = values(other, 2)
        a, b = on(device, x), on(device, y)
        try:
            np.promote_types(dtype, other)
        except TypeError:
            with pytest.raises(TypeError, match="x1, x2: "):
                op(a, b)
            continue
        expected = outcome(lambda y=y: op(x, y))
        if expected is TypeError:
            with expect_launches(0), pytest.raises(TypeError, match="subtract: expected a dtype other than bool"):
                op(a, b)
        else:
            fused = device != "cpu" and op is operator.truediv  # a GPU multiplies and adds in one instruction
            check(op(a, b).numpy(), expected, fused)


def test_negation(device):
    for dtype in DTYPES:
        x = values(dtype, 1)
        for view, expected in ((on(device, x), x), (on(device, x)[::-2, 3:], x[::-2, 3:])):
            if dtype == "bool":
                with pytest.raises(TypeError, match="negative: expected a dtype other than bool"):
                    operator.neg(view)
            else:
                assert_array_equal((-view).numpy(), -expected, strict=True)
                assert_array_equal(np.negative(view).numpy(), -expected, strict=True)
    zeros = -smemkit.zeros(3, device=device)
    assert np.signbit(zeros.numpy()).all()


@EACH
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_shapes_are_broadcast(device, shapes, op):
    x, y = (numbered(shape, np.float32) for shape in shapes)
    assert_array_equal(op(on(device, x), on(device, y)).numpy(), np.asarray(op(x, y)), strict=True)


@EACH
def test_views_take_one_launch(device, op):
    x = numbered((6, 6), np.float32)
    array = on(device, x)
    with expect_launches(1):
        result = op(array[::2, 1:4], array[::-2, ::2].T)
    assert_array_equal(result.numpy(), op(x[::2, 1:4], x[::-2, ::2].T), strict=True)
    with expect_launches(1):
        op(array, 2)
    with expect_launches(1):
        op(array, array[:, :1])
    with expect_launches(0):
        assert op(array[:0], array[:0]).shape == (0, 6)


def test_more_dimensions_than_the_kernel_takes(device):
    x = numbered((2, 3, 2, 3, 2, 3, 2, 3, 2), np.int32)
    array = on(device, x)
    odd, expected = array[::-1, ::2, :1, ::2, ::-1, :2, ::-1, ::2], x[::-1, ::2, :1, ::2, ::-1, :2, ::-1, ::2]
    with expect_launches(2):  # one makes it contiguous
        odd - 3
    for other, y in ((odd, expected), (odd[:, :1, :, :, :1], expected[:, :1, :, :, :1]), (3, 3)):
        assert_array_equal((odd - other).numpy(), expected - y, strict=True)
    odd *= odd
    assert_array_equal(array.numpy()[::-1, ::2, :1, ::2, ::-1, :2, ::-1, ::2], expected * expected, strict=True)


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_random_operands(data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=5, max_side=4)).input_shapes
    operands = []
    for shape in shapes:
        x = data.draw(hnp.arrays("int16", shape, elements=st.integers(-50, 50)))
        step = data.draw(st.sampled_from([slice(None), slice(None, None, -1), slice(None, None, 2)]))
        operands.append((x[(step,) * x.ndim], on("cpu", x)[(step,) * x.ndim]))
    (x, a), (y, b) = operands
    op = data.draw(st.sampled_from([operator.sub, operator.lt, operator.truediv]))
    expected = outcome_of_shapes(op, x, y)
    if expected is ValueError:
        with pytest.raises(ValueError, match="x1, x2: expected shapes that can be broadcast"):
            op(a, b)
    else:
        assert_array_equal(op(a, b).numpy(), np.asarray(expected), strict=True)


def outcome_of_shapes(op, x, y):
    try:
        return op(x, y)
    except ValueError:
        return ValueError


def test_shapes_that_cannot_be_broadcast(device):
    x = on(device, numbered((3, 4), np.float32))
    for op in (*ARITHMETIC, *COMPARISONS):
        with pytest.raises(
            ValueError, match=re.escape("x1, x2: expected shapes that can be broadcast, got (3, 4) and (4, 3)")
        ):
            op(x, x.T)


def test_complex_quotients_do_not_overflow(device):
    big = np.array([1e30 + 1e30j, 3e38 - 3e38j, 1e-30j, 0, 1], np.complex64)
    expected = big[:, None] / big
    assert_array_equal((on(device, big)[:, None] / on(device, big)).numpy(), expected, strict=True)


def test_products_wrap_around_as_in_numpy(device):
    for dtype in ("uint8", "int8", "uint16", "int16", "int32", "uint64"):
        x = np.array([np.iinfo(dtype).max, np.iinfo(dtype).min, np.iinfo(dtype).max - 1], dtype)
        for op in (operator.add, operator.sub, operator.mul):
            assert_array_equal(op(on(device, x)[:, None], on(device, x)).numpy(), op(x[:, None], x), strict=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_arithmetic_is_rounded_once(device, dtype):
    random = np.random.default_rng(3)
    x, y = (random.standard_normal(3000).astype(dtype) for _ in range(2))
    for op in ARITHMETIC:
        assert_array_equal(op(on(device, x), on(device, y)).numpy(), op(x, y), strict=True)


# ---- arrays with numbers ----------------------------------------------------------------------------------------

NUMBERS = [True, 2, 2.5, 2 + 1j, -1, math.nan, math.inf]
NUMPY_NUMBERS = [np.bool_(True), np.int8(3), np.uint8(1), np.float32(1.5), np.float64(1.5), np.complex64(1)]


@EACH
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.covering(1)
def test_numbers_on_both_sides(device, dtype, op):
    x = values(dtype, 1)
    array = on(device, x)
    for number in [*NUMBERS, *NUMPY_NUMBERS]:
        if number == -1 and np.dtype(dtype).kind == "u":
            continue  # which raises: see below
        for sides in ((0, 1), (1, 0)):
            ours, theirs = ([pair[i] for i in sides] for pair in ((array, number), (x, number)))
            expected = outcome(lambda theirs=theirs: with_number(op, *theirs))
            if expected is TypeError:
                with pytest.raises(TypeError, match="expected a dtype other than bool"):
                    op(*ours)
                continue
            result = op(*ours)
            assert isinstance(result, smemkit.Array)
            check(result.numpy(), expected, fused=device != "cpu")


def test_a_number_takes_no_memory_and_no_copy(device):
    x = on(device, numbered((100,), np.float32))
    before = _core.allocations()
    with expect_launches(1):
        y = x * 2
    assert _core.allocations() == before + 1
    assert_array_equal(y.numpy(), 2 * numbered((100,), np.float32))


def test_numbers_that_do_not_fit(device):
    x = smemkit.zeros(3, np.uint8, device=device)
    for op in ARITHMETIC[:3]:
        with pytest.raises(OverflowError, match="Python integer 300 out of bounds for uint8"):
            op(x, 300)
        with pytest.raises(OverflowError, match="Python integer -1 out of bounds for uint8"):
            op(-1, x)
    assert_array_equal((on(device, np.uint8([1, 2])) / 300).numpy(), np.uint8([1, 2]) / 300, strict=True)


@pytest.mark.parametrize("number", [300, -1, 128, -129, 2**31, 2**63, 2**64, -(2**63) - 1, 2**70, -(10**40)])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_number_beyond_the_dtype_is_compared_exactly(device, dtype, number):
    x = integers((5,), dtype)
    array = on(device, x)
    for op in COMPARISONS:
        assert_array_equal(op(array, number).numpy(), [op(int(v), number) for v in x])
        assert_array_equal(op(number, array).numpy(), [op(number, int(v)) for v in x])
        assert op(on(device, x[:0]), number).shape == (0,)


def test_comparison_with_an_integer_beyond_float_range(device):
    with pytest.raises(OverflowError):
        smemkit.zeros(3, device=device) == 10**400  # noqa: B015


def test_numbers_of_subclasses_count_as_their_values(device):
    class Number(enum.IntEnum):
        TWO = 2

    array = on(device, numbered((3,), "int32"))
    assert_array_equal((array == Number.TWO).numpy(), [False, True, False])
    assert_array_equal((array - Number.TWO).numpy(), [-1, 0, 1])


# ---- comparisons ------------------------------------------------------------------------------------------------


def test_signed_and_unsigned_integers_compare_exactly(device):
    near = [0, 1, 2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, -1, -(2**63), -(2**53) - 1]
    for name in ("int64", "int32", "int8"):
        limits = np.iinfo(name)
        signed = np.array([n for n in near if limits.min <= n <= limits.max], name)
        unsigned = np.array([n for n in near if n >= 0], np.uint64)
        a, b = on(device, signed[:, None]), on(device, unsigned)
        for op in COMPARISONS:
            assert_array_equal(op(a, b).numpy(), [[op(int(x), int(y)) for y in unsigned] for x in signed])
            assert_array_equal(op(b, a).numpy(), [[op(int(y), int(x)) for y in unsigned] for x in signed])
            for number in (np.uint64(2**63), np.uint64(1)):
                expected = [[op(int(number), int(x))] for x in signed]
                assert_array_equal(op(number, a).numpy(), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_zeros_compare_as_in_numpy(device, dtype):
    x = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 1], dtype)
    if x.dtype.kind == "c":
        x = np.concatenate([x, [complex(1, np.nan), complex(np.nan, 1), 1 + 1j, 1 - 1j]]).astype(dtype)
    array = on(device, x)
    for op in COMPARISONS:
        assert_array_equal(op(array[:, None], array).numpy(), op(x[:, None], x))
    assert np.nan not in array


def test_an_array_that_compares_by_element_has_no_hash(device):
    x, y = smemkit.zeros(3, device=device), smemkit.zeros(3, device=device)
    for use in (hash, lambda x: {x}, lambda x: {x: 1}):
        with pytest.raises(TypeError, match=r"unhashable type: 'smemkit.Array'"):
            use(x)
    assert bool((x == y)[0])
    with pytest.raises((TypeError, ValueError)):  # like NumPy: ambiguous for several elements
        bool(x == y)


# ---- in place ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.__name__)
def test_in_place(device, op):
    x = numbered((4, 4), np.float64)
    array = same = on(device, x)
    for index in (..., (0,), (slice(None), 1), (slice(None, None, -1),)):
        array, x = op(array, array[index]), op(x, x[index].copy())
        array, x = op(array, 3), op(x, 3)
        assert_array_equal(array.numpy(), x)
    array, x = op(array, array.T), op(x, x.T.copy())
    view, expected = array[1:, ::2], x[1:, ::2]
    op(view, 0.5), op(expected, 0.5)
    assert array is same
    assert_array_equal(array.numpy(), x)


def test_in_place_takes_no_memory(device):
    array = on(device, numbered((4, 4), np.float32))
    _core.fail_allocation(1)
    try:
        with expect_launches(2):
            array += array
            array *= 2
        assert _core.fail_allocation(0) == 1
    finally:
        _core.fail_allocation(0)
    assert_array_equal(array.numpy(), 4 * numbered((4, 4), np.float32))


def test_what_cannot_be_done_in_place(device):
    array = on(device, numbered((4, 4), np.int32))
    for wrong in (lambda: operator.iadd(array, 1.5), lambda: operator.itruediv(array, 2)):
        with pytest.raises(
            TypeError, match="out: expected dtype float64 or one that it can be cast to, got int32"
        ):
            wrong()
    with pytest.raises(ValueError, match=r"out: expected shape \(2, 4, 4\), got \(4, 4\)"):
        array += smemkit.zeros((2, 4, 4), np.int32, device=device)
    assert_array_equal(array.numpy(), numbered((4, 4), np.int32))


# ---- @ ----------------------------------------------------------------------------------------------------------


def test_products(device):
    x, y = numbered((3, 4), np.float32), integers((4, 2), np.int8)
    assert_array_equal((on(device, x) @ on(device, y)).numpy(), x @ y, strict=True)
    assert_array_equal((on(device, x).T @ on(device, x)).numpy(), x.T @ x, strict=True)
    assert (on(device, x[0]) @ on(device, x[0])).shape == ()
    with pytest.raises(ValueError, match="x1, x2: expected shapes"):
        on(device, x) @ on(device, x)
    square = same = on(device, numbered((4, 4), np.int32))
    square @= square
    assert square is same
    assert_array_equal(square.numpy(), numbered((4, 4), np.int32) @ numbered((4, 4), np.int32))


# ---- other operands ---------------------------------------------------------------------------------------------

MIXED = [*ARITHMETIC, *COMPARISONS, *IN_PLACE, operator.matmul, operator.imatmul]


@pytest.mark.parametrize("op", MIXED, ids=lambda op: op.__name__)
@pytest.mark.parametrize("shape", [(3, 3), (3,), (1,), (0, 3)], ids=str)
def test_operators_do_not_mix_with_numpy_arrays(device, op, shape):
    x, other = on(device, numbered((3, 3), np.float32)), numbered(shape, np.float32)
    for left, right in ((x, other), (other, x)):
        with expect_launches(0), pytest.raises(TypeError, match=r"asarray\(\) and \.numpy\(\) convert"):
            op(left, right)
    assert_array_equal(x.numpy(), numbered((3, 3), np.float32))
    assert_array_equal(other, numbered(shape, np.float32))


@pytest.mark.parametrize("op", MIXED, ids=lambda op: op.__name__)
def test_operators_reject_other_types(device, op):
    x = on(device, numbered((3, 3), np.float32))
    for other in ([[1.0] * 3] * 3, (1.0,), "a", None, object()):
        sides = [(x, other), (other, x)]
        if op is operator.iadd and isinstance(other, list):  # += appends the rows to it
            sides.pop()
        for operands in sides:
            with (
                expect_launches(0),
                pytest.raises(
                    TypeError,
                    match=r"unsupported operand|concatenate|not supported between|can be an index|[=!]=: exp",
                ),
            ):
                op(*operands)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
@pytest.mark.parametrize("op", MIXED, ids=lambda op: op.__name__)
def test_operators_stay_on_one_device(device, op):
    with pytest.raises(ValueError, match=r"on one device, got cuda:0 and cpu; \.to\(\) moves"):
        op(smemkit.zeros((3, 3), device=device), smemkit.zeros((3, 3), device="cpu"))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.subtract(np.ones(3), x, dtype=np.float32),
        lambda x: np.exp(x),
        lambda x: np.power(x, 2),
        lambda x: np.add.reduce(x),
        lambda x: np.negative(x, out=np.ones(3)),
        lambda x: np.add(x, x, dtype=np.float64),
        lambda x: np.add(np.ones(3), np.ones(3), out=x),
        lambda x: x.__array_ufunc__(np.add, "reduce", x, x),
        lambda x: x.__array_ufunc__(np.add, "__call__", x),
    ],
)
def test_other_ufuncs_refuse_an_array(device, call):
    with (
        expect_launches(0),
        pytest.raises(TypeError, match=r"numpy\.\w+: does not accept a smemkit.Array; asarray\(\) and \.numpy"),
    ):
        call(smemkit.zeros(3, device=device))
    with pytest.raises(TypeError, match="__array_ufunc__: expected a ufunc and a method"):
        smemkit.zeros(3, device=device).__array_ufunc__()


class DecidingOperand:
    """An object with its own == and `__array_ufunc__`."""

    def __eq__(self, other):
        return "equal"

    def __ne__(self, other):
        return "not equal"

    def __gt__(self, other):
        return "greater"

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return ufunc.__name__


class NotImplementedOperand(DecidingOperand):
    def __eq__(self, other):
        return NotImplemented


def test_comparison_defers_to_other_objects(device):
    x = on(device, numbered((3,), "int32"))
    assert (x == DecidingOperand(), x != DecidingOperand(), x < DecidingOperand()) == (
        "equal",
        "not equal",
        "greater",
    )
    assert (np.add(x, DecidingOperand()), np.hypot(x, DecidingOperand())) == ("add", "hypot")
    with pytest.raises(TypeError, match=r"==: expected an Array on .* or a number, got NotImplementedOperand"):
        x == NotImplementedOperand()  # noqa: B015


def test_the_extension_names_the_function_it_does_not_have():
    with pytest.raises(ValueError, match="function: expected a ufunc's name such as 'add', got 'power'"):
        _core.elementwise("power", np.ones(2), np.ones(2), None, "cpu", None)
