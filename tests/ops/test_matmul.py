"""Every kernel of matmul: exact on small integers, within k·eps on random numbers, on all shapes."""

import math
from itertools import cycle
from itertools import product as product_of

import numpy as np
import pytest
from calls import TF32_KERNELS
from cases import DTYPES, each_kernel, each_variant, expect_launches, integers, integers_for, on, parts_of, poison
from numpy.testing import assert_array_equal
from tiers import times

import smemkit
from smemkit import _core
from smemkit.bench import fit, suites
from smemkit.table.planning import PlannedLaunch

U = 2.0**-24  # the unit roundoff of float32
SHAPES = [
    (1, 1, 1),
    (2, 3, 5),
    (31, 33, 32),
    (32, 32, 32),
    (33, 31, 65),
    (67, 41, 13),
    (1, 131, 1),
    (131, 1, 1),
    (1, 1, 131),
    (2, 257, 3),
]  # m, k, n


def product(kernel, device, a, b):
    """The product as a NumPy array, computed into a poisoned output."""
    out = on(device, poison((a.shape[0], b.shape[1]), a.dtype))
    with expect_launches(1):
        assert kernel(on(device, a), on(device, b), out=out) is out
    return out.numpy()


def within_bound(result, a, b, precision="highest"):
    """Whether |C - Ĉ| <= (k + 2)·2⁻²⁴·|A||B|, the bound for float32 in any order of additions; with operands of 11
    bits 2⁻¹⁰·|A||B| more. False for NaN."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    unit = (a.shape[1] + 2) * U + (2**-10 if precision == "high" else 0)
    return np.all(np.abs(result - a @ b) <= unit * (np.abs(a) @ np.abs(b)))


@each_kernel("matmul")
def test_small_integers_are_exact(device, kernel):
    for m, k, n in SHAPES:
        a, b = integers((m, k), kernel.dtype), integers((k, n), kernel.dtype, seed=1)
        result = product(kernel, device, a, b)
        assert_array_equal(result, a.astype(int) @ b.astype(int), err_msg=f"{m}, {k}, {n}")
        assert result.dtype == kernel.dtype


def exact(a, b):
    """The exact product of small integers, computed in int64, complex128 or float64, which is fastest."""
    wide = {"c": np.complex128, "i": np.int64, "u": np.int64, "b": np.int64}.get(a.dtype.kind, np.float64)
    return (a.astype(wide) @ b.astype(wide)).astype(a.dtype)


@each_kernel("matmul", dtypes=DTYPES)
def test_every_dtype_is_exact_on_small_integers(device, kernel):
    for m, k, n in (33, 1, 31), (5, 40, 7), (32, 32, 33):
        a, b = integers((m, k), kernel.dtype), integers((k, n), kernel.dtype, seed=1)
        if a.dtype.kind == "c":
            a, b = a + 1j * integers((m, k), int, seed=2), b - 2j * integers((k, n), int, seed=3)
        a, b = a.astype(kernel.dtype), b.astype(kernel.dtype)
        result = product(kernel, device, a, b)
        assert result.dtype == kernel.dtype
        assert_array_equal(result, exact(a, b), err_msg=f"{m}, {k}, {n}")


BATCHES = [  # of a and of b
    ((7,), (7,)),
    ((7,), ()),
    ((), (7,)),
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((3, 1), (1, 4)),
    ((2, 1, 4), (3, 1)),
    ((1,), (5,)),
]


@each_kernel("matmul")
@pytest.mark.parametrize(("a_batch", "b_batch"), BATCHES, ids=str)
@pytest.mark.covering(1)
def test_batches_are_broadcast(device, kernel, a_batch, b_batch):
    a, b = integers((*a_batch, 33, 5), kernel.dtype), integers((*b_batch, 5, 34), kernel.dtype, seed=1)
    expected = a @ b
    out = on(device, poison(expected.shape, kernel.dtype))
    assert kernel(on(device, a), on(device, b), out=out) is out
    assert_array_equal(out.numpy(), expected)


@each_kernel("matmul")
def test_regular_batch_is_one_launch(device, kernel):
    a, b = integers((6, 5, 4), kernel.dtype), integers((4, 3), kernel.dtype, seed=1)
    with expect_launches(1):
        assert_array_equal(kernel(a, b, device=device), a @ b)


@each_kernel("matmul")
def test_vectors_are_rows_and_columns(device, kernel):
    x, y, a = integers(40, kernel.dtype), integers(40, kernel.dtype, seed=1), integers((40, 33), kernel.dtype)
    scalar = kernel(x, y, device=device)
    assert (type(scalar), scalar) == (type(x @ y), x @ y)
    assert_array_equal(kernel(x, a, device=device), x @ a, strict=True)
    assert_array_equal(kernel(a.T, y, device=device), a.T @ y, strict=True)
    batch = np.stack([a, 2 * a])
    assert_array_equal(kernel(x, batch, device=device), x @ batch, strict=True)


@each_kernel("matmul", devices=["cuda:0"])  # the CPU takes a minute
def test_batches_beyond_65535(device, kernel):
    a, b = integers((65535 + 3, 2, 3), kernel.dtype), integers((3, 2), kernel.dtype, seed=1)
    assert_array_equal(kernel(a, b, device=device), a @ b)


@each_variant("matmul", dtypes=DTYPES)
def test_every_variant_guards_its_edges(device, kernel):
    tile = kernel.options[0][1]
    for m, k, n in (tile - 1, tile, tile + 1), (tile + 1, 2 * tile + 1, tile - 1), (2 * tile, 1, tile):
        a, b = integers((m, k), kernel.dtype), integers((k, n), kernel.dtype, seed=1)
        assert_array_equal(product(kernel, device, a, b), exact(a, b))


@each_kernel("matmul", dtypes=["float32"])
@pytest.mark.parametrize("shape", [(37, 1, 29), (31, 67, 33), (5, 1009, 3)], ids=str)
@pytest.mark.covering(1)
def test_random_numbers_are_within_their_bound(device, kernel, shape):
    m, k, n = shape
    rng = np.random.default_rng(k)
    a, b = ((rng.standard_normal(s) * 10 ** rng.uniform(-3, 3, s)).astype(kernel.dtype) for s in ((m, k), (k, n)))
    result = product(kernel, device, a, b)
    assert within_bound(result, a, b, kernel.precision)
    # TF32 is what tensor cores multiply; the errors of many products of two bfloat16 per number cancel
    cancel = kernel.row.name == "wgmma_single" and k > 100
    assert kernel.precision == "highest" or cancel or not within_bound(result, a, b)


@each_kernel("matmul", dtypes=["float16", "bfloat16"])
@pytest.mark.covering(1)
def test_16_bit_floats_are_added_up_in_32_bits(device, kernel):
    a, b = (np.ones(shape, kernel.dtype) for shape in ((2, 2080), (2080, 3)))  # 16 bits count to 2048, or to 256
    assert_array_equal(product(kernel, device, a, b), np.full((2, 3), 2080, np.float32).astype(kernel.dtype))


def test_kernels_of_lower_precision_say_so():
    a = integers((40, 40), np.float32)
    plans = {
        row.name: smemkit.plan(smemkit.matmul, a, a, kernel=row.name, device="cpu")
        for row in smemkit.kernels("matmul")
        if "float32" in row.dtypes
    }
    assert {name for name, plan in plans.items() if plan.precision == "high"} == set(TF32_KERNELS)
    assert {plan.precision for plan in plans.values()} == {"high", "highest"}
    assert (
        smemkit.plan(smemkit.matmul, a, a, kernel="mma_large", precision="high", device="cpu").precision == "high"
    )


def test_bound_detects_a_missing_product():
    a, b = np.ones((1, 1009), np.float32), np.ones((1009, 1), np.float32)
    assert within_bound(np.float32([[1009]]), a, b)
    assert not within_bound(np.float32([[1008]]), a, b)
    assert not within_bound(np.float32([[np.nan]]), a, b)


@each_kernel("matmul", dtypes=["float32"])
def test_infinities_and_nans_stay_in_their_rows_and_columns(device, kernel):
    a, b = integers((35, 34), kernel.dtype), integers((34, 33), kernel.dtype, seed=1)
    a[3, 5], a[33, 33], b[7, 11] = np.inf, np.nan, np.nan
    with np.errstate(invalid="ignore"):
        assert_array_equal(product(kernel, device, a, b), a @ b)


@each_kernel("matmul", dtypes=["int32"])
def test_integers_wrap_around(device, kernel):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-(2**31), 2**31, shape).astype(kernel.dtype) for shape in ((33, 65), (65, 31)))
    assert_array_equal(product(kernel, device, a, b), a @ b)


@each_kernel("matmul")
def test_numpy_in_numpy_out(device, kernel):
    a, b = integers((33, 5), kernel.dtype), integers((5, 31), kernel.dtype, seed=1)
    result = kernel(a, b, device=device)
    assert type(result) is np.ndarray
    assert_array_equal(result, a @ b, strict=True)


@each_kernel("matmul")
def test_numpy_out_is_overwritten_and_returned(device, kernel):
    a, b = integers((33, 5), kernel.dtype), integers((5, 31), kernel.dtype, seed=1)
    out = poison((33, 31), kernel.dtype)
    assert kernel(a, b, out=out, device=device) is out
    assert_array_equal(out, a @ b)


@each_kernel("matmul")
def test_a_product_with_k_0_is_zero_and_launches_nothing(device, kernel):
    out = on(device, poison((3, 2), kernel.dtype))
    with expect_launches(0):
        kernel(on(device, integers((3, 0), kernel.dtype)), on(device, integers((0, 2), kernel.dtype)), out=out)
        host = kernel(integers((3, 0), kernel.dtype), integers((0, 2), kernel.dtype), device=device)
    assert_array_equal(out.numpy(), np.zeros((3, 2)))
    assert_array_equal(host, np.zeros((3, 2)))


@each_kernel("matmul")
@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 2, 0), (0, 0, 0)], ids=str)
def test_an_empty_product_launches_nothing(device, kernel, shape):
    m, k, n = shape
    with expect_launches(0):
        result = kernel(np.ones((m, k), kernel.dtype), np.ones((k, n), kernel.dtype), device=device)
    assert result.shape == (m, n)


def test_out_may_be_an_operand(device):
    a, b = (on(device, integers((33, 33), np.float32, seed)) for seed in (0, 1))
    expected = a.numpy() @ b.numpy()
    assert_array_equal(smemkit.matmul(a, b, out=a).numpy(), expected)


def test_numpy_out_may_be_an_operand(device):
    a = integers((33, 33), np.float32)
    expected = a @ a
    assert_array_equal(smemkit.matmul(a, a, out=a, device=device), expected)


def test_operands_are_not_written(device):
    a, b = (on(device, integers((9, 9), np.float32, seed)) for seed in (0, 1))
    smemkit.matmul(a, b)
    assert_array_equal(a.numpy(), integers((9, 9), np.float32, 0))
    assert_array_equal(b.numpy(), integers((9, 9), np.float32, 1))


def test_read_only_operands_are_accepted(device):
    a = integers((4, 4), np.float32)
    a.flags.writeable = False
    assert_array_equal(smemkit.matmul(a, a, device=device), a @ a)


def test_more_rows_of_tiles_than_blocks_in_grid_y(device):
    tile = min(size for row in smemkit.kernels("matmul") for size in row.sizes)
    a, b = integers((65535 * tile + 3, 1), np.float32), np.float32([[2]])
    assert_array_equal(smemkit.matmul(a, b, tile=tile, device=device), 2 * a)


def test_more_matrices_than_blocks_in_grid_z(device):
    tile = min(size for row in smemkit.kernels("matmul") for size in row.sizes)
    a, b = (integers((65535 + 3, 1, 1), np.float32, seed=seed) for seed in (0, 1))
    assert_array_equal(smemkit.matmul(a, b, tile=tile, device=device), a * b)


@each_kernel("matmul", devices=["cuda:0"])  # the CPU takes a minute
def test_more_rows_of_tiles_than_blocks_in_grid_y_for_every_kernel(device, kernel):
    a, b = integers((65535 * 32 + 3, 1), kernel.dtype), np.full((1, 1), 2, kernel.dtype)
    assert_array_equal(product(kernel, device, a, b), 2 * a)


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_every_precision_keeps_small_integers_exact(device, precision):
    a, b = integers((33, 31), np.float32), integers((31, 35), np.float32, seed=1)
    assert_array_equal(smemkit.matmul(a, b, precision=precision, device=device), a @ b)


def test_the_same_bits_on_every_run(device):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((67, 67), dtype=np.float32) for _ in range(2))
    first = smemkit.matmul(a, b, device=device)
    for _ in range(5):
        assert_array_equal(smemkit.matmul(a, b, device=device), first)


@pytest.mark.parametrize("offset", [1, 2, 3])
@pytest.mark.parametrize(
    "shape",
    [
        *((67, 301, 68), (5, 1024, 1), (1, 1024, 7), (33, 2100, 34), (9, 33, 9), (66, 1024, 3)),
        pytest.param((129, 2100, 130), marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", [None, "simt", "matvec", "wgmma_split"])
@pytest.mark.covering
def test_the_same_bits_however_memory_is_aligned(device, name, shape, offset):
    m, k, n = shape
    a, b = (np.random.default_rng(m).standard_normal(s, dtype=np.float32) for s in ((m, k), (k, n)))
    first = smemkit.matmul(on(device, a), on(device, b), kernel=name).numpy()
    moved = [on(device, np.concatenate([np.zeros(offset, x.dtype), x.ravel()]))[offset:] for x in (a, b)]
    x, y = (array.reshape(shape) for array, shape in zip(moved, (a.shape, b.shape), strict=True))
    assert_array_equal(smemkit.matmul(x, y, kernel=name).numpy(), first)


def test_what_lies_beyond_a_slice_of_k_does_not_count(device):
    """matvec's stage at a slice's end has elements of the next slice, where an infinity times 0 would be NaN."""
    a, b = np.ones((70, 20000), np.float32), np.ones((20000, 3), np.float32)
    a[:, 6700] = np.inf
    result = smemkit.matmul(on(device, a), on(device, b), kernel="matvec").numpy()
    assert_array_equal(result, np.full((70, 3), np.inf, np.float32))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize(("m", "n"), [(33, 40), (65, 66)])
def test_parts_of_one_row_or_column_add_up_in_the_same_order(device, dtype, m, n):
    """Of several vectors: a part with one of them would be a matrix times a vector, which adds up otherwise."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, 700), (700, n)))
    for order in "CF":
        a, b = np.asarray(a, order=order), np.asarray(b, order=order)
        whole = smemkit.matmul(a, b, kernel="matvec", device=device)
        with parts_of(1):
            assert_array_equal(smemkit.matmul(a, b, kernel="matvec", device=device), whole)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "shape", [(36, 6000, 8), (300, 1100, 1), (1, 700, 260), (33, 40, 7), (257, 9000, 2)], ids=str
)
@pytest.mark.parametrize("name", [None, "simt", "matvec", "wgmma_split"])
@pytest.mark.covering(1, most=6)
def test_the_same_bits_in_parts_and_whole(device, name, shape, order):
    m, k, n = shape
    rng = np.random.default_rng(m)
    a, b = (np.array(rng.standard_normal(s), np.float32, order=order) for s in ((m, k), (k, n)))
    a[m // 2 :: 40] *= np.exp2(rng.integers(-30, 31, k)).astype(np.float32)  # float16 does not hold all numbers
    whole = smemkit.matmul(a, b, kernel=name, device=device)
    for part in 1 << 10, 1 << 16:
        with parts_of(part):
            assert_array_equal(smemkit.matmul(a, b, kernel=name, device=device), whole)


SPLITTING = ("simt", "simt_large", "pipelined_large", "pipelined_small", "mma_split", "mma_small")


@pytest.mark.parametrize("name", SPLITTING)
def test_partial_sums_are_added(device, name):
    dtype = "float64" if name == "mma_small" else "float32"
    k = 17_000 if name in ("pipelined_small", "mma_small") else 5000  # more than 2 * FLUSH
    a, b = integers((3, k), dtype), integers((k, 4), dtype, seed=1)
    assert_array_equal(smemkit.matmul(a, b, kernel=name, device=device), exact(a, b))


def test_every_production_kernel_is_measured_by_name():
    assert set(PRODUCTION) <= set(suites.NAMED) <= {row.name for row in smemkit.kernels("matmul")}


# ---- kernels whose blocks have tiles of 64 and more ------------------------------------------------------------

NARROW = {row.name: row.dtypes for row in smemkit.kernels("matmul") if len(row.dtypes) <= 8}  # few dtypes
BLOCK_KERNELS = [*NARROW, "simt", "simt_large"]
PRODUCTION = [row.name for row in smemkit.kernels("matmul") if row.role == "production"]
DIRECT_TF32 = ("wgmma_tf32", "wgmma_tf32_small")  # which take contiguous operands
ANY_LAYOUT = [name for name in PRODUCTION if name not in DIRECT_TF32]
# m, k, n: at, below and above the tiles, whose sides are 64 and 128, and 8 or 16 along k; rows at multiples of 16
# bytes and not
BLOCK_TILES = [
    *((1, 1, 1), (63, 15, 127), (65, 17, 129), (64, 16, 128), (129, 33, 130), (127, 8, 128), (2, 300, 3)),
    *((131, 4, 132), (5, 47, 4)),
]
LARGE_TILES = [(128, 128, 128), (130, 20, 260), (257, 37, 131), (66, 328, 136)]
LARGE_BY_DEFAULT = {"mma", "wgmma", "pipelined_small", "vectorized"}
WARPGROUP_RUNGS = ("wgmma", "wgmma_specialized", "persistent")
TURNED = [*product_of(WARPGROUP_RUNGS, ("float32", "int8", "uint8"))]  # which they multiply as C^T = B^T @ A^T


def usual_dtype(name):
    if name in WARPGROUP_RUNGS:
        return "float16"
    dtypes = NARROW.get(name, ("float32",))
    return next((dtype for dtype in ("float32", "int16") if dtype in dtypes), dtypes[-1])  # int16: two digits


def edge_cases():
    """Yields (name, dtype, shapes). By default the kernels that take long multiply no large tiles."""
    doubles = [(name, "float64") for name, dtypes in NARROW.items() if len(dtypes) > 1 and "float64" in dtypes]
    for name, dtype in [*((name, usual_dtype(name)) for name in BLOCK_KERNELS), *doubles, *TURNED]:
        yield pytest.param(name, dtype, BLOCK_TILES, id=f"{name}-{dtype}")
        marks = () if name in LARGE_BY_DEFAULT and dtype != "uint8" else pytest.mark.slow
        yield pytest.param(name, dtype, LARGE_TILES, marks=marks, id=f"{name}-{dtype}-large")


@pytest.mark.parametrize(("name", "dtype", "shapes"), [*edge_cases()])
def test_every_block_tile_guards_its_edges(device, name, dtype, shapes):
    for m, k, n in shapes[:: times(1, 2)]:
        a, b = integers((m, k), dtype), integers((k, n), dtype, seed=1)
        out = poison((m, n), dtype)
        smemkit.matmul(a, b, kernel=name, out=out, device=device)
        assert_array_equal(out, exact(a, b), err_msg=f"{m}, {k}, {n}")


@pytest.mark.parametrize("name", [*WARPGROUP_RUNGS, *DIRECT_TF32])
def test_ties_are_rounded_to_even_wherever_the_tma_copies_or_not(device, name):
    a = np.array([[1 + 2**-11, 0, 0, 0], [1 + 3 * 2**-11, 0, 0, 0]], np.float32)  # halfway between numbers of TF32
    want = np.array([[1], [1 + 2**-9]], np.float32)
    for n in 4, 5:  # rows of 16 bytes, which the TMA copies, and of 20
        c = smemkit.matmul(a, np.ones((4, n), np.float32), kernel=name, device=device)
        assert_array_equal(c, np.repeat(want, n, axis=1))


@pytest.mark.parametrize(("name", "dtype"), [*TURNED, *product_of(DIRECT_TF32, ["float32"])])
def test_turned_products_multiply_batches(device, name, dtype):
    batch = times(3, 2)
    for k, n in (608, 144), (18, 131):
        a, b = integers((2, batch, 65, k), dtype), integers((batch, k, n), dtype, seed=1)
        assert_array_equal(smemkit.matmul(a, b, kernel=name, device=device), exact(a, b))


@pytest.mark.parametrize("name", BLOCK_KERNELS)
def test_block_tiles_multiply_batches(device, name):
    dtype, batch = usual_dtype(name), times(3, 2)
    a, b = integers((2, batch, 65, 18), dtype), integers((batch, 18, 131), dtype, seed=1)
    assert_array_equal(smemkit.matmul(a, b, kernel=name, device=device), exact(a, b))


def checked_shapes(name, dtype):
    """m, k, n that the checker runs a kernel on."""
    if name == "matvec":  # for a large A, and with rows by whole blocks
        return [(9, 400, 3), (40, 40, 3), (2, 300, 20), (3, 300, 20), (9, 600, 1)]
    if name.startswith("mma"):  # several pairs of tiles; by chunks and by elements
        return [(65, 200, 72), (3, 333, 5), (3, 200, 8)]
    if name == "wgmma_residues":  # the second: no whole packs
        return [(66, 200, 136), (3, 33, 5)]
    if name.startswith("wgmma_digits"):  # the second: more pairs of tiles than stages; the last: no whole packs
        return [(66, 88, 136), (3, 300, 5), (3, 33, 7)]
    if name == "wgmma_small":  # the last: more pairs of tiles than its stages
        return [(66, 328, 136), (3, 333, 5), (3, 584, 8)]
    if name.startswith("dmma"):  # more pairs of tiles than stages; the second: one pair
        return [(66, 168, 72), (3, 7, 5)]
    if name.startswith(("wgmma", "persistent")):  # more pairs of tiles than stages; the third: one pair
        if dtype == "uint8":  # as int8, but for the instruction's type
            return [(3, 33, 5)]
        return [(66, 328, 136), (3, 520 if dtype == "int8" else 333, 5), (3, 33, 5), (3, 584, 8)]
    return [(65, 20, 68), (3, 33, 4)]


CHECKED = {  # what the checker runs by default: a kernel of each kind, on small shapes that notice its mutants
    **{name: [(65, 20, 68)] for name in ("thread_row", "pipelined", "simt", "tiny")},
    **{
        "pipelined_small": [(3, 33, 4)],
        "mma_small": [(3, 333, 5), (3, 200, 8)],
        "matvec": checked_shapes("matvec", "float32"),
    },
    **{"wgmma": [(3, 33, 5)], "wgmma_small": [(3, 584, 8)], "dmma_small": [(3, 7, 5)]},
    "wgmma_digits_small": [(3, 300, 5)],
}
SCHEDULES = ("serial", "lockstep", "random")


def copies_many_elements(name, shape):
    """Whether a kernel copies many elements one by one, while other warps repeat their waits: in lock step this
    takes half a minute."""
    _, k, n = shape
    return name in ("wgmma_specialized", "persistent", *DIRECT_TF32) and k > 300 and n % 8 > 0


def checked_cases():
    """Yields (name, dtype, m, k, n, order, schedule) of each call that the checker runs: the least product of a
    kernel under every schedule, the others under one each. By default each call of CHECKED, under one schedule."""
    kernels = [(name, usual_dtype(name)) for name in sorted({*BLOCK_KERNELS, *PRODUCTION})]
    quick = number = 0
    for name, dtype in [*kernels, ("mma_large", "float64"), ("mma_small", "float64"), *TURNED]:
        orders = ["C", "F"] if name in ANY_LAYOUT else ["C"]
        orders += ["CF", "FC"] if name.startswith("dmma_") else []  # each pair has loads of its own
        shapes = checked_shapes(name, dtype)
        least = min(shapes, key=math.prod)
        if dtype == "uint8":  # read as int8 is
            shapes = [least]
        for shape, order in product_of(shapes, orders):
            schedules = ("serial",) if copies_many_elements(name, shape) else SCHEDULES
            is_quick = order == "C" and dtype != "uint8" and shape in CHECKED.get(name, ())
            quick += is_quick
            number += 1
            for i, schedule in enumerate(schedules):
                chosen = i == (quick if is_quick else number) % len(schedules)
                if not chosen and not (order == "C" and shape == least):
                    continue
                case = (name, dtype, *shape, order, schedule)
                marks = () if chosen and is_quick else pytest.mark.slow
                yield pytest.param(case, marks=marks, id="-".join(map(str, case)))


@pytest.mark.parametrize("case", [*checked_cases()])
def test_kernels_of_all_tiles_have_no_fault(case):
    name, dtype, m, k, n, order, schedule = case
    operands = integers_for(name, (m, k), dtype), integers_for(name, (k, n), dtype, seed=1)
    operands = [np.array(x, order=o) for x, o in zip(operands, 2 * order, strict=False)]
    report = smemkit.check(smemkit.matmul, *operands, kernel=name, blocks="all", schedule=schedule)
    assert report.ok, report


def bank_cases():
    """Yields (name, dtype, order) of kernels without bank conflicts; by default of one of each kind."""
    quick = {"warp_tile", "pipelined", "mma", "mma_small", "dmma", "wgmma_small", "wgmma_digits_small"}
    rungs = ("vectorized", "warp_tile", "pipelined", "stream_k")
    mma, splits = ("mma_large", "mma_small"), ("mma_split", "wgmma_single", "wgmma_split", "wgmma_split_small")
    halves = ("mma", *WARPGROUP_RUNGS, *mma, "wgmma_large", "wgmma_small")
    for dtype, names in (
        ("float32", (*rungs, "mma", *WARPGROUP_RUNGS, *mma, *splits, *DIRECT_TF32)),
        ("float16", halves),
        ("float64", (*mma, "dmma", "dmma_large", "dmma_small", "wgmma_residues")),
        *((dtype, ("imma", *WARPGROUP_RUNGS)) for dtype in ("int8", "uint8")),
        *((dtype, ("wgmma_digits", "wgmma_digits_small")) for dtype in ("int8", "int32", "int64")),
    ):
        for name, order in product_of(names, "CF"):
            if order == "C" or name in ANY_LAYOUT:  # others take arrays in C order
                marks = () if name in quick and dtype not in ("int32", "int64") else pytest.mark.slow
                yield pytest.param(name, dtype, order, marks=marks)


def conflicts_in_shared_memory(line):
    """A line's bank conflicts, but for those of copies of 4 bytes that collide where they read: pipelined kernels
    copy a few elements of each row of A, because cp.async cannot transpose wider pieces."""
    reads = "memcpy_async" in line.text and line.size == 4
    if reads and not smemkit.wavefronts(line.example, line.size, store=True).conflicts:
        return 0
    return line.conflicts


@pytest.mark.parametrize(("name", "dtype", "order"), [*bank_cases()])
def test_rungs_from_vectorized_on_have_no_bank_conflicts(name, dtype, order):
    a, b = integers((128, 48), dtype), integers((48, 128), dtype, seed=1)
    report = smemkit.check(smemkit.matmul, *(np.array(x, order=order) for x in (a, b)), kernel=name, blocks="all")
    assert report.ok, report
    shared = [line for line in report.lines if line.space == "shared"]
    assert shared
    assert not any(map(conflicts_in_shared_memory, shared)), report


@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
def test_doubles_of_every_pair_of_layouts_are_loaded_without_bank_conflicts(orders):
    a, b = integers((times(128, 64), 32), np.float64), integers((32, 64), np.float64, seed=1)
    operands = [np.array(x, order=order) for x, order in zip((a, b), orders, strict=True)]
    report = smemkit.check(smemkit.matmul, *operands, kernel="dmma_small", blocks="all")
    loads = [line for line in report.lines if line.space == "shared" and line.access == "load"]
    assert loads and not any(line.conflicts for line in loads), report


@pytest.mark.parametrize("name", ["simt", "simt_large", "pipelined_large", "pipelined_batch"])
def test_production_reads_16_bytes_in_two_wavefronts(name):
    a, b = integers((128, 48), np.float32), integers((48, 128), np.float32, seed=1)
    report = smemkit.check(smemkit.matmul, a, b, kernel=name, blocks="all")
    loads = [line for line in report.lines if line.space == "shared" and line.access == "load"]
    assert len(loads) >= 2
    assert all(line.wavefronts == 2 * line.requests and line.conflicts == 0 for line in loads), report


# (batch, m, k): more tiles than blocks run at once, of the 132 multiprocessors that the CPU device stands for
SMALL = {"narrow": (1470, 8, 36), "wide": (540, 36, 36)}


@pytest.mark.parametrize("tile", SMALL)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.covering(1)
def test_a_block_multiplies_one_small_matrix_after_another(device, tile, order):
    batch, m, k = SMALL[tile]
    a = integers((batch, m, k), np.float32)
    b = np.asarray(integers((batch, k, m), np.float32, seed=1), order=order)
    assert_array_equal(smemkit.matmul(a, b, kernel="pipelined_batch", device=device), exact(a, b))


@pytest.mark.parametrize("tile", SMALL)
@pytest.mark.parametrize("completion", ["early", "late"])
def test_the_tiles_of_the_next_small_matrix_have_no_fault(tile, completion):
    batch, m, k = SMALL[tile]
    a, b = integers((batch, m, k), np.float32), integers((batch, k, m), np.float32, seed=1)
    report = smemkit.check(smemkit.matmul, a, b, kernel="pipelined_batch", blocks=2, completion=completion)
    assert report.ok, report


# batch, m, k, n; the TMA stores C, or threads do. 134 and 136 tiles of C, for 132 blocks
PERSISTENT = {
    "persistent": [(134, 3, 264, 16), (136, 3, 8, 5)],  # the first: more pairs of tiles than stages
    "wgmma_small": [(134, 3, 70, 16)],
    "dmma_small": [(134, 3, 40, 16)],
    "wgmma_large": [(133, 3, 70, 16), (68, 3, 70, 512)],  # thin tiles alone, and after full ones
    "dmma_large": [(133, 3, 8, 8), (34, 70, 24, 8)],  # the tile after a whole wave is quartered; none is
    "wgmma_digits_small": [(134, 3, 40, 16)],
}


TURNED_PERSISTENT = [("persistent", "float32"), ("persistent", "int8")]


def persistent_shapes(name, dtype):
    """The shapes of PERSISTENT, with a k of as many pairs for tiles of bytes, which have more columns."""
    return [(b, m, 584 if k == 264 and dtype == "int8" else k, n) for b, m, k, n in PERSISTENT[name]]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "int8" if name.startswith("wgmma_digits") else usual_dtype(name)) for name in PERSISTENT),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in TURNED_PERSISTENT),
    ],
)  # of digits one takes the least time
def test_blocks_compute_one_tile_after_another(device, name, dtype):
    for batch, m, k, n in persistent_shapes(name, dtype):
        a, b = integers((batch, m, k), dtype), integers((batch, k, n), dtype, seed=1)
        assert_array_equal(smemkit.matmul(a, b, kernel=name, device=device), exact(a, b))


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, usual_dtype(name)) for name in PERSISTENT), *TURNED_PERSISTENT]
)
@pytest.mark.parametrize("completion", ["early", "late"])
@pytest.mark.covering(most=1)
def test_the_tiles_after_a_blocks_first_have_no_fault(name, dtype, completion):
    for batch, m, k, n in persistent_shapes(name, dtype):
        a, b = integers((batch, m, k), dtype), integers((batch, k, n), dtype, seed=1)
        report = smemkit.check(smemkit.matmul, a, b, kernel=name, blocks=2, completion=completion)
        assert report.ok, report


