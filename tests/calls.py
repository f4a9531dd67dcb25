"""Random calls of smemkit and NumPy's answers to them: the generator that test_numpy.py and fuzz.py share.

`draw(choose, rows)` returns a Call. All its randomness comes from `choose(sequence)`, which returns one element
of the sequence, so that hypothesis (`st.sampled_from`) and `random.Random(seed).choice` drive the same code.
The first elements are the simplest. A Call consists of a Problem, whose `answer` holds NumPy's result and the
allowed error, and of an Out. Its repr is Python code that creates it again.

`Call.verify(smemkit, device)` runs the call and raises a MismatchError unless all of this holds: type, dtype,
shape and values are the answer's, or the exception is; the warnings are NumPy's; `out` is returned; no byte of
the operands and no byte between or around the elements of `out` has changed; a rejected call has not changed
`out` either; kernels were launched exactly if there is something to compute.

A call may be given a Fault: its n-th launch or allocation fails, or Ctrl-C arrives at its n-th launch. Then the
call must raise exactly that error, no operand may have changed, and `out` may have changed only if the
exception says so. The same call must be correct afterwards.
"""

import functools
import itertools
import math
import operator
import signal
import warnings
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np

DTYPES = {
    name: np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
    for name in (
        "float32",
        "int32",
        "bool",
        "int8",
        "int16",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "bfloat16",
        "float64",
        "complex64",
        "complex128",
    )
} | {"longlong": np.dtype(np.longlong), "ulonglong": np.dtype(np.ulonglong)}  # distinct types of 8 bytes
CASTING_ORDER = {"b": 0, "u": 1, "i": 2, "f": 3, "c": 4}  # same_kind casting goes up
SIGNIFICAND_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # including the hidden bit
MIN_EXPONENT = {"float16": -14, "bfloat16": -126, "float32": -126, "float64": -1022}  # exponents of normal numbers
PARTS = {"complex64": "float32", "complex128": "float64"}
LENGTHS = (2, 3, 1, 5, 7, 31, 32, 33, 65, 0)
LONG_PRODUCTS = ((129, 3, 131), (1, 257, 130), (130, 257, 2), (257, 5, 7), (65, 31, 129), (3, 600, 3))  # m, k, n
LIMIT = 2000  # elements per operand
LIST_DTYPES = ("float64", "int64", "bool", "complex128")  # the dtypes of lists of Python numbers

REDUCTIONS = (
    "sum",
    "min",
    "max",
    "prod",
    "mean",
    "var",
    "std",
    "any",
    "all",
    "argmin",
    "argmax",
    "count_nonzero",
)
# which multiply float32 in TF32
TF32_KERNELS = (
    *("mma", "wgmma", "wgmma_specialized", "persistent"),
    *("mma_large", "mma_small", "wgmma_single", "wgmma_tf32", "wgmma_tf32_small"),
)
PRODUCTION_REDUCTIONS = ("rows", "rowwise", "columns", "small_columns")  # kernels that take every op and axis
OPS_WITH_KERNEL = ("sum", "prod", "min", "max")  # their functions take kernel= and block_size=
FAMILIES = {
    "matmul": ("matmul",),
    "reduce": REDUCTIONS,
    "transpose": ("transpose",),
    "first": ("add_one", "reverse"),
    "casts": ("convert", "asarray"),
    "operators": ("+", "@", "==", "!="),
}
OPERATORS = {"+": operator.add, "@": operator.matmul, "==": operator.eq, "!=": operator.ne}
INITIAL = (  # values of every kind, some of which a dtype cannot hold
    *(True, 2, -1, 300, 2**63, 2**70, 1.5, -0.0, math.nan, math.inf, 1e300, 1 + 1j, "x", None),
    *(np.float64("nan"), np.float64("inf"), np.float64(1e300), np.float64(-0.0), np.float32(1.5), np.float16(3)),
    *(np.int8(-1), np.int64(300), np.uint64(2**63), np.longlong(5), np.bool_(True), np.complex64(1 + 1j)),
)
NEEDS = {
    "any": lambda capability: True,
    "sm_80": lambda capability: capability >= (8, 0),
    "sm_90a": lambda capability: capability == (9, 0),
}
WARNINGS = ("Mean of empty slice", "Degrees of freedom <= 0 for slice", "Casting complex values to real")


IN_PART = "out has been written in part"


class MismatchError(AssertionError):
    """smemkit does not do what NumPy does."""


def require(condition, message):
    if not condition:
        raise MismatchError(message)


# ---- dtypes -----------------------------------------------------------------------------------------------------


def kind(dtype):
    """ "b", "u", "i", "f" or "c" for a name or a dtype; bfloat16 is an "f"."""
    return {"V": "f"}.get(np.dtype(dtype).kind, np.dtype(dtype).kind)


def casts(from_, to):
    """Whether same_kind casting allows the cast."""
    return CASTING_ORDER[kind(from_)] <= CASTING_ORDER[kind(to)]


def native(dtype):
    return dtype.newbyteorder("=") if dtype.byteorder in "<>" else dtype


def cast(x, dtype):
    """`x.astype(dtype)` without warnings."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x.astype(dtype)


def wide(dtype):
    """The widest type: clongdouble for complex dtypes, otherwise longdouble."""
    return np.clongdouble if kind(dtype) == "c" else np.longdouble


def half_ulp(x, dtype):
    """Half a unit in the last place of `dtype` at `x`: the largest error of rounding to it. 0 for integers."""
    if kind(dtype) == "c":
        part = DTYPES[PARTS[dtype.name]]
        return half_ulp(x.real, part) + 1j * half_ulp(x.imag, part)
    if kind(dtype) != "f":
        return np.zeros_like(x)
    exponent = np.frexp(np.abs(x))[1]
    exponent = np.maximum(exponent, MIN_EXPONENT[dtype.name] + 1) - SIGNIFICAND_BITS[dtype.name] - 1
    return np.ldexp(np.longdouble(1), exponent)


# ---- operands and out -------------------------------------------------------------------------------------------


class Tagged(np.ndarray):
    """A subclass of ndarray, like those of other libraries."""


@dataclass(frozen=True)
class Boxed:
    """An object with `__array__` that is not an array itself."""

    inside: np.ndarray

    def __array__(self, dtype=None, copy=None):
        return np.array(self.inside, dtype=dtype, copy=copy)


@dataclass(frozen=True)
class Layout:
    """An array's memory layout. The tuples have one entry per axis; () stands for C order without gaps."""

    order: tuple = ()  # the axes in memory order, the slowest first
    steps: tuple = ()  # of the slice along each axis; negative ones reverse it
    leads: tuple = ()  # elements before the slice
    repeated: tuple = ()  # whether the axis has stride 0
    odd: bool = False  # misaligned by one byte
    swapped: bool = False  # the non-native byte order
    read_only: bool = False

    def measure_layout(self, shape, itemsize):
        """The strides, the byte offset of element (0, …, 0) and the size in bytes."""
        ndim = len(shape)
        strides, offset, size = [0] * ndim, 0, itemsize
        for axis in reversed(self.order or range(ndim)):
            step, lead = (self.steps or (1,) * ndim)[axis], (self.leads or (0,) * ndim)[axis]
            repeated = bool(self.repeated) and self.repeated[axis]
            length = min(shape[axis], 1) if repeated else shape[axis]
            taken = length * abs(step)
            strides[axis] = 0 if repeated else size * step
            offset += size * (lead + (taken - 1 if step < 0 and length else 0))
            size *= max(lead + taken, 1)
        if 0 in shape:
            offset = 0
        return tuple(strides), offset + self.odd, size + self.odd

    def dtype(self, name):
        return DTYPES[name].newbyteorder("S") if self.swapped else DTYPES[name]

    def create_in(self, memory, shape, name, start=0):
        """An array with this layout in `memory`, from byte `start` on."""
        strides, offset, _ = self.measure_layout(shape, DTYPES[name].itemsize)
        return np.ndarray(shape, self.dtype(name), memory, start + offset, strides)


