"""Products of random integers by every shape and type of mma.sync equal NumPy's, with fragments laid out as the
PTX ISA draws them; and ldmatrix gives each lane the elements that it draws."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from together import Variants

LANES = np.arange(32)[:, None]
TYPES = {  # bits, least and greatest number, the dtype of one that is not packed
    "f16": (16, -9, 9, np.float16),
    "bf16": (16, -9, 9, ml_dtypes.bfloat16),
    "tf32": (32, -9, 9, np.float32),
    "f64": (64, -9, 9, np.float64),
    "s8": (8, -128, 127, None),
    "u8": (8, 0, 255, None),
    "s4": (4, -8, 7, None),
    "u4": (4, 0, 15, None),
    "b1": (1, 0, 1, None),
}
SHAPES = {
    "f16": ((16, 8, 8), (16, 8, 16)),
    "bf16": ((16, 8, 8), (16, 8, 16)),
    "tf32": ((16, 8, 4), (16, 8, 8)),
    "f64": ((8, 8, 4),),
    "s8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    "u8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    "s4": ((8, 8, 32), (16, 8, 32), (16, 8, 64)),
    "u4": ((8, 8, 32), (16, 8, 32), (16, 8, 64)),
    "b1": ((8, 8, 128), (16, 8, 128), (16, 8, 256)),
}
CASES = [(kind, kind, shape) for kind in SHAPES for shape in SHAPES[kind]]
CASES += [
    (a, b, shape) for a, b in (("s8", "u8"), ("u8", "s8"), ("s4", "u4"), ("u4", "s4")) for shape in SHAPES[a]
]


def a_positions(m, k, bits):
    """The row and the column of each element of a, (32, elements of a lane). (PTX ISA, "Matrix Fragments")"""
    per = max(1, 32 // bits)  # elements of a register
    i = np.arange(m * k // 32)
    rows = LANES // 4 + (8 * (i // per % 2) if m == 16 else 0 * i)
    return rows, LANES % 4 * per + i % per + i // (per * (m // 8)) * 4 * per


def b_positions(k, bits):
    per = max(1, 32 // bits)
    i = np.arange(k * 8 // 32)
    return LANES % 4 * per + i % per + i // per * 4 * per, LANES // 4 + 0 * i


def c_positions(m):
    i = np.arange(m * 8 // 32)
    return LANES // 4 + i // 2 * 8, LANES % 4 * 2 + i % 2


def packed(elements, kind):
    """The registers of each lane: 32-bit words, or doubles."""
    bits, _, _, dtype = TYPES[kind]
    if dtype:
        return np.ascontiguousarray(elements.astype(dtype)).view(np.float64 if kind == "f64" else np.uint32)
    fields = elements.reshape(32, -1, 32 // bits).astype(np.int64) & ((1 << bits) - 1)
    return np.bitwise_or.reduce(fields << np.arange(0, 32, bits), axis=2).astype(np.uint32)


def product(a, b, shape):
    """The kernel of one instruction, on fragments in memory: the registers of lane 0, then those of lane 1, …"""
    m, n, k = shape
    word, letter, total, c_letter = {
        "f64": ("double", "d", "double", "d"),
        "f16": ("unsigned", "r", "float", "f"),
        "bf16": ("unsigned", "r", "float", "f"),
        "tf32": ("unsigned", "r", "float", "f"),
    }.get(a, ("unsigned", "r", "int", "r"))
    result = {"double": "f64", "float": "f32", "int": "s32"}[total]
    per = max(1, 32 // TYPES[a][0])  # elements of a register
    for_c, for_a, for_b = m * n // 32, m * k // 32 // per, k * n // 32 // per
    starts = (0, for_c, for_c + for_a, for_c + for_a + for_b)
    lists = ["{" + ", ".join(f"%{i}" for i in range(*ends)) + "}" for ends in itertools.pairwise(starts)]
    more = {"b1": ".and.popc"}.get(a, "")
    inputs = [f'"{letter}"(a[{for_a} * t + {i}])' for i in range(for_a)]
    inputs += [f'"{letter}"(b[{for_b} * t + {i}])' for i in range(for_b)]
    outputs = ", ".join(f'"+{c_letter}"(c[{for_c} * t + {i}])' for i in range(for_c))
    return f"""