STREAM_K = [  # (batch, m, k, n); a pair of tiles has 32 of k, and a share 8 pairs if there is little to do
    (1, 5, 333, 140),  # a share that ends one tile of C and begins another
    (1, 200, 333, 300),  # many of them, also at C's edges
    (2, 5, 300, 129),  # which go from one matrix to the next
    (1, 3, 1300, 5),  # a tile of C for six shares
    (1, 4, 600, 8),  # the last share has fewer pairs
    (1, 1, 70_000, 1),  # shares of more than 8 pairs
    (540, 1, 65, 1),  # more than two waves of tiles: some are not shared
    (1, 130, 64, 20),  # tiles of so few pairs that none is shared
]


@pytest.mark.parametrize(
    ("shape", "grids"),
    [
        ((540, 1, 65, 1), [207 + 264, 16 * 276]),  # of two waves and a bit, all but one wave is shared
        ((1, 3, 1300, 5), [6, 16]),  # shares of 8 pairs
        ((1, 1, 70_000, 1), [244, 16]),  # of 9
        ((1, 1024, 64, 1024), [64]),  # tiles of two pairs: sharing would save nothing
        ((1, 2048, 96, 2048), [256]),  # nor here
        ((1, 2048, 5, 128 * 33), [528]),  # two whole waves
    ],
)
def test_shares_are_equal_and_save_time(shape, grids):
    """264 blocks run at once, as on an H200, and 16 blocks add the pieces of a tile."""
    batch, m, k, n = shape
    a, b = np.ones((batch, m, k), np.float32), np.ones((batch, k, n), np.float32)
    report = smemkit.check(smemkit.matmul, a, b, kernel="stream_k", blocks=1)
    assert [math.prod(launch.grid) for launch in report.launches] == grids


