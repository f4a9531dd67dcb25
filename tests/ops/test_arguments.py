"""Every rejected call names the argument, what was expected and what it got. It launches nothing and leaves
`out` unchanged."""

import re

import numpy as np
import pytest
from cases import DTYPE, DTYPES, expect_launches, is_poison, on, poison
from numpy.testing import assert_array_equal

import smemkit
from smemkit import _core

PRECISIONS = "expected 'highest', 'high', 'medium' or None"
X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(6, dtype=np.float32).reshape(3, 2)
VALID_CALLS = {  # valid operands, and the shape of `out`
    "matmul": ((X, Y), (2, 2)),
    "reduce": ((X,), ()),
    "transpose": ((X,), (3, 2)),
    "reverse": ((X[0],), None),
    "add_one": ((X,), (2, 3)),
    "convert": ((X,), (2, 3)),
}
KERNELS = {op: ", ".join(f"'{row.name}'" for row in smemkit.kernels(op)) for op in VALID_CALLS}
SIZES = {row.op: sorted(row.sizes) for row in smemkit.kernels() if row.name in ("tiled", "tree", "padded")}
AXIS_ERROR = np.exceptions.AxisError
OPS = "'sum', 'prod', 'min', 'max', 'mean', 'var', 'std', 'any', 'all', 'argmin', 'argmax' or 'count_nonzero'"
SHAPES = "x1, x2: expected shapes (..., m, k) and (..., k, n), got "


def read_only(shape):
    x = poison(shape, np.float32)
    x.flags.writeable = False
    return x


OPERANDS = [
    ("matmul", (X, X), ValueError, SHAPES + "(2, 3) and (2, 3)"),
    ("matmul", (X[0], X[:, 0]), ValueError, SHAPES + "(3,) and (2,)"),
    ("matmul", (X, 2.0), ValueError, SHAPES + "(2, 3) and ()"),
    ("matmul", (2.0, X), ValueError, SHAPES + "() and (2, 3)"),
    (
        "matmul",
        (np.ones((2, 2, 3)), np.ones((3, 3, 2))),
        ValueError,
        "x1, x2: expected batches that can be broadcast, got (2, 2, 3) and (3, 3, 2)",
    ),
    ("matmul", (X, None), TypeError, "x2: " + DTYPE + "object"),
    ("matmul", (X.astype("bfloat16"), Y.astype("float16")), TypeError, "x1, x2: The DTypes"),
    ("matmul", (X.astype("g"), Y), TypeError, "x1: " + DTYPE + "float128"),
    ("reduce", ("text",), TypeError, "x: " + DTYPE + "<U4"),
    ("reduce", ([[1, 2], [3]],), ValueError, "x: setting an array element with a sequence"),
    ("reduce", (np.ma.masked_equal(X, 2),), TypeError, "x: expected an array without a mask, got"),
    ("transpose", (np.array(["2026-11-21"], "M8[D]"),), TypeError, "x: " + DTYPE + "datetime64[D]"),
    ("reverse", (None,), TypeError, "x: " + DTYPE + "object"),
    ("add_one", (np.zeros(3, "f4,i4"),), TypeError, "x: " + DTYPE + "[('f0'"),
]

