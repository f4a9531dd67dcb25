"""The functions of the CUDA Math API on the CPU device keep the error bounds that the CUDA C++ Programming Guide
states for them (appendix "Mathematical Functions", ulps from the correctly rounded result). The oracle is mpmath.
"""

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.testing import assert_array_equal
from together import Kernels

import smemkit

KERNELS = Kernels()  # all but those that compute a table of functions
SIGNED = [-30, -7.3, -2, -0.7, -1e-3, 1e-9, 0.1, 0.5, 1, 1.7, 3, 9.5, 27]
POSITIVE = [1e-12, 1e-3, 0.1, 0.5, 0.99, 1, 1.5, 3, 7.9, 20, 1e3, 1e10]
UNIT = [-0.999, -0.75, -0.3, -1e-6, 1e-9, 0.1, 0.5, 0.75, 0.9, 0.9999]
SMALL = [-7.9, -5, -2.2, -0.5, 1e-3, 0.3, 1, 3.6, 5.1, 7.7]  # where the bounds of j0 and its kin are in ulps
ABOVE_0 = [1e-3, 0.3, 1, 3.6, 5.1, 7.7]
PROBABILITY = [1e-30, 1e-6, 0.01, 0.2, 0.5, 0.7, 0.99, 0.99999]
PARTS = [-2.3, -0.75, 0.3, 0.5, 0.999, 1, 7.25]