PLAIN = Layout()


@dataclass(frozen=True)
class Operand:
    """An operand: its values and the form in which they are passed."""

    dtype: str
    shape: tuple
    values: str = "small"  # a key of VALUES
    seed: int = 0
    form: str = "array"  # "list", "scalar", "number", "Tagged", "Boxed", "Array"
    layout: Layout = PLAIN

    @functools.cached_property
    def plain(self):
        """The values as a contiguous NumPy array."""
        repeated = self.layout.repeated or (False,) * len(self.shape)
        stored = tuple(
            min(n, 1) if is_repeated else n for n, is_repeated in zip(self.shape, repeated, strict=True)
        )
        x = VALUES[self.values](np.random.default_rng(self.seed), stored, DTYPES[self.dtype])
        return x if stored == self.shape else np.broadcast_to(x, self.shape).copy()

    @property
    def bytes(self):
        return self.layout.measure_layout(self.shape, DTYPES[self.dtype].itemsize)[2]

    def make(self, memory, smemkit, device):
        """The operand that the call gets. NumPy arrays are created in `memory`."""
        if self.form == "list":
            return self.plain.tolist()
        if self.form == "scalar":
            return self.plain[()]
        if self.form == "number":
            return self.plain.item()
        if self.form == "Array":
            return self._view(smemkit, device)
        x = self.layout.create_in(memory, self.shape, self.dtype)
        x[...] = self.plain
        if self.layout.read_only:
            x.flags.writeable = False
        return x.view(Tagged) if self.form == "Tagged" else Boxed(x) if self.form == "Boxed" else x

    def _view(self, smemkit, device):
        """An Array with the layout's steps and leads: a view of a larger one."""
        if self.layout == PLAIN:
            return smemkit.asarray(self.plain, device=device)
        steps, leads = (self.layout.steps or (1,) * 99), (self.layout.leads or (0,) * 99)
        axes = list(zip(self.shape, steps, leads, strict=False))
        whole = np.zeros([lead + n * abs(step) for n, step, lead in axes], DTYPES[self.dtype])
        slices = tuple(slice(lead, None, abs(step)) for _, step, lead in axes)
        flips = tuple(slice(None, None, -1 if step < 0 else 1) for _, step, _ in axes)
        whole[slices][flips] = self.plain
        return smemkit.asarray(whole, device=device)[slices][flips]


@dataclass(frozen=True)
class Out:
    """The call's `out`. `overlap`: the byte of the first operand's memory at which `out` begins, if they
    overlap."""

    dtype: str
    shape: tuple
    layout: Layout = PLAIN
    overlap: int | None = None

    @property
    def bytes(self):
        return self.layout.measure_layout(self.shape, DTYPES[self.dtype].itemsize)[2]


# ---- values -----------------------------------------------------------------------------------------------------


def _integers(low, high):
    """Uniform in [low, high), or in [0, high) for bool and unsigned dtypes."""
    return lambda rng, shape, dtype: rng.integers(0 if kind(dtype) in "bu" else low, high, shape)


def _complex(make):
    """Extends `make` to complex dtypes: real and imaginary parts are drawn separately."""

    def parts(rng, shape, dtype):
        if kind(dtype) != "c":
            return cast(np.asarray(make(rng, shape, dtype)), dtype)
        x = np.empty(shape, dtype)
        x.real, x.imag = make(rng, shape, dtype), make(rng, shape, dtype)
        return x

    return parts


def _wide_range(rng, shape, dtype):
    """Values of both signs and of many magnitudes."""
    decades = 1 if dtype.itemsize == 2 else 4
    return rng.standard_normal(shape) * 10 ** rng.uniform(-decades, decades, shape)


def _factors(rng, shape, dtype):
    """Factors so close to ±1 that a product of thousands neither overflows nor underflows."""
    return 2 ** rng.uniform(-0.1, 0.1, shape) * rng.choice([-1, 1], shape)


def _near_one(rng, shape, dtype):
    """Factors of magnitude close to 1, with a random phase for complex dtypes and a random sign for real ones."""
    x = _factors(rng, shape, dtype)
    return cast(np.asarray(x * np.exp(1j * rng.uniform(0, 7, shape)) if kind(dtype) == "c" else x), dtype)


def _special(rng, shape, dtype):
    """Small integers with some NaNs and infinities among them."""
    x, at = rng.integers(-9, 10, shape).astype(float), rng.random(shape)
    return np.select([at < 0.03, at < 0.05, at < 0.07], [np.nan, np.inf, -np.inf], x)


def _extreme(rng, shape, dtype):
    """Uniform over the range of an integer dtype, with its minimum and maximum more often."""
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    at = rng.random(shape)
    return np.where(at < 0.1, limits.min, np.where(at < 0.2, limits.max, x)).astype(dtype)


def _zeros(rng, shape, dtype):
    """Zeros: half of the time only negative ones, otherwise both."""
    return np.where(rng.random(shape) < rng.choice([0.0, 0.5]), 0.0, -0.0)


VALUES = {
    "zeros": _complex(_zeros),
    "small": _complex(lambda rng, shape, dtype: _integers(-9, 2 if kind(dtype) == "b" else 10)(rng, shape, dtype)),
    "few": _complex(lambda rng, shape, dtype: _integers(-1, 2)(rng, shape, dtype)),
    "rare": _complex(lambda rng, shape, dtype: (rng.random(shape) < 0.02).astype(int)),
    "natural": _complex(_integers(0, 10)),
    "normal": _complex(lambda rng, shape, dtype: rng.standard_normal(shape)),
    "shifted": _complex(lambda rng, shape, dtype: 1000 + rng.standard_normal(shape)),
    "wild": _complex(_wide_range),
    "factors": _near_one,
    "special": _complex(_special),
    "extreme": _extreme,
}


# ---- NumPy's results --------------------------------------------------------------------------------------------