KEYWORDS = [
    ("matmul", "dtype", "int32", TypeError, "x1: expected a dtype that can be cast to int32, got float32"),
    ("matmul", "dtype", ">f4", TypeError, "dtype: " + DTYPE + ">f4"),
    ("matmul", "dtype", "nope", TypeError, "dtype: data type 'nope' not understood"),
    (
        "matmul",
        "precision",
        "low",
        ValueError,
        f"precision: {PRECISIONS}, got 'low'",
    ),
    ("matmul", "precision", 3, ValueError, f"precision: {PRECISIONS}, got 3"),
    ("matmul", "tile", 7, ValueError, f"tile: expected one of {SIZES['matmul']} for kernel 'tiled', got 7"),
    ("matmul", "tile", -1, ValueError, f"tile: expected one of {SIZES['matmul']} for kernel 'tiled', got -1"),
    ("matmul", "tile", 2**80, ValueError, f"{SIZES['matmul']} for kernel 'tiled', got {2**80}"),
    ("matmul", "tile", 16.0, TypeError, "tile: expected an integer or None, got float"),
    ("matmul", "tile", "16", TypeError, "tile: expected an integer or None, got str"),
    ("matmul", "tile", True, TypeError, "tile: expected an integer or None, got bool"),
    ("transpose", "tile", False, TypeError, "tile: expected an integer or None, got bool"),
    ("transpose", "pad", True, TypeError, "pad: expected an integer or None, got bool"),
    ("transpose", "pad", np.bool_(True), TypeError, "pad: expected an integer or None, got numpy.bool"),
    ("reduce", "block_size", True, TypeError, "block_size: expected an integer or None, got bool"),
    ("reduce", "block_size", 48, ValueError, f"expected one of {SIZES['reduce']} for kernel 'tree', got 48"),
    ("reduce", "op", "product", ValueError, f"op: expected {OPS}, got 'product'"),
    ("reduce", "op", None, ValueError, f"op: expected {OPS}, got None"),
    ("reduce", "axis", 2, AXIS_ERROR, "axis: axis 2 is out of bounds for array of dimension 2"),
    ("reduce", "axis", -(2**70), AXIS_ERROR, f"axis: axis {-(2**70)} is out of bounds for array of dimension 2"),
    ("reduce", "axis", (0, 2**70), AXIS_ERROR, f"axis: axis {2**70} is out of bounds for array of dimension 2"),
    ("transpose", "axes", (0, 2**70), AXIS_ERROR, f"axes: axis {2**70} is out of bounds for array of dimension 2"),
    ("reduce", "axis", (0, -3), AXIS_ERROR, "axis: axis -3 is out of bounds for array of dimension 2"),
    ("reduce", "axis", (0, -2), ValueError, "axis: expected each axis once, got (0, -2)"),
    ("reduce", "axis", "x", TypeError, "axis: expected an integer, got 'x'"),
    ("reduce", "axis", 1.0, TypeError, "axis: expected an integer, got 1.0"),
    ("reduce", "axis", True, TypeError, "axis: expected an integer, got True"),
    ("reduce", "axis", [0, 1], TypeError, "axis: expected an integer, got [0, 1]"),
    ("reduce", "keepdims", "yes", TypeError, "keepdims: expected True or False, got 'yes'"),
    ("reduce", "keepdims", None, TypeError, "keepdims: expected True or False, got None"),
    ("reduce", "initial", "x", ValueError, "initial: could not convert string to float: 'x'"),
    ("reduce", "initial", [1, 2], ValueError, "initial: setting an array element with a sequence"),
    ("reduce", "ddof", 1, TypeError, "ddof: 'sum' takes none, expected 0, got 1"),
    ("reduce", "ddof", np.nan, TypeError, "ddof: 'sum' takes none, expected 0, got nan"),
    ("reduce", "ddof", "x", TypeError, "ddof: expected a number, got 'x'"),
    ("reduce", "ddof", None, TypeError, "ddof: expected a number, got None"),
    ("reduce", "dtype", "object", TypeError, "dtype: " + DTYPE + "object"),
    ("transpose", "axes", (1, 0, 2), ValueError, "axes: expected 2 axes, one for each dimension, got (1, 0, 2)"),
    ("transpose", "axes", (0,), ValueError, "axes: expected 2 axes, one for each dimension, got (0,)"),
    ("transpose", "axes", (2, 0), AXIS_ERROR, "axes: axis 2 is out of bounds for array of dimension 2"),
    ("transpose", "axes", (1, -1), ValueError, "axes: expected each axis once, got (1, -1)"),
    ("transpose", "axes", "ab", TypeError, "axes: expected an integer, got 'a'"),
    ("transpose", "tile", 64, ValueError, f"expected one of {SIZES['transpose']} for kernel 'padded', got 64"),
    ("transpose", "pad", 5, ValueError, "pad: expected one of [0, 1, 2, 3, 4] for kernel 'padded', got 5"),
    *(
        (op, "kernel", value, error, f"kernel: expected {what}")
        for op in ("matmul", "reduce", "transpose", "reverse")
        for value, error, what in (
            ("nope", ValueError, f"one of {KERNELS[op]} for {op}, got 'nope'"),
            (3, TypeError, "the name of a kernel or None, got int"),
        )
    ),
    *(
        (op, "device", value, error, f"device: expected {what}")
        for op in VALID_CALLS
        for value, error, what in (
            ("gpu", ValueError, "'cpu', 'cuda' or 'cuda:N', got 'gpu'"),
            ("cuda:", ValueError, "'cpu', 'cuda' or 'cuda:N', got 'cuda:'"),
            ("cuda:0x", ValueError, "'cpu', 'cuda' or 'cuda:N', got 'cuda:0x'"),
            (3, TypeError, "a name such as 'cuda:0' or a Device, got int"),
        )
    ),
    *(
        (op, "device", "cuda:99", smemkit.NoDeviceError, "device: 'cuda:99' is not available: ")
        for op in VALID_CALLS
    ),
]