# function of x (`f` after its name gives the one for float): arguments, bound for float, for double, oracle
ONE = {
    "rsqrt": (POSITIVE, 2, 1, lambda x: 1 / mp.sqrt(x)),
    "sqrt": (POSITIVE, 0, 0, mp.sqrt),
    "cbrt": (POSITIVE, 1, 1, mp.cbrt),
    "rcbrt": (POSITIVE, 1, 1, lambda x: 1 / mp.cbrt(x)),
    "exp": (SIGNED, 2, 1, mp.exp),
    "exp2": (SIGNED, 2, 1, lambda x: mpf(2) ** x),
    "exp10": (SIGNED, 2, 1, lambda x: mpf(10) ** x),
    "expm1": (SIGNED, 1, 1, mp.expm1),
    "log": (POSITIVE, 1, 1, mp.log),
    "log2": (POSITIVE, 1, 1, lambda x: mp.log(x, 2)),
    "log10": (POSITIVE, 2, 1, mp.log10),
    "log1p": (POSITIVE, 1, 1, mp.log1p),
    "sin": (SIGNED, 2, 2, mp.sin),
    "cos": (SIGNED, 2, 2, mp.cos),
    "tan": (SIGNED, 4, 2, mp.tan),
    "sinpi": (PARTS, 1, 2, mp.sinpi),
    "cospi": (PARTS, 1, 2, mp.cospi),
    "asin": (UNIT, 2, 2, mp.asin),
    "acos": (UNIT, 2, 2, mp.acos),
    "atan": (SIGNED, 2, 2, mp.atan),
    "sinh": (SIGNED, 3, 2, mp.sinh),
    "cosh": (SIGNED, 2, 1, mp.cosh),
    "tanh": (SIGNED, 2, 1, mp.tanh),
    "asinh": (SIGNED, 3, 3, mp.asinh),
    "acosh": ([1, 1.001, 2, 30, 1e8], 4, 3, mp.acosh),
    "atanh": (UNIT, 3, 2, mp.atanh),
    "erf": (SIGNED, 2, 2, mp.erf),
    "erfc": ([-5, -0.5, 0.1, 1, 3, 5, 8], 4, 5, mp.erfc),
    "erfinv": (UNIT, 2, 5, mp.erfinv),
    "erfcinv": (PROBABILITY, 4, 6, lambda x: erfc_inverse(x)),
    "erfcx": ([-8, -2, -0.5, 0.1, 1, 4, 9.9, 10, 26, 30, 1e4], 4, 4, lambda x: mp.exp(x * x) * mp.erfc(x)),
    "normcdf": ([-12, -5, -1, -0.1, 0, 0.5, 2, 6], 5, 5, mp.ncdf),
    "normcdfinv": (PROBABILITY, 5, 8, lambda x: -mp.sqrt(2) * erfc_inverse(2 * x)),
    "lgamma": ([0.1, 0.5, 0.9, 1.5, 3, 10, 1e5], 6, 4, lambda x: mp.log(abs(mp.gamma(x)))),
    "tgamma": ([-1.5, 0.1, 0.5, 1, 3.3, 10, 25], 5, 10, mp.gamma),
    "j0": (SMALL, 9, 7, lambda x: mp.besselj(0, x)),
    "j1": (SMALL, 9, 7, lambda x: mp.besselj(1, x)),
    "y0": (ABOVE_0, 9, 7, lambda x: mp.bessely(0, x)),
    "y1": (ABOVE_0, 9, 7, lambda x: mp.bessely(1, x)),
    "cyl_bessel_i0": ([*SIGNED, 29.9, 30.1, 80], 6, 6, lambda x: mp.besseli(0, x)),
    "cyl_bessel_i1": ([*SIGNED, 29.9, 30.1, 80], 6, 6, lambda x: mp.besseli(1, x)),
}
# with more arguments than x; F stands for the letter f
MORE = {
    "atan2F(x, T(-0.7))": (SIGNED, 3, 2, lambda x, c: mp.atan2(x, c(-0.7))),
    "powF(x, T(1.7))": (POSITIVE[:-1], 4, 2, lambda x, c: x ** c(1.7)),
    "hypotF(x, T(3))": (SIGNED, 3, 2, lambda x, c: mp.sqrt(x * x + 9)),
    "rhypotF(x, T(3))": (SIGNED, 2, 1, lambda x, c: 1 / mp.sqrt(x * x + 9)),
    "norm3dF(x, T(2), T(3))": (SIGNED, 3, 2, lambda x, c: mp.sqrt(x * x + 13)),
    "rnorm3dF(x, T(2), T(3))": (SIGNED, 2, 1, lambda x, c: 1 / mp.sqrt(x * x + 13)),
    "norm4dF(x, T(1), T(2), T(3))": (SIGNED, 3, 2, lambda x, c: mp.sqrt(x * x + 14)),
    "rnorm4dF(x, T(1), T(2), T(3))": (SIGNED, 2, 1, lambda x, c: 1 / mp.sqrt(x * x + 14)),
    "fmaF(x, x, T(-2))": (SIGNED, 0, 0, lambda x, c: x * x - 2),
    "fmodF(x, T(0.3))": (SIGNED, 0, 0, lambda x, c: x - c(0.3) * (mp.floor if x > 0 else mp.ceil)(x / c(0.3))),
    "ynF(2, x)": (ABOVE_0, 7, 7, lambda x, c: mp.bessely(2, x)),  # ceil(2 + 2.5 n)
    "sqrtF(x * x) + logbF(x) + ilogbF(x)": (
        POSITIVE[:-1], 1, 1, lambda x, c: x + 2 * mp.floor(mp.log(x, 2)),
    ),
    "ldexpF(x, 3) + scalbnF(x, -2) - nextafterF(x, x)": (SIGNED, 1, 1, lambda x, c: 7.25 * x),
}  # fmt: skip
# approximations, for float only: the guide's bound as a function of x
INTRINSICS = {
    "__fdividef(x, 3.0f)": (SIGNED, lambda x: 2, lambda x: x / 3),
    "__expf(x)": (SIGNED, lambda x: 2 + np.floor(abs(1.173 * x)), mp.exp),
    "__exp10f(x)": (SIGNED, lambda x: 2 + np.floor(abs(2.97 * x)), lambda x: mpf(10) ** x),
    "__logf(x)": ([1e-3, 0.3, 2.5, 1e5], lambda x: 3, mp.log),
    "__log2f(x)": ([1e-3, 0.3, 2.5, 1e5], lambda x: 2, lambda x: mp.log(x, 2)),
    "__log10f(x)": ([1e-3, 0.3, 2.5, 1e5], lambda x: 3, mp.log10),
    "__frsqrt_rn(x)": (POSITIVE, lambda x: 0, lambda x: 1 / mp.sqrt(x)),
    "__frcp_rn(x)": (SIGNED, lambda x: 0, lambda x: 1 / x),
}


def erfc_inverse(y):
    """By Newton's method, since mpmath has erfinv only, which is not exact near 1."""
    x = mp.erfinv(1 - y) if y > 0.1 else mp.sqrt(-mp.log(y))
    for _ in range(8):
        x += mp.erfc(x) * mp.log(mp.erfc(x) / y) / (2 / mp.sqrt(mp.pi) * mp.exp(-x * x))
    return x