@pytest.mark.parametrize("shape", STREAM_K)
@pytest.mark.covering(most=4)
def test_shares_of_tiles_add_up(shape, device):
    batch, m, k, n = shape
    a, b = integers((batch, m, k), "float32"), integers((batch, k, n), "float32", seed=1)
    assert_array_equal(smemkit.matmul(a, b, kernel="stream_k", device=device), exact(a, b))


@pytest.mark.parametrize("shape", [shape for shape in STREAM_K if shape[0] < 3 and shape[2] < 2000])
@pytest.mark.covering(most=1)
def test_shares_of_tiles_have_no_fault(shape):
    batch, m, k, n = shape
    a, b = integers((batch, m, k), "float32"), integers((batch, k, n), "float32", seed=1)
    report = smemkit.check(smemkit.matmul, a, b, kernel="stream_k", blocks="all")
    assert report.ok, report


@pytest.mark.parametrize("dtype", ["float64", "int32", "float16"])
def test_float32_rungs_refuse_other_dtypes(device, dtype):
    x = np.ones((4, 4), dtype)
    for name in "warp_tile", "pipelined", "stream_k":
        with pytest.raises(ValueError, match=f"x1: expected dtype float32 for kernel '{name}', got {dtype}"):
            smemkit.matmul(x, x, kernel=name, device=device)