SAME_KIND = "out: expected dtype float32 or one that it can be cast to, got "
OUTS = [
    ("matmul", np.zeros((2, 3), np.float32), ValueError, "out: expected shape (2, 2), got (2, 3)"),
    ("matmul", np.zeros((1, 2, 2), np.float32), ValueError, "out: expected shape (2, 2), got (1, 2, 2)"),
    ("matmul", np.zeros((2, 2), np.int32), TypeError, SAME_KIND + "int32"),
    ("matmul", np.zeros((2, 2), bool), TypeError, SAME_KIND + "bool"),
    ("matmul", np.zeros((2, 2), object), TypeError, SAME_KIND + "object"),
    ("matmul", read_only((2, 2)), ValueError, "out: expected a writeable array, got one that is read-only"),
    (
        "matmul",
        [0],
        TypeError,
        "out: expected a numpy.ndarray like the operands, got list; asarray()",
    ),
    ("reduce", np.zeros(1, np.float32), ValueError, "out: expected shape (), got (1,)"),
    ("reduce", np.zeros((), np.int64), TypeError, SAME_KIND + "int64"),
    ("reduce", np.float32(0), TypeError, "out: expected a numpy.ndarray like the operands, got numpy.float32"),
    ("transpose", np.zeros((2, 3), np.float32), ValueError, "out: expected shape (3, 2), got (2, 3)"),
    ("transpose", np.zeros((3, 2), np.uint32), TypeError, SAME_KIND + "uint32"),
    ("add_one", np.zeros(6, np.float32), ValueError, "out: expected shape (2, 3), got (6,)"),
]


def named(cases):
    """The cases, with ids that consist of the argument and its value."""
    return [pytest.param(*case, id="-".join(str(part) for part in case[:-2])) for case in cases]


def refused(error, message, op, operands, /, **keywords):
    """Calls the op with a poisoned `out` if it has one, and checks the error message."""
    shape = VALID_CALLS[op][1]
    if shape is not None:
        keywords.setdefault("out", poison(shape, np.float32))
    before = np.array(keywords.get("out"))
    with expect_launches(0), pytest.raises(error, match=re.escape(message)) as caught:
        getattr(smemkit, op)(*operands, **keywords)
    assert caught.type is error
    if shape is not None:
        assert_array_equal(keywords["out"], before)


@pytest.mark.parametrize("op", VALID_CALLS)
def test_valid_calls_pass(device, op):
    operands, shape = VALID_CALLS[op]
    out = {} if shape is None else {"out": poison(shape, np.float32)}
    with expect_launches(1):
        result = getattr(smemkit, op)(*operands, device=device, **out)
    assert not np.isnan(result).any()


@pytest.mark.parametrize(("op", "operands", "error", "message"), named(OPERANDS))
def test_operands(device, op, operands, error, message):
    refused(error, message, op, operands, device=device)


@pytest.mark.parametrize(("op", "name", "value", "error", "message"), named(KEYWORDS))
def test_keywords(device, op, name, value, error, message):
    refused(error, message, op, VALID_CALLS[op][0], **{"device": device, name: value})