def run(expressions, arguments, dtype):
    """The kernel's results: a row for each expression, with its own arguments."""
    width = max(map(len, arguments))
    x = np.array([[*row, *[0.5] * (width - len(row))] for row in arguments], dtype)
    lines = "\n".join(f"case {i}: y[i] = {expression}; break;" for i, expression in enumerate(expressions))
    source = (
        f"typedef {'float' if dtype == np.float32 else 'double'} T;\n"
        "__global__ void k(const T *xs, T *ys)\n{\n"
        "const T x = xs[blockIdx.x * blockDim.x + threadIdx.x];\n"
        "T *y = ys + blockIdx.x * blockDim.x;\nconst int i = threadIdx.x;\n"
        f"switch (blockIdx.x) {{\n{lines}\n}}\n}}"
    )
    y = np.full_like(x, np.nan)
    smemkit.Kernel(source)[len(expressions), width](x, y)
    return x, y


def ulps(got, exact, dtype):
    """The distance of a result from the correctly rounded one, in ulps of that."""
    rounded = dtype(float(exact)) if dtype == np.float64 else dtype(mp.nstr(exact, 30))
    return abs(float(got) - float(rounded)) / float(np.spacing(abs(rounded)))


def assert_within(rows, dtype):
    """`rows`: expression, arguments, bound of an argument, oracle of an argument and of constants."""
    x, y = run([row[0] for row in rows], [row[1] for row in rows], dtype)
    wrong = []
    with mp.workprec(160):
        for (name, arguments, bound, oracle), xs, ys in zip(rows, x, y, strict=True):
            for argument, got in list(zip(xs, ys, strict=True))[: len(arguments)]:
                error = ulps(got, oracle(mpf(float(argument))), dtype)
                if not error <= bound(float(argument)):
                    wrong.append(f"{name} at {argument}: {error} ulp")
    assert not wrong, "\n".join(wrong)


def constants_of(dtype):
    return lambda value: mpf(float(dtype(value)))


@pytest.mark.parametrize(("dtype", "suffix", "column"), [(np.float32, "f", 1), (np.float64, "", 2)])
def test_functions_keep_the_guides_bounds(dtype, suffix, column):
    rows = [(f"{name}{suffix}(x)", row[0], lambda x, b=row[column]: b, row[3]) for name, row in ONE.items()]
    assert_within(rows, dtype)


@pytest.mark.parametrize(("dtype", "suffix", "column"), [(np.float32, "f", 1), (np.float64, "", 2)])
def test_functions_of_several_arguments_keep_the_guides_bounds(dtype, suffix, column):
    c = constants_of(dtype)
    rows = [
        (name.replace("F(", f"{suffix}("), row[0], lambda x, b=row[column]: b, lambda x, f=row[3]: f(x, c))
        for name, row in MORE.items()
    ]
    assert_within(rows, dtype)


def test_approximations_keep_the_guides_bounds():
    assert_within([(name, *row) for name, row in INTRINSICS.items()], np.float32)
    x, y = run(["__sinf(x)", "__cosf(x)", "__tanf(x) * __cosf(x)"], [[-3, -1, 0.1, 0.5, 2, 3]] * 3, np.float32)
    exact = np.array([np.sin(x[0]), np.cos(x[1]), np.sin(x[2])])
    assert (abs(y - exact) <= 2**-21.19).all()  # the guide's bound of __cosf, in [-pi, pi]


def test_bessel_functions_keep_the_guides_absolute_bounds():
    for dtype, suffix, bound in (np.float32, "f", 2.2e-6), (np.float64, "", 5e-12):
        names = [f"{name}{suffix}({n}x)" for name, n in (("jn", "2, "), ("j0", ""), ("y1", ""), ("yn", "3, "))]
        x, y = run(names, [SMALL, [9.5, 30, 100], [9.5, 30, 100], [12, 30, 100]], dtype)
        oracles = [(mp.besselj, 2), (mp.besselj, 0), (mp.bessely, 1), (mp.bessely, 3)]
        for (function, n), xs, ys, count in zip(oracles, x, y, (len(SMALL), 3, 3, 3), strict=True):
            exact = [float(function(n, mpf(float(argument)))) for argument in xs[:count]]
            assert abs(ys[:count] - exact).max() <= bound