# ---- production kernels: every layout, without a copy -----------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["wgmma_split_small", "wgmma_small", "dmma_small", "wgmma_digits_small", "wgmma_residues"]
)
@pytest.mark.covering(1, most=2)
def test_copies_of_few_rows_at_once_give_the_same_bits(name):
    """A kernel that copies its operands multiplies only so many rows of a single A at once."""
    a, b = (integers_for(name, shape, usual_dtype(name)) for shape in ((600, 40), (40, 24)))
    a, b = (smemkit.asarray(x, device="cpu") for x in (a, b))
    whole = smemkit.matmul(a, b, kernel=name).numpy()
    assert_array_equal(whole, exact(a.numpy(), b.numpy()))
    with parts_of(1000):
        with expect_launches(3):
            assert_array_equal(smemkit.matmul(a, b, kernel=name).numpy(), whole)
        c = np.asfortranarray(a.numpy())  # and rows that are not contiguous
        assert_array_equal(smemkit.matmul(smemkit.asarray(c.T, device="cpu").T, b, kernel=name).numpy(), whole)


LAYOUTS = {
    "C": lambda x: x,
    "F": lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    "every second": lambda x: np.repeat(np.repeat(x, 2, axis=-1), 3, axis=-2)[..., ::3, ::2],
    "reversed": lambda x: np.array(x[..., ::-1, ::-1])[..., ::-1, ::-1],
    "columns reversed": lambda x: np.array(x[..., ::-1])[..., ::-1],
    "longer rows": lambda x: np.concatenate([x, x], axis=-1)[..., : x.shape[-1]],
    "unaligned": lambda x: np.concatenate([x[..., :1], x, x], axis=-1)[..., 1 : x.shape[-1] + 1],
}
LAYOUT_SHAPES = [
    (8, 20, 12),
    (64, 48, 64),
    (65, 40, 68),
    (3, 33, 130),
    (1, 260, 36),
    (36, 260, 1),
    (16, 16, 16),
    (128, 8, 4),
]