@pytest.mark.parametrize(("op", "out", "error", "message"), named(OUTS))
def test_outs(device, op, out, error, message):
    refused(error, message, op, VALID_CALLS[op][0], device=device, out=out)


@pytest.mark.parametrize("op", VALID_CALLS)
def test_the_cpu_has_no_streams(op):
    message = "stream: the CPU device has no streams, expected None"
    refused(ValueError, message, op, VALID_CALLS[op][0], device="cpu", stream=1)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_invalid_stream_is_rejected(device):
    message = "stream: expected an integer or an object with __cuda_stream__, got str"
    refused(TypeError, message, "reduce", (X,), device=device, stream="1")


@pytest.mark.parametrize("op", ["min", "max"])
def test_min_and_max_of_empty_input_are_rejected(device, op):
    message = f"x: expected at least one element for '{op}', got none"
    refused(ValueError, message, "reduce", (X[:0],), op=op, device=device)


@pytest.mark.parametrize(
    "row", [r for r in smemkit.kernels() if r.op in SIZES and not r.sizes], ids=lambda r: r.file
)
def test_a_kernel_without_sizes_refuses_them(row):
    message = f"{row.size_name}: kernel '{row.name}' has none, expected None, got 32"
    refused(
        ValueError, message, row.op, VALID_CALLS[row.op][0], kernel=row.name, device="cpu", **{row.size_name: 32}
    )


def test_a_kernel_without_pads_refuses_them(device):
    message = "pad: kernel 'unpadded' has none, expected None, got 1"
    refused(ValueError, message, "transpose", (X,), kernel="unpadded", pad=1, device=device)


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_rungs_reject_other_precisions(device, precision):
    message = f"precision: kernel 'tiled' has its own, expected 'highest', got '{precision}'"
    refused(ValueError, message, "matmul", (X, Y), precision=precision, kernel="tiled", device=device)
    refused(ValueError, message, "matmul", (X, Y), precision=precision, tile=16, device=device)


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
@pytest.mark.parametrize("kernel", ["mma", "mma_large", "tiled"])
def test_precision_concerns_float32_only(device, precision, kernel):
    x, y = X.astype(np.float16), Y.astype(np.float16)
    result = smemkit.matmul(x, y, precision=precision, kernel=kernel, device=device)
    np.testing.assert_array_equal(result, x @ y)


@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_kernels_of_tensor_cores_reject_other_precisions(device, precision):
    message = f"precision: kernel 'mma_large' has its own, expected 'high', got '{precision}'"
    refused(ValueError, message, "matmul", (X, Y), precision=precision, kernel="mma_large", device=device)


@pytest.mark.parametrize("op", ["any", "all", "argmin", "argmax", "count_nonzero"])
def test_ops_with_fixed_dtype_reject_dtype(device, op):
    message = f"dtype: '{op}' takes none, expected None, got 'float64'"
    refused(TypeError, message, "reduce", (X,), op=op, dtype="float64", device=device)


@pytest.mark.parametrize("op", ["mean", "var", "std", "any", "all", "argmin", "argmax", "count_nonzero"])
def test_ops_without_initial_reject_it(device, op):
    message = f"initial: '{op}' takes none, expected None, got 1"
    refused(TypeError, message, "reduce", (X,), op=op, initial=1, device=device)


@pytest.mark.parametrize("op", ["var", "std"])
def test_variance_rejects_integer_dtype(device, op):
    message = "dtype: expected dtype float16, bfloat16, float32, float64, complex64 or complex128, got int64"
    refused(TypeError, message, "reduce", (X,), op=op, dtype="int64", device=device)


@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_argmin_rejects_several_axes(device, op):
    message = "axis: expected None or an integer, got (0, 1)"
    refused(TypeError, message, "reduce", (X,), op=op, axis=(0, 1), device=device)


@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_argmin_rejects_float_out(device, op):
    message = "out: expected dtype int64 or one that it can be cast to, got float64"
    refused(TypeError, message, "reduce", (X,), op=op, out=np.zeros(()), device=device)