@dataclass
class ExpectedResult:
    """What a call must give: an exception, or values and their allowed error."""

    errors: tuple = ()  # any of these is accepted
    values: np.ndarray = None  # exact, or in the widest type
    bound: np.ndarray = None  # the allowed error; None: every element is exact; complex: per component
    dtype: np.dtype = None
    scalar: bool = False  # a NumPy scalar rather than an array
    warnings: frozenset = frozenset()
    loose: np.ndarray = None  # elements for which any non-finite value is accepted
    negative: np.ndarray = None  # zeros that must be -0; None: no sign matters

    @property
    def shape(self):
        return self.values.shape

    def into(self, dtype):
        """The expected result after a cast to `dtype`."""
        if native(dtype) == native(self.dtype):
            values, bound = self.values, self.bound
        elif self.bound is None:
            values, bound = cast(self.values, native(dtype)), None
        else:  # it may have been rounded to its own dtype first
            values = _overflow_to_inf(self.values.astype(wide(dtype)), native(dtype))
            bound = self.bound + half_ulp(self.values, self.dtype) + half_ulp(values, native(dtype))
        return ExpectedResult((), values, bound, dtype, False, self.warnings, self.loose)

    def rounded(self):
        """A correct result."""
        x = np.array(cast(self.values, native(self.dtype)).astype(self.dtype), order="C")
        return x[()] if self.scalar else x

    def check(self, x):
        """Raises a MismatchError unless the NumPy array `x` is correct."""
        require(x.shape == self.shape, f"expected shape {self.shape}, got {x.shape}")
        require(x.dtype == self.dtype, f"expected dtype {self.dtype}, got {x.dtype}")
        letter = self.dtype.char  # distinguishes 8-byte types that compare equal
        require(x.dtype.char == letter, f"expected a dtype with the letter {letter}, got {x.dtype.char}")
        if self.bound is None:
            right = _equal_or_both_nan(x, self.values)
        else:
            right = _within_bound(x.astype(wide(x.dtype)), self.values, self.bound)
        if self.loose is not None:
            right |= self.loose & ~np.isfinite(x)
        if self.negative is not None:
            right &= (x != 0) | (np.signbit(x.real) == self.negative)
        if np.all(right):
            return
        at = tuple(map(int, np.argwhere(~right)[0]))
        allowed = "" if self.bound is None else f" ± {np.broadcast_to(self.bound, self.shape)[at]!s}"
        wrong = f"{np.count_nonzero(~right)} of {x.size} elements are wrong, the first at {at}"
        raise MismatchError(f"{wrong}: expected {self.values[at]!s}{allowed}, got {x[at]!s}")


def _overflow_to_inf(values, dtype):
    """`values`, but infinite where they overflow `dtype`."""
    narrow = cast(values, dtype)
    return np.where(np.isfinite(narrow), values, narrow.astype(values.dtype))


def _equal_or_both_nan(x, values):
    """Equal, or both NaN."""
    if kind(values.dtype) not in "fc":
        return x == values
    return (x == values) | (np.isnan(x) & np.isnan(values))


def _within_bound(x, values, bound):
    """Whether |x - values| <= bound, for complex numbers per component. Non-finite values must be equal."""
    if np.iscomplexobj(values):
        bound = np.asarray(bound, np.clongdouble)
        return _within_bound(x.real, values.real, bound.real) & _within_bound(x.imag, values.imag, bound.imag)
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(finite, np.abs(x - values) <= bound, _equal_or_both_nan(x, values))


def _raise_unless(condition, error):
    if not condition:
        raise error


@dataclass(frozen=True)
class Problem:
    """A call without `out`."""

    function: str
    operands: tuple
    keywords: dict = field(default_factory=dict)

    def __getitem__(self, name):
        """A keyword argument, or None if it is not given."""
        return self.keywords.get(name)

    @property
    def arrays(self):
        """The number of operands that are Arrays."""
        return [operand.form for operand in self.operands].count("Array")

    @property
    def mixes(self):
        """Whether Arrays are mixed with other operands. Operators other than @ also take numbers."""
        numbers = ("number", "scalar") if self.function in OPERATORS and self.function != "@" else ()
        return 0 < self.arrays < sum(operand.form not in numbers for operand in self.operands)

    @property
    def op(self):
        """The operation: a name of REDUCTIONS even if the function is `reduce`."""
        return self.keywords.get("op", "sum") if self.function == "reduce" else self.function

    @property
    def named(self):
        """Whether the options select a rung, which has its own arithmetic."""
        return self["kernel"] is not None or self["block_size"] is not None or self["tile"] is not None

    @functools.cached_property
    def answer(self):
        if self.mixes:
            return ExpectedResult((TypeError,))
        name = "operator" if self.op in OPERATORS and self.op != "@" else "matmul" if self.op == "@" else self.op
        compute = _reduction if self.op in REDUCTIONS else globals()[f"_{name}"]
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                answer = compute(self, *(operand.plain for operand in self.operands))
        except (TypeError, ValueError, OverflowError) as error:
            return ExpectedResult((_exception_family(error),))
        answer.warnings = _known_warnings(caught)
        # ml_dtypes does not warn about lost imaginary parts
        if kind(DTYPES[self.operands[0].dtype]) == "c" and self["dtype"] == "bfloat16":
            answer.warnings |= {WARNINGS[-1]}
        return answer


def _exception_family(error):
    """The class that a caller must catch: NumPy's own subclasses are not promised."""
    families = (np.exceptions.AxisError, TypeError, ValueError, OverflowError)
    return next((family for family in families if isinstance(error, family)), type(error))


def _known_warnings(caught):
    """Those of WARNINGS that were raised."""
    texts = [str(warning.message) for warning in caught if issubclass(warning.category, RuntimeWarning)]
    return frozenset(known for known in WARNINGS if any(known in text for text in texts))


def _unit(dtype, named):
    """The unit roundoff of the dtype in which sums, products and means are accumulated."""
    name = PARTS.get(dtype.name, dtype.name)
    return 2.0**-53 if name == "float64" or (name == "float32" and not named) else 2.0**-24


def _matmul(problem, a, b):
    dtype = DTYPES[problem["dtype"]] if problem["dtype"] else np.promote_types(a.dtype, b.dtype)
    _raise_unless(casts(a.dtype, dtype) and casts(b.dtype, dtype), TypeError("same_kind"))
    a, b = cast(a, dtype), cast(b, dtype)
    if kind(dtype) in "bui":
        values, bound = np.matmul(a, b), None
    else:
        a, b = a.astype(wide(dtype)), b.astype(wide(dtype))
        values, magnitude = np.matmul(a, b), np.matmul(np.abs(a), np.abs(b))
        k = a.shape[-1]
        precision = "high" if dtype == np.float32 and problem["kernel"] in TF32_KERNELS else problem["precision"]
        unit = {"medium": 2.0**-8, "high": 2.0**-11}.get(precision, _unit(dtype, True))
        bound = (k + 2) * unit * magnitude
        if kind(dtype) == "c":  # a component sums 2k products, in pairs of at most |a||b|
            bound = (2 * k + 2) * unit * magnitude * (1 + 1j)
        if dtype.itemsize == 2:
            bound += half_ulp(np.abs(values) + bound, dtype)
    return ExpectedResult((), np.asarray(values), bound, dtype, np.ndim(values) == 0)