def layout_cases():
    """(name, dtype) of the production kernels: dtypes of each kind, or the kernel's usual one."""
    for name in ANY_LAYOUT:
        dtypes = next(row for row in smemkit.kernels("matmul") if row.name == name).dtypes
        kinds = ["float32", "float64", "float16", "int8", "complex64", "complex128", "bool"]
        marks = () if name in ("simt", "tiny", "matvec", "mma_small") else pytest.mark.slow
        for dtype in [dtype for dtype in kinds if dtype in dtypes] or [usual_dtype(name)]:
            yield pytest.param(name, dtype, marks=marks)


@pytest.mark.parametrize(("name", "dtype"), [*layout_cases()])
@pytest.mark.covering(1, most=3)
def test_operands_of_every_layout_are_read_where_they_are(device, name, dtype):
    for (a_layout, b_layout), (m, k, n) in zip(product_of(LAYOUTS, LAYOUTS), cycle(LAYOUT_SHAPES), strict=False):
        a, b = integers_for(name, (2, m, k), dtype), integers_for(name, (2, k, n), dtype, seed=1)
        x, y = LAYOUTS[a_layout](a), LAYOUTS[b_layout](b)
        assert_array_equal(x, a)
        plan = smemkit.plan(smemkit.matmul, x, y, kernel=name, device=device)
        assert [launch.op for launch in plan.launches] == ["matmul"]
        out = poison((2, m, n), dtype)
        smemkit.matmul(x, y, kernel=name, out=out, device=device)
        assert_array_equal(out, exact(a, b), err_msg=f"{a_layout}, {b_layout}, {(m, k, n)}")