@pytest.mark.parametrize("op", ["mean", "argmin", "argmax", "var", "std", "any", "all", "count_nonzero"])
def test_a_rung_says_which_ops_it_takes(device, op):
    message = f"kernel: 'atomic' computes sum, prod, min and max; expected kernel=None for '{op}'"
    refused(ValueError, message, "reduce", (X,), op=op, kernel="atomic", device=device)


def test_a_rung_refuses_the_sum_of_bools_as_bool(device):
    message = "kernel: 'tree' computes sum, prod, min and max; expected kernel=None for 'sum'"
    refused(ValueError, message, "reduce", (X > 0,), dtype="bool", kernel="tree", device=device)


def test_a_rung_says_which_dtypes_it_takes(device):
    message = "bfloat16, float32 or float64 for kernel 'atomic', got complex64; kernel=None accepts more dtypes"
    refused(ValueError, message, "reduce", (X.astype("c8"),), kernel="atomic", device=device)


@pytest.mark.parametrize("axis", [0, (0, 2), 1, -2], ids=str)
def test_a_rung_says_which_axes_it_takes(device, axis):
    message = f"kernel: 'tree' reduces the whole array or its last axes; expected kernel=None for axis={axis!r}"
    refused(ValueError, message, "reduce", (np.ones((2, 3, 4)),), axis=axis, block_size=32, device=device)


@pytest.mark.parametrize("op", ["mean", "var", "std"])
def test_mean_of_a_scalar_rejects_an_axis(device, op):
    message = "axis: axis 0 is out of bounds for array of dimension 0"
    refused(AXIS_ERROR, message, "reduce", (np.float32(1),), op=op, axis=0, device=device)


def test_scalar_rejects_axis_1(device):
    message = "axis: axis 1 is out of bounds for array of dimension 0"
    refused(AXIS_ERROR, message, "reduce", (np.float32(1),), axis=1, device=device)


def test_out_with_zero_strides_is_rejected(device):
    out = np.lib.stride_tricks.as_strided(np.zeros(3, np.float32), (3, 2), (4, 0))
    message = "out: expected a separate element for each result, got a stride of 0"
    refused(ValueError, message, "transpose", (X,), out=out, device=device)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
@pytest.mark.parametrize("row", [row for row in smemkit.kernels() if row.needs == "host"], ids=lambda row: row.op)
def test_host_kernels_are_rejected_on_a_gpu(device, row):
    message = f"kernel: '{row.name}' runs on the host, not on cuda:0; expected device='cpu'"
    operands = VALID_CALLS[row.op][0]
    refused(ValueError, message, row.op, operands, kernel=row.name, device=device)
    with expect_launches(0), pytest.raises(ValueError, match=re.escape(message)):
        getattr(smemkit, row.op)(*(on(device, x) for x in operands), kernel=row.name)


class MutatingArgument:
    """A number whose conversion changes another argument of the call."""

    def __init__(self, action):
        self.action = action

    def __index__(self):
        self.action()
        return 0

    def __float__(self):
        return float(self.__index__())


@pytest.mark.parametrize("name", ["axis", "ddof"])
def test_operand_changed_during_argument_conversion(device, name):
    x = np.ones(1 << 20)
    argument = MutatingArgument(lambda: x.__setstate__((1, (1,), x.dtype, False, bytes(8))))
    with expect_launches(0), pytest.raises(RuntimeError, match="while the other arguments were read"):
        smemkit.reduce(x, "var", device=device, **{name: argument})


@pytest.mark.parametrize("name", ["axis", "ddof"])
def test_operand_cannot_be_resized_during_argument_conversion(device, name):
    x = np.ones(1 << 20)
    argument = MutatingArgument(lambda: x.resize(1, refcheck=False))
    with expect_launches(0), pytest.raises(ValueError, match=f"{name}: cannot resize an array that"):
        smemkit.reduce(x, "var", device=device, **{name: argument})
    x.resize(1, refcheck=False)
    assert smemkit.sum(x, device=device) == 1


class Interrupts:
    def __float__(self):
        raise KeyboardInterrupt

    @property
    def name(self):
        raise KeyboardInterrupt


def test_exceptions_of_arguments_propagate(device):
    with expect_launches(0), pytest.raises(KeyboardInterrupt):
        smemkit.var(X, ddof=Interrupts(), device=device)
    with expect_launches(0), pytest.raises(KeyboardInterrupt):
        smemkit.sum(X, device=Interrupts())