def _reduction(problem, x):
    """NumPy's result if it is exact, otherwise the result in the widest type and a bound."""
    op, axis, keepdims = problem.op, problem["axis"], bool(problem["keepdims"])
    names = {"initial", "ddof", "dtype"} & problem.keywords.keys()
    options = {name: problem[name] for name in names if problem[name] is not None}
    if "dtype" in options:
        options["dtype"] = DTYPES[options["dtype"]]
        if kind(options["dtype"]) not in "fc" and op in ("var", "std"):
            getattr(np, op)(np.zeros(x.shape), axis)  # a wrong axis is reported first
            raise TypeError("a variance is not an integer")
    numpys = np.asarray(getattr(np, op)(x, axis=axis, keepdims=keepdims, **options))
    _raise_unless(not _rung_refuses(problem, x), ValueError("kernel: … expected kernel=None"))
    scalar, dtype = numpys.ndim == 0, numpys.dtype
    if op in ("min", "max", "any", "all", "argmin", "argmax", "count_nonzero") or kind(dtype) in "bui":
        return ExpectedResult((), numpys, None, dtype, scalar)

    negative = None
    if op == "sum" and kind(dtype) == "f":  # a sum of zeros is -0 if all of them are
        zeros = np.sum(x != 0, axis=axis, keepdims=keepdims) == 0
        negative = zeros & np.signbit(numpys) if np.all(zeros) else None
    if "initial" in options:
        options["initial"] = wide(dtype)(_as_element(options["initial"], dtype))
    x = cast(x, options.pop("dtype", dtype if kind(x.dtype) in "bui" else x.dtype))
    unit, dtype_of_x = _unit(x.dtype, problem.named), x.dtype
    x = x.astype(wide(x.dtype))
    options |= {"axis": axis, "keepdims": keepdims}
    values = getattr(np, op)(x, **options)
    # the elements per result, including `initial`; `axis` was validated above
    count = x.size // max(values.size, 1) + ("initial" in options)
    bound, loose = BOUNDS[op](x, values, count, unit, dtype_of_x, problem, options)
    values = np.asarray(values).astype(wide(dtype))  # a variance may have a complex dtype
    values = _overflow_to_inf(values, dtype)
    if unit < 2.0 ** -SIGNIFICAND_BITS[PARTS.get(dtype.name, dtype.name)]:  # the result is rounded at the end
        bound = bound + half_ulp(_abs(values) + bound, dtype)
    return ExpectedResult((), values, bound, dtype, scalar, loose=loose, negative=negative)


def _rung_refuses(problem, x):
    """Whether a rung is asked for what it does not compute: it takes sum, prod, min and max of real numbers over
    the whole array or its last axes."""
    if not problem.named or problem["kernel"] in PRODUCTION_REDUCTIONS:
        return False
    dtype, axis = DTYPES[problem["dtype"]] if problem["dtype"] else x.dtype, problem["axis"]
    every = axis is None or x.ndim == 0  # the axes 0 and -1 that NumPy accepts of a 0-d array are none
    axes = range(x.ndim) if every else sorted(a % x.ndim for a in np.atleast_1d(np.array(axis, int)))
    takes_op = problem.op in OPS_WITH_KERNEL and not (problem.op == "sum" and problem["dtype"] == "bool")
    return not takes_op or kind(dtype) == "c" or list(axes) != list(range(x.ndim - len(axes), x.ndim))


def _as_element(value, dtype):
    """`value` after NumPy has assigned it to an element of `dtype`."""
    element = np.zeros((), dtype)
    element[()] = value
    return element[()]


def _operator(problem, x, y):
    """The result of NumPy's operator on contiguous arrays and numbers."""
    sides = [
        operand.plain.item() if operand.form == "number" else z
        for operand, z in zip(problem.operands, (x, y), strict=True)
    ]
    if not any(operand.form == "number" for operand in problem.operands):
        np.promote_types(x.dtype, y.dtype)  # ml_dtypes' operators take operands without a common dtype
    result = np.asarray(OPERATORS[problem.op](*sides))
    return ExpectedResult((), result, None, result.dtype)


def _abs(x):
    """|x|, for complex numbers per component."""
    return np.abs(x.real) + 1j * np.abs(x.imag) if np.iscomplexobj(x) else np.abs(x)


def _sum_bound(x, values, count, unit, dtype, problem, options):
    """The bound that CONTRACTS.md promises for kernel=None, without the final rounding; for a rung, n·eps in
    any order."""
    magnitude = np.sum(_abs(x), **options | {"initial": _abs(np.asarray(options.get("initial", 0)))[()]})
    if not problem.named and (unit == 2.0**-24 or PARTS.get(dtype.name, dtype.name) == "float64"):
        steps = math.ceil(math.log2(max(count, 1)))
        return 2 * (steps if unit == 2.0**-24 else steps + 8) * unit * magnitude, None
    return count * unit * magnitude, None


def _mean_bound(x, values, count, unit, dtype, problem, options):
    """The bound of the sum, and the rounding of the division."""
    bound, _ = _sum_bound(x, values, count, unit, dtype, problem, options)
    return bound / max(count, 1) + unit * _abs(values), None


def _prod_bound(x, values, count, unit, dtype, problem, options):
    """One rounding per factor, three per complex factor."""
    if kind(dtype) == "c":
        return 3 * count * unit * np.abs(values) * (1 + 1j), None
    # in another order a partial product may overflow, and infinity times 0 is NaN
    largest = {"initial": max(abs(options["initial"]), 1)} if "initial" in options else {}
    if not problem.named and "initial" in options and (options["initial"] == 0 or np.isinf(options["initial"])):
        return 1.01 * count * unit * np.abs(values), None  # `initial` keeps its position among the factors
    sizes = np.prod(np.maximum(np.abs(x), 1), **options | largest)
    loose = sizes > np.finfo(np.float32 if unit == 2.0**-24 else np.float64).max
    return 1.01 * count * unit * np.abs(values), loose


def _var_bound(x, values, count, unit, dtype, problem, options):
    """The bound for the sum S of squared deviations of n elements from their mean m, by two passes or Welford's
    method: 4(n + 8)u·(S + |m|·√(nS)), plus n(uΣ|x|)² for the error of the mean (Chan, Golub, LeVeque,
    Algorithms for Computing the Sample Variance, The American Statistician 37, 1983)."""
    along = {"axis": options["axis"], "keepdims": True}
    mean = np.sum(x, **along) / max(count, 1)
    deviation = np.abs(x - mean)
    squares = np.sum(deviation * deviation, **along)
    size = np.abs(mean) + np.sqrt(squares / max(count, 1))
    magnitude = np.sum(np.abs(x), **along)
    bound = 4 * (count + 8) * unit * np.sqrt(squares) * (np.sqrt(squares) + size * math.sqrt(count))
    bound = bound + count * (unit * magnitude) ** 2
    squares, bound = squares.reshape(values.shape), bound.reshape(values.shape)
    divisor = count - options.get("ddof", 0)
    if divisor <= 0:  # a division by 0; rounding decides whether S is exactly 0
        return np.zeros(values.shape, np.longdouble), squares <= bound
    return bound / divisor + 2 * unit * np.abs(values.real), None


def _std_bound(x, values, count, unit, dtype, problem, options):
    """|√(v + e) - √v| = e / (√(v + e) + √v)."""
    error, loose = _var_bound(x, values, count, unit, dtype, problem, options)
    root = np.abs(values.real)
    least = np.sqrt(np.maximum(root * root - error, 0)) + root
    return error / np.where(least > 0, least, np.sqrt(error + (error == 0))) + unit * root, loose


BOUNDS = {
    "sum": _sum_bound,
    "mean": _mean_bound,
    "prod": _prod_bound,
    "var": _var_bound,
    "std": _std_bound,
}


def _expected_copy(problem, values):
    """The expected result if only bytes are moved. Arrays keep their byte order; scalars have the native one."""
    operand = problem.operands[0]
    # np.transpose returns 0-d arrays as arrays
    scalar = values.ndim == 0 and (problem.op != "transpose" or operand.form == "scalar")
    return ExpectedResult(
        (), values, None, DTYPES[operand.dtype] if scalar else operand.layout.dtype(operand.dtype), scalar
    )


def _transpose(problem, x):
    return _expected_copy(problem, x if problem["kernel"] == "copy" else np.transpose(x, problem["axes"]))


def _reverse(problem, x):
    return _expected_copy(problem, np.flip(x))