@pytest.mark.parametrize("name", DIRECT_TF32)
def test_other_layouts_become_contiguous(device, name):
    a, b = integers((66, 20), np.float32), integers((20, 36), np.float32, seed=1)
    x, y = smemkit.asarray(a.T.copy(), device=device).T, smemkit.asarray(b, device=device)
    plan = smemkit.plan(smemkit.matmul, x, y, kernel=name)
    assert [launch.op for launch in plan.launches] == ["convert", "matmul"]
    assert_array_equal(smemkit.matmul(x, y, kernel=name).numpy(), exact(a, b))


@pytest.mark.parametrize("name", PRODUCTION)
def test_operands_that_repeat_elements(device, name):
    a = np.broadcast_to(integers((1, 40), usual_dtype(name)), (5, 40))
    b = np.broadcast_to(integers((40, 1), usual_dtype(name), seed=1), (40, 7))
    assert_array_equal(smemkit.matmul(a, b, kernel=name, device=device), exact(a, b))


def test_operands_of_other_dtypes_are_converted(device):
    a, b = integers((5, 40), np.int16), integers((40, 6), np.float32, seed=1)
    plan = smemkit.plan(smemkit.matmul, a.T.copy().T, b, device=device)
    assert [launch.op for launch in plan.launches] == ["convert", "matmul"]
    assert_array_equal(smemkit.matmul(a.T.copy().T, b, device=device), exact(a, b))