__global__ void product(const {word} *a, const {word} *b, {total} *c)
{{
    const int t = threadIdx.x;
    asm volatile("mma.sync.aligned.m{m}n{n}k{k}.row.col.{result}.{a}.{b}.{result}{more} "
                 "{lists[0]}, {lists[1]}, {lists[2]}, {lists[0]};"
                 : {outputs} : {", ".join(inputs)});
}}
"""


PRODUCTS = Variants("product")
for case in CASES:
    PRODUCTS.add(product(*case))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-m{case[2][0]}k{case[2][2]}")
@pytest.mark.covering(1, most=6)
def test_products_equal_numpy(case):
    kind_a, kind_b, (m, n, k) = case
    launch = PRODUCTS[product(*case)][1, 32]
    total = {"f64": np.float64}.get(kind_a, np.float32 if TYPES[kind_a][3] else np.int32)

    @settings(max_examples=6, deadline=None, database=None)
    @given(st.integers(0, 2**32 - 1))
    def run(seed):
        random = np.random.default_rng(seed)
        a = random.integers(TYPES[kind_a][1], TYPES[kind_a][2] + 1, (m, k))
        b = random.integers(TYPES[kind_b][1], TYPES[kind_b][2] + 1, (k, n))
        c = random.integers(-9, 10, (m, n))
        bits = TYPES[kind_a][0]
        fragment = np.ascontiguousarray(c[c_positions(m)].astype(total))
        launch(packed(a[a_positions(m, k, bits)], kind_a), packed(b[b_positions(k, bits)], kind_b), fragment)
        assert_array_equal(fragment.astype(np.int64), (a @ b + c)[c_positions(m)])

    run()


def instruction(name, d, a, b, c):
    """The kernel of one instruction; d, a, b, c are the registers of a lane: (constraint, count)."""
    counts = [count for _, count in (d, a, b, c)]
    starts = np.cumsum([0, *counts]).tolist()
    lists = ["{" + ", ".join(f"%{i}" for i in range(*ends)) + "}" for ends in itertools.pairwise(starts)]
    words = ["float" if letter == "f" else "unsigned" for letter, _ in (d, a, b, c)]
    outputs = ", ".join(f'"={d[0]}"(d[{d[1]} * t + {i}])' for i in range(d[1]))
    inputs = ", ".join(
        f'"{letter}"({name}[{count} * t + {i}])'
        for name, (letter, count) in zip("abc", (a, b, c), strict=True)
        for i in range(count)
    )
    return f"""