OVERLOADED = "sin cos exp log sqrt rsqrt cbrt rcbrt sinpi cospi erfinv erfcinv normcdf erfcx j0 j1 y0 y1 exp10"
SIZES = "".join(f"static_assert(sizeof {name}(x) == 4);\n" for name in OVERLOADED.split())
KERNELS.add(
    "__global__ void overloads(float *y) {\nconst float x = y[0];\n" + SIZES + "float whole, s, c; int n;\n"
    "y[1] = modf(x, &whole); y[2] = whole; y[3] = pow(x, 2.0f); y[4] = remquo(x, 2.0f, &n) + n;\n"
    "sincos(x, &s, &c); y[5] = s * s + c * c; sincospi(0.5f, &s, &c); y[6] = s + c;\n"
    "y[7] = jn(1, x) + yn(1, x);\n}"
)


def test_overloads_for_float_return_float():
    y = np.full(8, 3.5, np.float32)
    KERNELS["overloads"][1, 1](y)
    assert_array_equal(y[1:5], [0.5, 3, 12.25, 1.5])  # 3.5 = 2 * 2 - 0.5
    assert abs(y[5:7] - 1).max() < 1e-6


NORMS = """
    __global__ void norms(int n, const float *x, const double *d, double *y)
    {
        y[0] = normf(n, x); y[1] = rnormf(n, x); y[2] = norm(n, d); y[3] = rnorm(n, d);
    }"""


def test_norms_of_arrays():
    norms, y = smemkit.Kernel(NORMS), np.zeros(4)
    x = np.array([1e30, 2e30, 2e30], np.float32)
    norms[1, 1](3, x, np.array([1e200, 4e200, 8e200]), y)
    assert np.allclose(y, [3e30, 1 / 3e30, 9e200, 1 / 9e200], rtol=1e-6)
    report = smemkit.check(norms[1, 1], 4, x, np.zeros(4), y)
    assert [fault.kind for fault in report.faults] == ["out_of_bounds"]


# x * y + z, whose results to nearest and directed differ by one ulp
FMA = [
    (1 + 2**-30, 1 - 2**-30, -1.0),
    (3.0, 1 / 3, 2.0**-70),
    (-7.1, 0.3, 1e5),
    (1e10, 1e-10, -1.0),
    (2.0, 3.0, -6.0),
]


FUSED = {"__fmaf": np.float32, "__fma": np.float64, "__fmaf_ieee": np.float32}
for name, dtype in FUSED.items():
    kind = "float" if dtype == np.float32 else "double"
    KERNELS.add(
        f"__global__ void fused{name}(const {kind} *x, {kind} *y) {{ const int i = threadIdx.x, n = blockDim.x;\n"
        + "".join(
            f"y[{row} * n + i] = {name}_{mode}(x[3 * i], x[3 * i + 1], x[3 * i + 2]);\n"
            for row, mode in enumerate(("rn", "rd", "ru", "rz"))
        )
        + "}"
    )


@pytest.mark.parametrize(("name", "dtype"), FUSED.items())
def test_fused_operations_with_a_direction(name, dtype):
    x = np.array(FMA, dtype)
    y = np.zeros((4, len(FMA)), dtype)
    KERNELS[f"fused{name}"][1, len(FMA)](x, y)
    with mp.workprec(300):
        for (a, b, c), (near, down, up, zero) in zip(x.astype(float), y.T, strict=True):
            exact = mpf(a) * mpf(b) + mpf(c)
            assert mpf(float(down)) <= exact <= mpf(float(up))
            assert up == down == exact or up == np.nextafter(down, dtype(np.inf))
            assert near in (down, up)
            assert zero == (up if exact < 0 else down)


KERNELS.add("""
__global__ void directed(long long x, double *y)
{
    y[0] = __ll2double_rd(x); y[1] = __ll2double_ru(x); y[2] = __ll2double_rz(-x);
    y[3] = __ull2double_ru(x); y[4] = __ull2double_rz(x);
}
""")