# ---- the policy -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shapes", "chosen"),
    [
        (((4096, 2), (2, 2)), "tiled, tile 2"),
        (((500, 2, 2), (500, 2, 2)), "tiled, tile 2"),
        (((3, 100), (100, 3)), "tiled, tile 4"),
        (((9, 9), (9, 9)), "tiny"),
        (((1000, 16, 16), (1000, 16, 16)), "tiny"),
        (((64, 64), (64, 64)), "simt"),
        (((512, 512), (512, 512)), "simt_large"),
        (((1, 3000), (3000, 1)), "matvec"),
        (((1, 1000), (1000, 1000)), "matvec"),
    ],
    ids=str,
)
def test_the_cpu_takes_the_kernel_with_the_least_predicted_time(shapes, chosen):
    a, b = (np.ones(shape, np.float32) for shape in shapes)
    plan = smemkit.plan(smemkit.matmul, a, b, device="cpu")
    assert str(plan).startswith(f"matmul {chosen}, precision highest")
    assert_array_equal(smemkit.matmul(a, b, device="cpu"), a @ b)


def test_kernels_without_a_record_say_so():
    for row in smemkit.kernels("matmul"):
        x = np.ones((40, 40), usual_dtype(row.name))
        plan = smemkit.plan(smemkit.matmul, x, x, kernel=row.name, device="cpu")
        assert str(plan).endswith(", not yet run on a GPU") == (x.dtype.name not in row.recorded_dtypes)
        if row.name not in NARROW and row.needs != "host" and "int16" not in row.recorded_dtypes:
            plan = smemkit.plan(
                smemkit.matmul, x.astype(np.int16), x.astype(np.int16), kernel=row.name, device="cpu"
            )
            assert str(plan).endswith(", not yet run on a GPU")
    assert "not yet run on a GPU" in str(PlannedLaunch("matmul", "new", {}, recorded=False))
    assert "not yet run on a GPU" not in str(PlannedLaunch("matmul", "old", {}, recorded=True))


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (64, 64, 64), (300, 200, 100), (1, 5000, 40), (2, 100_000, 2)], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_h200_takes_kernels_with_a_record(dtype, shape):
    m, k, n = shape
    call = (smemkit.matmul, (np.ones((m, k), dtype), np.ones((k, n), dtype)), {"device": "cpu"})
    launches = _core.dry_run_as(*fit.H200, "matmul", None, *call)
    taken = [name for op, name, *_ in launches if op == "matmul"]
    rows = {row.name: row for row in smemkit.kernels("matmul")}
    assert taken
    if any(dtype in row.recorded_dtypes for row in rows.values() if row.role == "production"):
        assert all(dtype in rows[name].recorded_dtypes for name in taken), taken
    else:
        assert all(rows[name].recorded for name in taken), taken