__global__ void product(const {words[1]} *a, const {words[2]} *b, const {words[3]} *c, {words[0]} *d)
{{
    const int t = threadIdx.x;
    asm volatile("mma.sync.aligned.{name} {lists[0]}, {lists[1]}, {lists[2]}, {lists[3]};"
                 : {outputs} : {inputs});
}}
"""


def of_halves(k):
    return instruction(f"m16n8k{k}.row.col.f16.f16.f16.f16", ("r", 2), ("r", k // 4), ("r", k // 8), ("r", 2))


def of_quads(layouts, sums):
    d_kind, c_kind = sums
    registers = {"f16": ("r", 4), "f32": ("f", 8)}
    name = f"m8n8k4.{layouts[0]}.{layouts[1]}.{d_kind}.f16.f16.{c_kind}"
    return instruction(name, registers[d_kind], ("r", 2), ("r", 2), registers[c_kind])


SEEDS = st.integers(0, 2**32 - 1)
LAYOUTS = list(itertools.product(("row", "col"), repeat=2))
SUMS = [("f16", "f16"), ("f32", "f16"), ("f32", "f32")]
for k in (8, 16):
    PRODUCTS.add(of_halves(k))
for layouts in LAYOUTS:
    for sums in SUMS:
        PRODUCTS.add(of_quads(layouts, sums))


@pytest.mark.parametrize("k", [8, 16])
def test_sums_in_halves_equal_numpy(k):
    launch = PRODUCTS[of_halves(k)][1, 32]

    @settings(max_examples=6, deadline=None, database=None)
    @given(SEEDS)
    def run(seed):
        random = np.random.default_rng(seed)
        a, b, c = (random.integers(-9, 10, shape) for shape in ((16, k), (k, 8), (16, 8)))
        d = np.zeros((32, 4), np.float16)
        launch(
            *(packed(a[a_positions(16, k, 16)], "f16"), packed(b[b_positions(k, 16)], "f16")),
            *(packed(c[c_positions(16)], "f16"), d.view(np.uint32)),
        )
        assert_array_equal(d.astype(np.int64), (a @ b + c)[c_positions(16)])

    run()


# m8n8k4: lanes 4 q to 4 q + 3 and those 16 above multiply matrices of their own. (PTX ISA, "Matrix Fragments for
# mma.m8n8k4 with .f16 floating point type")
QUAD = LANES // 4 % 4
UPPER = np.where(LANES < 16, 0, 4)


def quad_operand_positions(i, across):
    """The index along m or n and that along k: a lane has a row of four, or, `across`, a column of four."""
    along = LANES % 4 + UPPER + 0 * i
    return (i + UPPER, LANES % 4 + 0 * i) if across else (along, i + 0 * LANES)


def quad_sum_places(kind):
    i = np.arange(8)
    if kind == "f16":
        return LANES % 4 + UPPER + 0 * i, i + 0 * LANES
    return (LANES & 1) + (i & 2) + UPPER, (i & 4) + (LANES & 2) + (i & 1)


@pytest.mark.parametrize("sums", SUMS, ids="-".join)
@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
@pytest.mark.covering(most=4)
def test_products_of_quads_equal_numpy(layouts, sums):
    d_kind, c_kind = sums
    launch = PRODUCTS[of_quads(layouts, sums)][1, 32]
    dtypes = {"f16": np.float16, "f32": np.float32}

    @settings(max_examples=6, deadline=None, database=None)
    @given(SEEDS)
    def run(seed):
        random = np.random.default_rng(seed)
        a, b, c = (random.integers(-9, 10, (4, *shape)) for shape in ((8, 4), (4, 8), (8, 8)))
        row, p = quad_operand_positions(np.arange(4), layouts[0] == "col")
        column, q = quad_operand_positions(np.arange(4), layouts[1] == "row")
        fragment = np.ascontiguousarray(c[(QUAD, *quad_sum_places(c_kind))].astype(dtypes[c_kind]))
        d = np.zeros((32, 8), dtypes[d_kind])
        words = [operand.view(np.uint32) if operand.dtype == np.float16 else operand for operand in (fragment, d)]
        launch(packed(a[QUAD, row, p], "f16"), packed(b[QUAD, q, column], "f16"), *words)
        assert_array_equal(d.astype(np.int64), (a @ b + c)[(QUAD, *quad_sum_places(d_kind))])

    run()


LOAD = """
__global__ void load(const uint4 *x, const int *rows, unsigned *y)
{
    __shared__ uint4 s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    s[t + 32] = x[t + 32];
    __syncwarp();
    const unsigned at = (unsigned)__cvta_generic_to_shared(&s[rows[t]]);
    asm volatile("ldmatrix.sync.aligned.m8n8.xCOUNT.MORE b16 {REGISTERS}, [%COUNT];"
                 : OUTPUTS : "r"(at) : "memory");
}
"""


def load(count, transposed):
    names = {"COUNT": str(count), ".MORE b16": (".trans" if transposed else "") + ".shared.b16"}
    names["REGISTERS"] = ", ".join(f"%{i}" for i in range(count))
    names["OUTPUTS"] = ", ".join(f'"=r"(y[{count} * t + {i}])' for i in range(count))
    source = LOAD
    for name, text in names.items():
        source = source.replace(name, text)
    return source


LOADS = Variants("load")
for count in (1, 2, 4):
    for transposed in (False, True):
        LOADS.add(load(count, transposed))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_equals_numpy(count, transposed):
    launch = LOADS[load(count, transposed)][1, 32]

    @settings(max_examples=6, deadline=None, database=None)
    @given(st.integers(0, 2**32 - 1))
    def run(seed):
        random = np.random.default_rng(seed)
        x = random.integers(0, 1 << 16, (64, 8)).astype(np.uint16)
        rows, y = random.integers(0, 64, 32).astype(np.int32), np.zeros((32, count), np.uint32)
        launch(x.view(np.uint32), rows, y)
        for i in range(count):
            matrix = x[rows[8 * i : 8 * i + 8]]
            matrix = np.ascontiguousarray(matrix.T) if transposed else matrix
            assert_array_equal(y[:, i], matrix.view(np.uint32).reshape(32))

    run()