def _add_one(problem, x):
    # Python's 1 widens bool, as it should, but ml_dtypes' dtypes too
    one = 1 if x.dtype == bool else x.dtype.type(1)
    result = np.asarray(x + one)
    return ExpectedResult((), result, None, result.dtype, x.ndim == 0)


def _convert(problem, x):
    dtype = DTYPES[problem["dtype"]] if problem["dtype"] else x.dtype
    x.astype(dtype)  # for its warnings
    return ExpectedResult((), cast(x, dtype), None, dtype, x.ndim == 0)


_asarray = _convert


# ---- calls ------------------------------------------------------------------------------------------------------


def _common_dtype(problem, out):
    """The promoted dtype of the operand and `out`; None if there is none or `out` cannot take it."""
    try:
        common = np.promote_types(DTYPES[problem.operands[0].dtype], DTYPES[out.dtype])
    except TypeError:
        return None
    return common if casts(common, DTYPES[out.dtype]) else None


def _with_accumulator_dtype(problem, out):
    """The problem with the dtype in which NumPy accumulates for this `out`: the one that holds both."""
    x, common = DTYPES[problem.operands[0].dtype], _common_dtype(problem, out)
    sums = problem.op in ("sum", "prod") or (problem.op == "mean" and kind(x) in "fc")
    if not sums or common is None or problem["dtype"]:
        return problem
    name = PARTS[common.name] if kind(common) == "c" and kind(x) != "c" else common.name
    return replace(problem, keywords=problem.keywords | {"dtype": name})