@pytest.mark.parametrize(
    ("dtype", "precision", "n", "hopper", "others"),
    [
        ("float32", "highest", 4096, "wgmma_split", ("pipelined", "simt")),
        ("float32", "highest", 1024, "wgmma_split_small", ("pipelined", "simt")),
        ("float32", "highest", 512, "pipelined_small", ("pipelined", "simt")),
        ("float32", "high", 8192, "wgmma_single", "mma"),
        ("float16", None, 4096, "wgmma_large", "mma"),
        ("float16", None, 1024, "wgmma_small", "mma"),
        ("float64", None, 4096, "wgmma_residues", "mma"),
        ("float64", None, 2048, "dmma_large", "mma"),
        ("float64", None, 1024, "dmma_small", "mma"),
        ("float64", None, 640, "dmma_large", "mma"),  # 25 tiles, in quarters
        ("int8", None, 4096, "wgmma_digits", "imma"),
        *((dtype, None, 4096, "wgmma_digits", "simt") for dtype in ("int32", "uint64")),
        ("uint8", None, 1024, "wgmma_digits_small", "imma"),
        *((dtype, None, 1024, "wgmma_digits_small", "simt") for dtype in ("int32", "int64")),
    ],
)
def test_large_products_run_on_the_tensor_cores_that_a_gpu_has(dtype, precision, n, hopper, others):
    x = np.empty((n, n), dtype)
    call = (smemkit.matmul, (x, x), {"device": "cpu", "precision": precision})
    for capability in 90, 80, 100, 120:
        ((_, taken, *_),) = _core.dry_run_as(capability, 132, 50 << 20, "matmul", None, *call)
        assert taken == hopper if capability == 90 else taken.startswith(others), capability


@pytest.mark.parametrize("name", [row.name for row in smemkit.kernels("matmul") if row.name.startswith("dmma_")])
def test_sides_that_the_tma_cannot_count_are_refused(device, name):
    if device != "cpu":
        pytest.skip("operands that take no memory are NumPy's")
    x = np.broadcast_to(np.ones(1), (2**31,))
    with pytest.raises(ValueError, match=rf"kernel '{name}' takes m, n and k below 2147483135, .*; kernel=None"):
        smemkit.matmul(x, x, kernel=name, device=device)


# ---- long k --------------------------------------------------------------------------------------------------

LONG = [
    (1, 40_000, 1),
    (3, 20_011, 2),
    (2, 16_385, 33),
    (1, 8193, 1),
    (17, 65_537, 1),
    (19, 16_400, 18),
]  # m, k, n


@pytest.mark.parametrize("shape", LONG, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.covering(1)
def test_long_products_are_split_and_exact_on_small_integers(device, dtype, shape):
    m, k, n = shape
    a, b = (np.random.default_rng(6).integers(0, 2, shape).astype(dtype) for shape in ((2, m, k), (k, n)))
    a[..., 2000:] = 0  # so that 16-bit floats hold the sum
    a[..., -300:] = 1
    assert_array_equal(smemkit.matmul(a, b, device=device), exact(a, b))
    if device == "cpu":  # on a GPU, once they have a record
        allowed = {"simt", "matvec"} | (
            {"tiled", "tiny"} if np.dtype(dtype).kind in "biu" else set()
        )  # exact in any order
        assert set(smemkit.plan(smemkit.matmul, a, b, device=device).kernels) <= allowed


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("simt", "simt_large", "pipelined_large")),
        pytest.param("pipelined_small", marks=pytest.mark.slow),
        "matvec",
    ],
)
def test_slices_of_a_long_k_have_no_fault(name):
    """Few slices are added up by single threads, more than 8 by the rows of a block."""
    for k, columns, rows in (8200, 3, 1), *([(70_000, 1, 8)] if name == "matvec" else []):
        a, b = integers((2, k), np.float32), integers((k, columns), np.float32, seed=1)
        report = smemkit.check(smemkit.matmul, a, b, kernel=name, blocks="all")
        assert report.ok, report
        assert [launch.kernel for launch in report.launches][1:] == ["matmul_add_slices"]
        assert report.launches[1].block[1] == rows


def test_split_k_is_a_former_name_of_simt(device):
    x = integers((9, 9), np.float32)
    with pytest.warns(DeprecationWarning, match="kernel: 'split_k' is now called 'simt'"):
        assert_array_equal(smemkit.matmul(x, x, kernel="split_k", device=device), exact(x, x))


def test_sums_beyond_2_to_the_24(device):
    n = 17_000_000  # above 2**24, where adding 1 no longer changes a float32
    v = np.ones(n, np.float32)
    assert smemkit.matmul(v, v, device=device) == n


def test_long_products_meet_the_float32_bound(device):
    rng = np.random.default_rng(7)
    for make in (rng.standard_normal, rng.random):
        a, b = make((3, 50_000)).astype(np.float32), make((50_000, 5)).astype(np.float32)
        result = smemkit.matmul(a, b, device=device)
        assert within_bound(result, a, b)
        exactly = a.astype(np.float64) @ b
        plain = smemkit.matmul(a, b, kernel="naive", device=device)
        assert np.linalg.norm(result - exactly) <= np.linalg.norm(plain - exactly)


def test_long_products_have_the_same_bits_in_parts_and_whole(device):
    rows = times(40, 12)
    a, b = np.random.default_rng(8).standard_normal((2, rows, 30_000)).astype(np.float32)
    whole = smemkit.matmul(a, b.T, device=device)
    with parts_of(1 << 20):
        assert_array_equal(smemkit.matmul(a, b.T, device=device), whole)
    x, y = on(device, a), on(device, b.T.copy())
    for _ in range(3):  # cold, then warm
        assert_array_equal(smemkit.matmul(x, y, out=on(device, poison((rows, rows), "float32"))).numpy(), whole)


@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64"])
def test_a_long_product_into_its_own_operand(device, dtype):
    x = integers((1, 20_000), dtype)
    expected = exact(x, x.T)
    out = x[:, :1]
    assert_array_equal(smemkit.matmul(x, x.T, out=out, device=device), expected)