def test_integers_to_double_with_a_direction():
    y, x = np.zeros(5), 2**60 + 1
    KERNELS["directed"][1, 1](x, y)
    assert_array_equal(y, [2.0**60, 2.0**60 + 256, -(2.0**60), 2.0**60 + 256, 2.0**60])


# expression of the unsigned a = 0xf00d1234, b = 0x00f0ff0f: its value
INTEGERS = {
    "__clz(b)": 8,
    "__clzll((long long)b)": 40,
    "__ffs(a)": 3,
    "__ffsll((long long)b << 8)": 9,
    "__popc(a)": 12,
    "__brev(a)": 0x2C48B00F,
    "__byte_perm(a, b, 0x5140)": 0xFF120F34,
    "__funnelshift_l(a, b, 8)": 0xF0FF0FF0,
    "__funnelshift_rc(a, b, 40)": 0x00F0FF0F,
    "__mulhi((int)a, (int)b)": ((0xF00D1234 - (1 << 32)) * 0x00F0FF0F >> 32) & 0xFFFFFFFF,
    "__umulhi(a, b)": 0xF00D1234 * 0x00F0FF0F >> 32,
    "__umul24(a, b)": (0x0D1234 * 0xF0FF0F) & 0xFFFFFFFF,
    "__sad((int)a, (int)b, 1u)": 0x00F0FF0F + (0x100000000 - 0xF00D1234) + 1,
    "__hadd((int)a, (int)b)": (((0xF00D1234 - (1 << 32)) + 0x00F0FF0F) >> 1) & 0xFFFFFFFF,
    "__rhadd(3, 6)": 5,
    "__uhadd(a, b)": (0xF00D1234 + 0x00F0FF0F) >> 1,
    "__nv_bswap32(a)": 0x34120DF0,
    "__nv_bswap16(0x1234)": 0x3412,
    "(unsigned)(__nv_bswap64(a) >> 32)": 0x34120DF0,
    "__dp2a_lo(0x00020003, 0x04050607, 1)": 3 * 7 + 2 * 6 + 1,
    "__dp2a_hi(0x0002fffd, 0x04ff0607, 1)": (-3 * -1 + 2 * 4 + 1) & 0xFFFFFFFF,
    "__dp2a_hi(0x0002fffdu, 0x04ff0607u, 1u)": (0xFFFD * 0xFF + 2 * 4 + 1) & 0xFFFFFFFF,
    "__dp4a(0x01020304, 0x01010101, 5)": 15,
    "__fns(0xf0u, 0, 3)": 6,
    "__fns(0xf0u, 5, -2)": 4,
    "__fns(0xf0u, 5, 0)": 5,
    "__fns(0xf0u, 5, 9)": 0xFFFFFFFF,
    "__vimax3_s32(-3, 7, 2)": 7,
    "__vimin3_u32(3u, 7u, 2u)": 2,
    "__viaddmax_s32(-3, 1, -9)": 0xFFFFFFFE,
    "__viaddmax_s32_relu(-3, 1, -9)": 0,
    "__viaddmin_s32(-3, 1, -9)": 0xFFFFFFF7,
    "__vimax3_s16x2(0x0001fffe, 0x0003ffff, 0x0002fffd)": 0x0003FFFF,
    "__vimin3_u16x2(0x0001fffe, 0x0003ffff, 0x0002fffd)": 0x0001FFFD,
    "__viaddmax_s16x2_relu(0x0001fffe, 0x0003ffff, 0x00020001)": 0x00040001,
    "__vimax_s16x2_relu(0x0001fffe, 0x8000ffff)": 0x00010000,
    "__vibmax_s32(-3, 7, &first) + 100 * first": 7,
    "__vibmin_u16x2(0x00010005, 0x00020003, &first, &second) + 16 * first + 256 * second": 0x00010013,
}


LINES = "".join(f"y[{i}] = {expression};\n" for i, expression in enumerate(INTEGERS))
KERNELS.add(f"__global__ void integers(unsigned a, unsigned b, unsigned *y) {{ bool first, second;\n{LINES}}}")


def test_integer_functions():
    y = np.zeros(len(INTEGERS), np.uint32)
    KERNELS["integers"][1, 1](0xF00D1234, 0x00F0FF0F, y)
    assert dict(zip(INTEGERS, map(hex, y), strict=True)) == {name: hex(v) for name, v in INTEGERS.items()}