def _numpy_into_out(problem, out):
    """NumPy's result in an `out` of that dtype, and its warnings."""
    options = {name: problem[name] for name in ("axis", "keepdims", "initial") if problem[name] is not None}
    if problem["dtype"] and problem.op in ("sum", "prod"):
        options["dtype"] = DTYPES[problem["dtype"]]
    written = np.zeros(out.shape, DTYPES[out.dtype])
    with np.errstate(all="ignore"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(np, problem.op)(problem.operands[0].plain, out=written, **options)
    return written, _known_warnings(caught)


def _divides_in_out(problem, out):
    """Whether NumPy sums integers, but divides in the float dtype of `out`."""
    return problem.op == "mean" and kind(problem["dtype"] or "f8") in "bui" and kind(out.dtype) in "fc"


def _mean_in_out(problem, out):
    """Such a mean: the sum is rounded to the dtype of `out` and divided in it."""
    (x,), dtype = (operand.plain for operand in problem.operands), DTYPES[out.dtype]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sums = np.sum(x, problem["axis"], DTYPES[problem["dtype"]], keepdims=bool(problem["keepdims"]))
    values = np.asarray(sums.astype(wide(dtype)) / max(x.size // max(np.size(sums), 1), 1))
    return ExpectedResult((), values, 3 * half_ulp(values, dtype), dtype, warnings=problem.answer.warnings)


def _holds_initial(problem, out, dtype):
    """Whether `out` holds `initial` as an element of `dtype`. NumPy keeps partial sums in `out`: a float that is
    rounded to more than the largest integer gives a result that C does not define."""
    if problem["initial"] is None or kind(dtype) not in "ui" or kind(out.dtype) not in "fc":
        return True
    element = np.asarray(_as_element(problem["initial"], dtype))
    return bool(cast(element, DTYPES[out.dtype]).astype(wide(DTYPES[out.dtype])) == element)


@dataclass(frozen=True)
class Call:
    """A call of smemkit."""

    problem: Problem
    out: Out | None = None

    @functools.cached_property
    def answer(self):
        """What the call must give with this `out`."""
        problem, out = self.problem, self.out
        if out is None or problem.answer.errors:
            return problem.answer
        answer = _with_accumulator_dtype(problem, out).answer
        if answer.errors:  # the dtype of `out` does not hold `initial`
            return answer
        if _divides_in_out(problem, out):
            answer = _mean_in_out(problem, out)
        wrong = [(out.shape != answer.shape, ValueError), (out.layout.read_only, ValueError)]
        kinds = "i" if self.problem.op in ("argmin", "argmax") else "buifc"
        wrong += [(not casts(answer.dtype, out.dtype) or kind(out.dtype) not in kinds, TypeError)]
        if errors := tuple(error for fault, error in wrong if fault):
            return ExpectedResult(errors)
        into = answer.into(out.layout.dtype(out.dtype))
        exact = problem.op in ("sum", "prod", "min", "max", "any", "all") and into.bound is None
        # for signed and unsigned integers it is float64, which does not hold all 64-bit integers
        common = _common_dtype(problem, out)
        # the dtype in which NumPy reads `initial` depends on `out`
        initial_for_out = problem.op in ("min", "max") and problem["initial"] is not None
        initial_for_out &= common is not None and kind(common) in (kind(answer.dtype), kind(out.dtype))
        warned = answer.warnings
        exact = exact and (problem.op not in ("sum", "prod") or _holds_initial(problem, out, answer.dtype))
        if exact and (initial_for_out or common == DTYPES[out.dtype]):  # NumPy too casts to a narrower one
            try:
                into.values, heard = _numpy_into_out(problem, out)
                # a sum's loop also warns about values that it reads from `out`
                warned = heard if initial_for_out else warned
            except (OverflowError, ValueError) as error:  # `out` does not hold `initial`
                return ExpectedResult((type(error),))
        return ExpectedResult((), into.values, into.bound, into.dtype, False, warned, into.loose)

    @property
    def arrays(self):
        """Whether the operands are Arrays."""
        return self.problem.arrays > 0 and not self.problem.mixes

    def verify(self, smemkit, device, fault=None):
        """Runs the call on the device. Raises a MismatchError that says what is wrong and how to repeat the
        call."""
        during = ""
        try:
            if fault:
                during = f", with {fault}"
                if not self._verify(smemkit, device, fault):
                    return
                during = f", after {fault}"
            self._verify(smemkit, device)
        except MismatchError as mismatch:
            raise MismatchError(f"{mismatch}\non {device}{during}: {self!r}") from None

    def _verify(self, smemkit, device, fault=None):
        """Runs the call once. Returns whether the fault occurred."""
        memories, out = [np.full(operand.bytes, 0xA5, np.uint8) for operand in self.problem.operands], None
        if self.out is not None:
            out, memories = self._make_out(memories, smemkit, device)
        made = zip(self.problem.operands, memories, strict=False)  # the last memory may be out's
        operands = [operand.make(memory, smemkit, device) for operand, memory in made]
        function = OPERATORS.get(self.problem.function) or getattr(smemkit, self.problem.function)
        is_operator = self.problem.function in OPERATORS
        keywords = self.problem.keywords | ({} if self.arrays or is_operator else {"device": device})
        if keywords.get("dtype"):
            keywords["dtype"] = DTYPES[keywords["dtype"]]
        if out is not None:
            keywords["out"] = out
        before = [memory.copy() for memory in memories]
        out_before = out.numpy().tobytes() if out is not None and self.arrays else None

        launches, result, raised = smemkit.launches(), None, None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if fault:
                    fault.arm(smemkit)
                result = function(*operands, **keywords)
            except KeyboardInterrupt as error:
                if not fault or fault.kind != "interrupt":
                    raise
                raised = error
            except Exception as error:
                raised = error
            occurred = fault.disarm(smemkit) if fault else False
        launches = smemkit.launches() - launches

        if occurred and not (fault.is_recoverable and raised is None):
            fault.check(smemkit, raised)
            is_partial = IN_PART in " ".join([str(raised), *getattr(raised, "__notes__", ())])
            require(
                not is_partial or out is not None,
                "the exception says that `out` was written, but there is no `out`",
            )
            if self.arrays:
                self._check_arrays(operands, None if is_partial else out, out_before)
            else:
                _check_memories(memories, before, out if is_partial else None)
            return True
        self._check_result(result, raised, out, smemkit, launches, _known_warnings(caught))
        if self.arrays:
            self._check_arrays(operands, out if raised else None, out_before)
        else:
            _check_memories(memories, before, None if raised else out)
        return occurred

    def _check_arrays(self, operands, out, out_before):
        """The operands are unchanged, and `out` too if it is given here."""
        for operand, x in zip(self.problem.operands, operands, strict=True):
            same = operand.form != "Array" or x.numpy().tobytes() == operand.plain.tobytes()
            require(same, "an operand was written")
        same = out is None or out.numpy().tobytes() == out_before
        require(same, "`out` was written, although the call was refused")

    def _make_out(self, memories, smemkit, device):
        """`out`, poisoned, and the memories with its own among them."""
        name, shape = self.out.dtype, self.out.shape
        if self.arrays:
            poison = np.full(int(np.prod(shape, dtype=int)) * DTYPES[name].itemsize, 0x5A, np.uint8)
            if name == "bool":
                poison[:] = 1
            return smemkit.asarray(poison.view(DTYPES[name]).reshape(shape), device=device), memories
        start = self.out.overlap
        if start is None:
            memory = np.full(self.out.bytes, 0x5A, np.uint8)
            memories = [*memories, memory]
        else:
            memory = np.full(max(memories[0].size, start + self.out.bytes), 0x5A, np.uint8)
            memories = [memory, *memories[1:]]
        out = self.out.layout.create_in(memory, shape, name, start or 0)
        out.flags.writeable = not self.out.layout.read_only
        return out, memories

    def _check_result(self, result, raised, out, smemkit, launches, warned):
        answer = self.answer
        if answer.errors:
            names = " or ".join(error.__name__ for error in answer.errors)
            require(raised is not None, f"expected {names}, got a result")
            right = _exception_family(raised) in answer.errors
            require(right, f"expected {names}, got {type(raised).__name__}: {raised}")
            require(launches == 0, f"refused after {launches} launches")
            return
        require(raised is None, f"expected a result, got {type(raised).__name__}: {raised}")
        require(warned == answer.warnings, f"expected warnings {set(answer.warnings)}, got {set(warned)}")
        empty = any(0 in operand.shape for operand in self.problem.operands)
        if self.problem.function != "asarray":
            require(not (empty and launches), f"expected no launch for operands without elements, got {launches}")
            require(empty or launches, "nothing was launched")
        if out is not None:
            require(result is out, f"expected `out` itself, got {type(result).__name__}")
        if self.arrays or self.problem.function == "asarray":
            require(isinstance(result, smemkit.Array), f"expected an Array, got {type(result).__name__}")
            require(result.dtype == native(answer.dtype), f"expected dtype {answer.dtype}, got {result.dtype}")
            require(result.shape == answer.shape, f"expected shape {answer.shape}, got {result.shape}")
            ExpectedResult((), answer.values, answer.bound, native(answer.dtype), loose=answer.loose).check(
                result.numpy()
            )
            return
        wanted = np.generic if answer.scalar else np.ndarray
        right = isinstance(result, np.generic) if answer.scalar else type(result) is np.ndarray
        require(right, f"expected a {wanted.__module__}.{wanted.__name__}, got {type(result)}")
        if out is None and not answer.scalar:
            require(result.flags.c_contiguous and result.flags.writeable, f"got an array with {result.flags}")
        answer.check(np.asarray(result))


@dataclass(frozen=True)
class Fault:
    """An error injected into a call: its n-th launch or allocation fails, or Ctrl-C arrives at its n-th launch."""

    kind: str  # one of FAULTS
    n: int

    def arm(self, smemkit):
        if self.kind == "allocation":
            smemkit._core.fail_allocation(self.n)
        else:
            smemkit._core.fail_launch(self.n, int(signal.SIGINT) if self.kind == "interrupt" else 0)

    def disarm(self, smemkit):
        """Cancels the fault. Returns whether it occurred."""
        fail = smemkit._core.fail_allocation if self.kind == "allocation" else smemkit._core.fail_launch
        return fail(0) == 0

    @property
    def is_recoverable(self):
        """Whether a call may succeed in spite of the fault."""
        return self.kind == "allocation"

    def check(self, smemkit, raised):
        error, words = {
            "launch": (smemkit.Error, "for a test"),
            "allocation": (smemkit.OutOfMemoryError, "for a test"),
            "interrupt": (KeyboardInterrupt, ""),
        }[self.kind]
        right = type(raised) is error and words in str(raised)
        require(right, f"expected {error.__name__}, got {type(raised).__name__}: {raised}")


FAULTS = ("launch", "interrupt", "allocation")


def draw_fault(choose):
    """A Fault half of the time, otherwise None."""
    return Fault(choose(FAULTS), choose((1, 1, 2, 3, 4))) if choose(range(2)) else None


def _check_memories(memories, before, out):
    """The memories are unchanged, except for the elements of `out` if it is given here."""
    for memory, copy in zip(memories, before, strict=True):
        if out is not None and np.may_share_memory(out, memory):
            after = memory.copy()
            _view_in_copy(out, memory, after)[...] = _view_in_copy(out, memory, copy)
            require(np.array_equal(after, copy), "bytes outside the elements of `out` were written")
        else:
            require(np.array_equal(memory, copy), "an operand was written, or `out` although the call was refused")


def _view_in_copy(view, memory, copy):
    """The same view as `view` of `memory`, but of a copy of it."""
    start = view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    return np.ndarray(view.shape, view.dtype, copy, start, view.strides)


# ---- drawing calls ----------------------------------------------------------------------------------------------


def launchable(smemkit, device):
    """The rows of smemkit.kernels() that the device can launch."""
    kind = device.partition(":")[0]
    capability = smemkit.Device(device).capability if kind == "cuda" else None
    return [
        row
        for row in smemkit.kernels()
        if kind in row.devices and (not capability or NEEDS[row.needs](capability))
    ]


def chance(choose, n):
    """True once in n times."""
    return choose(range(n)) == n - 1


def draw(choose, rows, family=None):
    """A random Call. `rows`: the `launchable` ones; None: select no rung by name."""
    family = family or choose(("reduce",) * 5 + ("matmul",) * 2 + ("transpose", "first", "casts", "operators"))
    function = choose(FAMILIES[family])
    drawers = {"matmul": _draw_matmul, "reduce": _draw_reduction, "operators": _draw_operator}
    problem = drawers.get(family, _draw_data_movement)(choose, rows, function)
    out = None
    no_out = function == "asarray" or function in OPERATORS or problem.answer.errors
    if not no_out and choose(range(3)) == 2:
        out = _draw_out(choose, problem)
    return Call(problem, out)


def _draw_shape(choose, ndim, limit=LIMIT):
    shape = []
    for _ in range(ndim):
        shape.append(choose([n for n in LENGTHS if n <= limit]))
        limit //= max(shape[-1], 1)
    return tuple(shape)


def _draw_layout(choose, shape, dtype, writeable=False):
    if choose(range(3)) == 0:
        return PLAIN
    ndim = len(shape)
    order = choose(_permutations(ndim))
    steps, leads, max_step = [], [], 6
    for _ in shape:
        step = choose([s for s in (1, 1, 2, -1, 3, -2) if abs(s) <= max_step])
        max_step //= abs(step)
        steps.append(step)
        leads.append(int(chance(choose, 4)))
    repeated = () if writeable else tuple(chance(choose, 8) for _ in shape)
    odd, swapped = chance(choose, 5), chance(choose, 5)
    if math.prod(n * abs(s) + lead for n, s, lead in zip(shape, steps, leads, strict=True)) > 8 * LIMIT:
        leads = [0] * ndim
    read_only = False if writeable else chance(choose, 5)
    return Layout(
        order=order if order != tuple(range(ndim)) else (),
        steps=tuple(steps) if set(steps) != {1} else (),
        leads=tuple(leads) if any(leads) else (),
        repeated=repeated if any(repeated) else (),
        odd=odd,
        swapped=swapped and DTYPES[dtype].itemsize > 1,
        read_only=read_only,
    )


def _draw_operand(choose, dtype, shape, values, arrays):
    seed = choose(range(2**16))
    if arrays:
        layout = _draw_layout(choose, shape, dtype, writeable=True) if chance(choose, 2) else PLAIN
        return Operand(dtype, shape, values, seed, "Array", Layout(steps=layout.steps, leads=layout.leads))
    form = choose(("array",) * 8 + ("Tagged", "Boxed", "list", "scalar"))
    if form == "list" and (dtype not in LIST_DTYPES or not shape or 0 in shape):
        form = "array"
    if form == "scalar":
        form = "array" if shape else "number" if dtype in LIST_DTYPES and chance(choose, 2) else "scalar"
    layout = PLAIN if form in ("list", "scalar", "number") else _draw_layout(choose, shape, dtype)
    return Operand(dtype, shape, values, seed, form, layout)


def _draw_kernel(choose, rows, op, *dtypes):
    """Keywords that select a kernel by its name, by an option, or not at all."""
    names = [dtype and DTYPES[dtype].name for dtype in dtypes]
    rows = [row for row in rows or () if row.op == op and all(name in row.dtypes for name in names)]
    rows = [row for row in rows if row.name != "in_place"]  # which takes its operand as `out` only
    row = choose((None, None, *rows))
    if row is None:
        return {}
    options = choose(({}, *row.variants))
    return options if row.default and options and chance(choose, 3) else {"kernel": row.name, **options}


@functools.cache
def _permutations(ndim, length=None):
    return list(itertools.permutations(range(ndim), length))


def _draw_matmul(choose, rows, function):
    m, k, n = (choose(LENGTHS) for _ in range(3))
    if m * k > LIMIT or k * n > LIMIT or m * n > LIMIT:
        k, n = choose((1, 2, 3, 5)), choose((3, 7, 31))
    if chance(choose, 8):  # more than one tile of every kernel
        m, k, n = choose(LONG_PRODUCTS)
    first, second = [m, k], [k, n]
    form = choose(("matrices", "batches", "vector", "column", "matrices", "batches", "vectors", "wrong"))
    if form in ("vector", "vectors"):
        first = [k]
    if form in ("column", "vectors"):
        second = [k]
    if form == "wrong":
        first, second = choose((([m, k], [k + 1, n]), ([], [k, n]), ([2, m, k], [3, k, n]), ([m, k + 2], [k])))
    if form == "batches" and (m + n) * k + m * n <= 600:
        batch = [choose((1, 2, 3, 0)) for _ in range(choose((1, 2)))]
        for shape in (first, second):
            own = [1 if chance(choose, 4) else length for length in batch]
            shape[:0] = own[choose(range(len(own) + 1)) :]
    dtypes = [choose(tuple(DTYPES))] * 2
    if chance(choose, 2):
        dtypes[1] = choose(tuple(DTYPES))
    keywords = {}
    if chance(choose, 4):
        keywords["dtype"] = choose(tuple(DTYPES))
    arrays = chance(choose, 8)
    floats = kind(keywords.get("dtype", "int8")) in "fc" or any(kind(dtype) in "fc" for dtype in dtypes)
    operands = []
    for i, (dtype, shape) in enumerate(zip(dtypes, (first, second), strict=True)):
        arrays = arrays or (i == 1 and chance(choose, 16))  # beside an operand that is not an Array
        values = ["small"]
        if kind(dtype) in "fc":
            values += ["normal", "wild", "special"] if kind(dtype) == "f" else ["normal"]
            if not {"complex64", "complex128"}.isdisjoint([*dtypes, keywords.get("dtype")]):
                values = ["small", "normal"]
            if not {"float16", "bfloat16"}.isdisjoint([*dtypes, keywords.get("dtype")]):
                values = [name for name in values if name != "wild"]
        elif kind(dtype) in "ui" and not floats:
            values += ["extreme"]
        operands.append(_draw_operand(choose, dtype, tuple(shape), choose(values), arrays))
    try:
        common = keywords.get("dtype") or np.promote_types(*(DTYPES[dtype] for dtype in dtypes)).name
    except TypeError:
        common = None
    keywords |= _draw_kernel(choose, rows, "matmul", common)
    if common == "float32" and not keywords.keys() & {"kernel", "tile"} and chance(choose, 8):
        keywords["precision"] = choose(("highest", "high", "medium"))
    return Problem(function, tuple(operands), keywords)


def _draw_axis(choose, ndim, op):
    form = choose(
        ("all", "one", "one", "some", "some", "all", "none", "wrong") if ndim else ("all", "one", "wrong")
    )
    if form == "all":
        return None
    if form == "wrong":
        return choose((ndim + 1, -ndim - 2, (0, 0), (ndim + 3,), (0,)))
    if form == "one":
        return choose(range(-max(ndim, 1), max(ndim, 1)))
    if form == "none" or op in ("argmin", "argmax"):
        return ()
    axes = choose(_permutations(ndim, choose(range(1, ndim + 1))))
    return tuple(axis - ndim if chance(choose, 3) else axis for axis in axes)


def _draw_reduction(choose, rows, op):
    shape = _draw_shape(choose, choose((1, 2, 2, 3, 0, 4, 5)))
    dtype = choose(tuple(DTYPES))
    keywords = {"axis": _draw_axis(choose, len(shape), op)}
    if chance(choose, 3):
        keywords["keepdims"] = True
    target = None
    if op in ("sum", "prod", "mean", "var", "std") and chance(choose, 3):
        target = keywords["dtype"] = choose(tuple(DTYPES))
        if op in ("var", "std") and kind(dtype) == "c" and kind(target) == "f":
            target = keywords["dtype"] = dtype  # NumPy's mean would drop the imaginary part, its squares not
    if op == "mean" and 0 in shape and kind(target or "float64") in "bui":
        del keywords["dtype"]  # the mean of an empty array is NaN, which no integer dtype holds
        target = None
    values = _values_for(op, dtype, target)
    if op in ("var", "std") and chance(choose, 2):
        keywords["ddof"] = choose((1, 0, 2, 0.5, math.nan, math.inf))
    if op in OPS_WITH_KERNEL and chance(choose, 4):
        kinds = kind(target or dtype)
        if op in ("min", "max") or kinds in "bui":
            keywords["initial"] = choose((1, 0, 3))
        else:
            keywords["initial"] = choose((1, 0.5, -2, 1) if op == "sum" else (1, -1, 0.5))
        if kinds == "f" and op in ("min", "max") and chance(choose, 4):
            keywords["initial"] = math.nan
        if kinds == "b":
            keywords["initial"] = bool(keywords["initial"])
        if chance(choose, 2):
            keywords["initial"] = choose(INITIAL)
            if kinds == "c" and isinstance(keywords["initial"], float | np.floating):
                keywords["initial"] = 2.5  # a non-finite value makes the bound's other component NaN
        if op == "sum" and chance(choose, 4):
            keywords["initial"] = choose((-0.0, np.float64(-0.0)))
    arrays = chance(choose, 8)
    operand = _draw_operand(choose, dtype, shape, choose(values), arrays)
    function = "reduce" if chance(choose, 3) else op
    if function == "reduce":
        keywords["op"] = op
    if function == "reduce" or op in OPS_WITH_KERNEL:
        keywords |= _draw_kernel(choose, rows, "reduce", dtype, target or dtype)
        refused = Problem(function, (operand,), keywords).answer.errors and not chance(choose, 8)
        if refused and keywords.keys() & {"kernel", "block_size"}:  # mostly a kernel that takes the problem
            keywords = {name: value for name, value in keywords.items() if name not in ("kernel", "block_size")}
            production = [row for row in rows or () if row.name in PRODUCTION_REDUCTIONS]
            keywords |= _draw_kernel(choose, production, "reduce", dtype, target or dtype)
    keywords = {name: value for name, value in keywords.items() if name != "axis" or value is not None}
    return Problem(function, (operand,), keywords)


def _values_for(op, dtype, target):
    """Keys of VALUES for which NumPy, or its widest type, gives the correct result."""
    if target and kind(target) in "bui" and kind(dtype) in "fc":
        return ["natural"]  # C casts these alike on every machine
    if op == "prod" and kind(target or dtype) in "fc":
        if kind(dtype) in "bui":
            return ["rare" if kind(dtype) in "bu" else "few"]
        return ["few" if kind(dtype) == "c" and kind(target or dtype) == "f" else "factors"]
    narrow = {"float16", "bfloat16"} & {dtype, target}
    if kind(dtype) in "bui":
        if op == "mean" and target and DTYPES[target].name in ("int64", "uint64"):
            return ["natural"]  # NumPy divides in float64, and C does not define the cast of values above 2⁶³
        exact = kind(dtype) != "b" and kind(target or dtype) in "bui" and op not in ("var", "std")
        return ["small", "few", "rare", *(["extreme"] if exact and not narrow else [])]
    if op in ("min", "max", "argmin", "argmax", "any", "all", "count_nonzero"):
        return ["small", "normal", "few", "rare", "special", "wild"]
    values = ["small", "normal"] + (["wild"] if not narrow else []) + (["zeros"] if op == "sum" else [])
    if kind(dtype) == "f" and kind(target or dtype) == "f":
        values += ["special"]
    if op in ("var", "std") and not narrow:
        values += ["shifted"]
    return values


def _draw_operator(choose, rows, function):
    if function == "@":
        first, second = _draw_matmul(choose, None, "@").operands
        return Problem("@", (replace(first, form="Array", layout=PLAIN), second))
    shape = _draw_shape(choose, choose((1, 2, 0, 3)), 200)
    operands = []
    for _ in range(2):
        dtype = choose(tuple(DTYPES))
        values = ["small", "few"] + (["normal", "special"] if kind(dtype) in "fc" else [])
        values += ["extreme"] if kind(dtype) in "ui" else []
        own = tuple(1 if chance(choose, 8) else n for n in shape[choose(range(len(shape) + 1)) :])
        form = choose(("Array", "Array", "scalar", "number", "array", "list"))
        if form in ("scalar", "number"):
            own = ()
        if form == "array" and not own:  # NumPy treats a 0-d array like a scalar here
            form = "scalar"
        if (form == "number" and dtype not in LIST_DTYPES) or (
            form == "list" and (dtype not in LIST_DTYPES or 0 in own or not own)
        ):
            form = "Array"
        operand = _draw_operand(choose, dtype, own, choose(values), form == "Array")
        operands.append(operand if form == "Array" else replace(operand, form=form, layout=PLAIN))
    if not any(operand.form == "Array" for operand in operands):
        operands[choose((0, 1))] = Operand(choose(tuple(DTYPES)), shape, "small", 3, "Array")
    if chance(choose, 16):
        operands[0] = replace(operands[0], shape=(*operands[0].shape, 7), form="Array", layout=PLAIN)
    if "number" in (x.form for x in operands) and "bfloat16" in (x.dtype for x in operands):
        # NumPy would widen bfloat16 beside a Python number
        operands = [replace(x, dtype="float32") if x.dtype == "bfloat16" else x for x in operands]
    return Problem(function, tuple(operands))


def _draw_data_movement(choose, rows, function):
    dtype = choose(tuple(DTYPES))
    ndim = choose((2, 1, 3, 0, 4, 5))
    shape = _draw_shape(choose, ndim)
    values, keywords = ["small", "normal"] if kind(dtype) in "fc" else ["small"], {}
    if kind(dtype) in "ui":
        values += ["extreme"]
    if kind(dtype) in "fc":
        values += ["special"]
    if function in FAMILIES["casts"] and chance(choose, 2):
        keywords["dtype"] = choose(tuple(DTYPES))
        if kind(keywords["dtype"]) in "bui" and kind(dtype) in "fc":
            values = ["natural"]
    if function == "transpose":
        if chance(choose, 2):
            axes = choose(_permutations(ndim))
            keywords["axes"] = tuple(axis - ndim if chance(choose, 4) else axis for axis in axes)
            if chance(choose, 8):
                keywords["axes"] = choose(((0, 0), (ndim, *range(1, ndim)), tuple(range(ndim + 1)), ()))
        kernel = _draw_kernel(choose, rows, "transpose", dtype)
        if not (kernel.get("kernel") == "copy" and "axes" in keywords):
            keywords |= kernel
    if function == "reverse":
        keywords |= _draw_kernel(choose, rows, "reverse", dtype)
    arrays = chance(choose, 8)
    operand = _draw_operand(choose, dtype, shape, choose(values), arrays)
    return Problem(function, (operand,), keywords)


def _draw_out(choose, problem):
    answer, first = problem.answer, problem.operands[0]
    name, shape = native(answer.dtype).name, answer.shape
    if chance(choose, 3):
        name = choose(tuple(DTYPES))
        if not casts(answer.dtype, name) and not chance(choose, 4):
            name = native(answer.dtype).name
        if name in ("float16", "bfloat16") and answer.bound is not None:
            name = native(answer.dtype).name  # otherwise it may be close to their largest number
        if problem.op == "mean" and kind(answer.dtype) in "bui" and DTYPES[name].itemsize < 4:
            name = answer.dtype.name  # in a narrow dtype NumPy's sum may overflow before the division
    if problem.named and problem.op in ("min", "max"):
        name = native(answer.dtype).name  # a rung may lack the dtype that `out` and `initial` require
    if chance(choose, 16):
        shape = choose(((*shape, 1), (1, *shape), tuple(n + 1 for n in shape) or (2,)))
    if first.form == "Array":
        return Out(name, shape)
    layout = _draw_layout(choose, shape, name, writeable=True)
    overlap = None
    if first.form in ("array", "Tagged", "Boxed") and not first.layout.read_only and chance(choose, 3):
        overlap = choose(range(0, first.bytes, DTYPES[first.dtype].itemsize))
    elif chance(choose, 16):
        layout = Layout(read_only=True)
    return Out(name, shape, layout, overlap)