def test_user_defined_dtypes_are_rejected(device):
    quad = pytest.importorskip("numpy_quaddtype").QuadPrecDType()
    with expect_launches(0), pytest.raises(TypeError, match="x: expected dtype bool, "):
        smemkit.sum(np.ones(3, quad), device=device)
    with pytest.raises(TypeError, match="dtype: expected dtype bool, "):
        smemkit.zeros(3, quad, device=device)


@pytest.mark.parametrize("axes", [np.array([1, 0]), [1, 0], range(1, -1, -1)], ids=str)
def test_axes_are_any_sequence(device, axes):
    assert_array_equal(smemkit.transpose(X, axes, device=device), X.T)


# ---- Arrays -----------------------------------------------------------------------------------------------------


def test_host_and_device_are_not_mixed(device):
    message = (
        "operands: expected all NumPy arrays or all arrays on one device, got numpy.ndarray and smemkit.Array on "
        f"{device}; asarray() and .numpy() convert"
    )
    for operands in ((X, on(device, Y)), (on(device, X), Y)):
        with expect_launches(0), pytest.raises(TypeError, match=re.escape(message)):
            smemkit.matmul(*operands)


def test_out_must_be_an_array_like_the_operands(device):
    out = poison((3, 2), np.float32)
    wanted = r"a smemkit\.Array" if device == "cpu" else "an array on a GPU"
    with (
        expect_launches(0),
        pytest.raises(TypeError, match=rf"out: expected {wanted} like the operands, got numpy\.ndarray"),
    ):
        smemkit.transpose(on(device, X), out=out)
    assert is_poison(out)


def test_out_must_be_numpy_like_the_operands(device):
    out = on(device, poison((3, 2), np.float32))
    with (
        expect_launches(0),
        pytest.raises(TypeError, match=r"out: expected a numpy\.ndarray like .* smemkit\.Array"),
    ):
        smemkit.transpose(X, out=out, device=device)
    assert is_poison(out.numpy())


@pytest.mark.parametrize(
    ("shape", "dtype", "error", "message"),
    [
        ((2, 3), np.float32, ValueError, "out: expected shape (3, 2), got (2, 3)"),
        ((3, 2), np.int32, TypeError, SAME_KIND + "int32"),
    ],
)
def test_an_array_as_out_must_fit(device, shape, dtype, error, message):
    out = on(device, poison(shape, dtype))
    with expect_launches(0), pytest.raises(error, match=re.escape(message)):
        smemkit.transpose(on(device, X), out=out)
    assert is_poison(out.numpy())


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_devices_are_not_mixed(device):
    here, there, out = on(device, X), on("cpu", Y), on("cpu", poison((3, 2), np.float32))
    with expect_launches(0):
        with pytest.raises(ValueError, match=r"on one device, got cuda:0 and cpu; \.to\(\) moves"):
            smemkit.matmul(here, there)
        with pytest.raises(ValueError, match=r"device: the operands are on cuda:0, got cpu; \.to\(\) moves them"):
            smemkit.transpose(here, device="cpu")
        with pytest.raises(ValueError, match="out: expected an array on cuda:0, got one on cpu"):
            smemkit.transpose(here, out=out)
    assert is_poison(out.numpy())


# ---- the extension's functions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "count"),
    [
        ("matmul", 9),
        ("reduce", 12),
        ("transpose", 8),
        ("reverse", 5),
        ("add_one", 4),
        ("elementwise", 6),
        ("convert", 5),
        ("wavefronts", 5),
        ("asarray", 4),
        ("empty", 3),
    ],
)
def test_the_extension_counts_its_arguments(function, count):
    with expect_launches(0), pytest.raises(TypeError, match=f"{function}: expected {count} arguments, got 1"):
        getattr(_core, function)(X)


def test_is_poison_detects_written_elements():
    for dtype in DTYPES:
        assert is_poison(poison((2, 3), dtype))
        assert not is_poison(np.zeros(2, dtype))
    assert not is_poison(np.float32([np.nan, 0]))
