"""The production kernels of reduce, on rows and columns: shapes around every threshold of the policy and the work
split, error bounds on ill-conditioned data, and bits that do not depend on addresses."""

import contextlib
import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from cases import DTYPES, expect_launches, in_threads, integers, on, parts_of, poison
from numpy.testing import assert_array_equal
from tiers import times

import smemkit

KERNELS = [None, "rows", "columns", "small_columns"]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ROWS = [  # reduced along axis 1
    (3, 1),
    (700, 2),
    (5000, 3),  # one thread per row
    (4001, 7),
    (3000, 24),
    (2999, 33),
    (2113, 128),
    (560_000, 1),  # several rows per thread, one after the other
    (300, 5),
    (9, 15),
    (9, 16),
    (9, 17),
    (2000, 33),
    (40, 127),
    (40, 128),
    (40, 129),
    (2200, 140),  # some lanes of a warp per row
    (2113, 131),
    (2112, 301),
    (7, 1025),
    (1, 4096),  # one block per row
    (1, 4097),
    (530, 6001),
    (1057, 4180),  # or one warp, depending on op and dtype
    (3, 20_011),  # several blocks per row
    (1, 100_003),
]
COLUMNS = [  # along axis 0
    (2, 5000),
    (5, 1),
    (1, 7),
    (9000, 2),
    (40_000, 3),
    (30_001, 5),
    (20_000, 16),
    (3000, 33),
    (700, 63),
    (6000, 130),
    (300, 129),
    (500, 300),
    (70, 1027),
    (16, 4100),
    (2047, 256),
    (16, 4001),
    (2, 6400),
    (3, 6404),
    (4, 6401),
    (3, 203_000),  # one thread per vector, over all rows
    (3, 203_001),
    (2, 815_000),
    (19, 203_000),
]
MIDDLE = [  # along axis 1
    (5, 100, 3),
    (300, 4, 8),
    (2000, 3, 5),
    (2, 700, 33),
    (3, 50, 260),
    (40, 17, 129),
    (26_000, 3, 7),
    (40, 11, 5200),
]
SHAPES = [(shape, 1) for shape in ROWS] + [(shape, 0) for shape in COLUMNS] + [(shape, 1) for shape in MIDDLE]
OPS = ["sum", "min", "max", "any", "all", "argmin", "argmax", "count_nonzero", "mean", "var"]


def exact(op, x, axis):
    """NumPy's reduction of integers, in float64 where NumPy would round intermediate results."""
    wide = op in ("mean", "var") or (op == "sum" and x.dtype.kind in "fV")
    return getattr(np, op)(x.astype(np.float64) if wide else x, axis=axis)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.covering(1, most=6)
def test_shapes_around_thresholds(device, kernel, dtype, shape, axis):
    x = integers(shape, dtype, seed=math.prod(shape))
    array = on(device, x)
    for op in OPS:
        result, expected = smemkit.asnumpy(smemkit.reduce(array, op, axis, kernel=kernel)), exact(op, x, axis)
        if op in ("mean", "var"):
            np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6, err_msg=op)
        else:
            assert_array_equal(result, expected.astype(result.dtype), err_msg=op)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.covering(1)
def test_every_dtype(device, kernel, dtype):
    for shape, axis in (((3, 9001), 1), ((900, 7), 1), ((20_000, 3), 0), ((40, 7, 33), 1)):
        x = integers(shape, dtype)
        for op in ("sum", "min", "argmax", "count_nonzero"):
            result = smemkit.asnumpy(smemkit.reduce(on(device, x), op, axis, kernel=kernel))
            expected = exact(op, x, axis) if x.dtype.kind != "c" else getattr(np, op)(x, axis=axis)
            assert_array_equal(result, expected.astype(result.dtype), err_msg=f"{op} of {shape}")


# ---- positions of NaNs and of the first of equals ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_min_max_argmin_and_argmax_with_nans(device, dtype):
    for n in (40, 1000, 20_000):
        for where in (0, 1, n // 2, n - 1):
            x = integers(n, dtype)
            x[where:] = np.nan
            for axis, shape in ((0, (n, 1)), (1, (1, n))):
                array = on(device, x.reshape(shape))
                assert smemkit.argmax(array, axis).numpy() == smemkit.argmin(array, axis).numpy() == where
                assert np.isnan(smemkit.min(array, axis).numpy().astype(complex)).all()
                assert np.isnan(smemkit.max(array, axis).numpy().astype(complex)).all()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32"])
def test_argmin_and_argmax_return_the_first_of_equals(device, dtype):
    infinity = np.inf if np.dtype(dtype).kind == "f" else None
    for value in (1, *([infinity, -infinity] if infinity else [])):
        x = np.full((3, 9000), value, dtype)
        for op, axis in itertools.product(("argmin", "argmax"), (None, 0, 1)):
            assert not np.any(smemkit.asnumpy(smemkit.reduce(on(device, x), op, axis)))


# ---- errors -----------------------------------------------------------------------------------------------------


def ill_conditioned_data(n):
    """Yields a name and numbers whose sum or variance is ill-conditioned."""
    rng = np.random.default_rng(n)
    yield "one sign", rng.uniform(0, 1, n)
    yield "far from zero", 1e4 + rng.standard_normal(n)
    yield "cancelling", np.where(np.arange(n) % 2, -1, 1) * (1e3 + rng.uniform(0, 1e-3, n))
    yield "of all magnitudes", rng.standard_normal(n) * 10 ** rng.uniform(-4, 4, n)
    yield "one large", np.concatenate([[3e4], rng.standard_normal(n - 1) * 1e-3])


def ulp(x, dtype):
    """The spacing of a dtype's numbers at x."""
    bits = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype]
    return 2.0 ** (max(math.frexp(abs(x))[1] - 1, {"float16": -14}.get(dtype, -126)) - bits)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("n", [9, 300, 5000, 60_001])
def test_sums_are_within_their_bounds(device, dtype, n):
    for name, data in ill_conditioned_data(n):
        x = data.astype(dtype)
        values = x.astype(np.float64)
        total, magnitude = math.fsum(values), math.fsum(np.abs(values))
        if dtype == "float64":
            bound = 2 * (math.ceil(math.log2(n)) + 8) * 2.0**-53 * magnitude
        elif dtype == "float32":
            bound = ulp(total, dtype) / 2 + n * 2.0**-53 * magnitude
        else:
            bound = ulp(total, dtype) / 2 + 2 * math.ceil(math.log2(n)) * 2.0**-24 * magnitude
        if dtype == "float16" and abs(total) > 65_000:
            continue
        columns = np.ascontiguousarray(np.broadcast_to(x[:, None], (n, 3)))
        sums = [smemkit.sum(on(device, x)).item(), *map(float, smemkit.sum(on(device, columns), 0).numpy())]
        for result in sums:
            assert abs(Fraction(float(result)) - Fraction(total)) <= Fraction(bound), name


def test_float64_sum_error_does_not_grow_with_length(device):
    """Each small element is at most half an ulp of the sum: added one by one, they would all be lost."""
    for axis, shape in ((0, (100_000, 2)), (1, (2, 100_000))):
        x = np.full(shape, 2.0**-53)
        x[(0, slice(None)) if axis == 0 else (slice(None), 0)] = 1
        result = smemkit.sum(on(device, x), axis).numpy()
        assert_array_equal(result, np.full(2, 1 + 99_999 * 2.0**-53))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_infinities_survive_compensation(device, dtype):
    for n in (5, 3000, 50_000):
        for values, expected in (
            ([np.inf], np.inf),
            ([-np.inf], -np.inf),
            ([np.inf, -np.inf], np.nan),
            ([np.nan], np.nan),
            ([1e308, 1e308], np.inf),
        ):
            x = np.zeros(n, dtype)
            x[n // 2 : n // 2 + len(values)] = values
            for result in (smemkit.sum(x, device=device), smemkit.sum(x.reshape(n, 1), 0, device=device)[0]):
                assert_array_equal(np.real(result), expected)


def test_bfloat16_intermediate_sums_do_not_overflow(device):
    x = np.tile(np.array([3e38, 3e38, -3e38, -3e38], BFLOAT16), 300)
    assert smemkit.sum(x, device=device) == 0
    assert_array_equal(smemkit.sum(x.reshape(-1, 1), 0, device=device).astype(float), [0])


@pytest.mark.parametrize("axis", [0, 1])
def test_variances_far_from_zero(device, axis):
    rng = np.random.default_rng(7)
    for offset, dtype in ((1e6, "float64"), (1e9, "float64"), (1000, "float32"), (1 << 40, "int64")):
        x = (offset + 100 * rng.standard_normal(20_000)).astype(dtype)
        values = x.astype(np.float64) - offset  # exact, and small
        mean = math.fsum(values) / len(values)
        expected = math.fsum((values - mean) ** 2) / len(values)
        result = smemkit.var(on(device, x.reshape(1, -1) if axis else x.reshape(-1, 1)), axis).numpy()
        rounding = 2.0**-24 if dtype == "float32" else 1e-14
        np.testing.assert_allclose(result, expected, rtol=2 * rounding + 2.0**-53 * offset / 100)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16"])
def test_variances_of_small_integers_round_once_or_twice(device, dtype):
    limits = np.iinfo(dtype) if dtype != "bool" else None
    for n in (5, 1000, 40_000):
        low, high = (0, 2) if dtype == "bool" else (limits.min, limits.max + 1)
        x = np.random.default_rng(n).integers(low, high, n).astype(dtype)
        x[: n // 2] = x[0]
        total, squares = int(x.sum(dtype=object)), int((x.astype(object) ** 2).sum())
        expected = float(Fraction(squares * n - total * total, n * n))
        for result in (smemkit.var(x, device=device), smemkit.var(x.reshape(-1, 1), 0, device=device)[0]):
            assert abs(result - expected) <= 16 * np.spacing(expected)


# ---- bits -------------------------------------------------------------------------------------------------------


def order_sensitive(shape, dtype):
    """Numbers whose sums depend on the order of the additions."""
    rng = np.random.default_rng(5)
    return (rng.standard_normal(shape) * np.exp(4 * rng.standard_normal(shape))).astype(dtype)


BITS = ["sum", "mean", "var", "prod", "argmin", "max"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "uint8"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((30_001,), 0), ((5, 4001), 1), ((300, 37), 1), ((3000, 5), 0), ((60, 400), 0)], ids=str
)
@pytest.mark.covering(1)
def test_bits_do_not_depend_on_the_address(device, dtype, shape, axis):
    x = np.abs(order_sensitive(shape, "float32")).clip(0, 200).astype(dtype)
    expected = {op: smemkit.reduce(on(device, x), op, axis).numpy().tobytes() for op in BITS}
    for offset in range(1, 16 // x.dtype.itemsize if x.dtype.itemsize < 16 else 1):
        memory = on(device, np.concatenate([x.ravel()[:offset], x.ravel(), x.ravel()[:3]]))
        view = memory[offset : offset + x.size].reshape(shape)
        for op in BITS:
            assert smemkit.reduce(view, op, axis).numpy().tobytes() == expected[op], (op, offset)


VIEWS = {
    "columns left out": lambda x: x[:, 5:-5],
    "every other row": lambda x: x[::2],
    "transposed": lambda x: x.T,
    "transposed, columns left out": lambda x: x[3:-7].T,
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
@pytest.mark.covering(1)
def test_strided_rows_are_not_copied(device, name, dtype):
    for shape in ((300, 270), (41, 1033), (2000, 23)):
        x = order_sensitive(shape, "float32").clip(-100, 100).astype(dtype)
        array, view = VIEWS[name](on(device, x)), VIEWS[name](x)
        for axis, op in itertools.product((0, 1), ("sum", "max", "var", "argmax")):
            expected = smemkit.reduce(on(device, np.ascontiguousarray(view)), op, axis).numpy()
            out = on(device, poison(expected.shape, expected.dtype))
            with expect_launches(1) if min(shape) > 30 else contextlib.nullcontext():  # narrow ones are copied
                smemkit.reduce(array, op, axis, out=out)
            if name.startswith("transposed"):  # the native layout has another order of the additions
                np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5 if dtype == "float32" else 1e-11)
            else:
                assert out.numpy().tobytes() == expected.tobytes()


def test_concurrent_threads_have_separate_counters(device):
    x = on(device, order_sensitive(60_000, "float32"))
    expected = smemkit.sum(x).item()
    results = []

    def work(_):
        results.extend(smemkit.sum(x).item() for _ in range(10))

    in_threads(6, work)
    assert results == [expected] * 60


def test_more_streams_than_cached_counters(device):
    x = on(device, order_sensitive(60_000, "float32"))
    expected = smemkit.sum(x).item()
    for _ in range(80):
        with smemkit.Stream(device=device):
            assert smemkit.sum(x).item() == expected


@pytest.mark.parametrize("width", [203_001, 203_004])
def test_strided_whole_columns_are_not_copied(device, width):
    """Rows begin at a multiple of a vector, and end at one or not. Nothing behind `out` is written."""
    memory = integers((7, 203_008), "float32")
    view, expected = on(device, memory)[:, :width], memory[:, :width].sum(0)
    out = on(device, np.full(width + 8, 7, np.float32))
    with expect_launches(1):
        smemkit.sum(view, 0, out=out[:width])
    assert_array_equal(out.numpy(), np.append(expected, np.full(8, 7, np.float32)))
    assert_array_equal(smemkit.max(view, 0).numpy(), memory[:, :width].max(0))


@pytest.mark.parametrize(
    ("op", "dtype"),
    [("min", "float64"), *(pytest.param(op, "int8", marks=pytest.mark.slow) for op in ("min", "sum"))],
)
def test_long_whole_columns(device, op, dtype):
    """Long columns take smaller blocks, and so more of them."""
    width, shift = 811_008 // np.dtype(dtype).itemsize, 1009
    memory = integers(width + 512 * shift, dtype)
    overlapping = np.lib.stride_tricks.as_strided(memory, (513, width), (shift * memory.itemsize, memory.itemsize))
    x = overlapping.copy()
    array = on(device, x)
    with expect_launches(1):
        result = smemkit.reduce(array, op, 0)
    assert_array_equal(result.numpy(), getattr(np, op)(x, 0))


@pytest.mark.parametrize(
    ("op", "dtype", "n"),
    [
        ("sum", "float32", 1_000_001),
        ("sum", "float64", 1_000_001),
        ("mean", "complex64", 9_000_001),
        ("argmax", "float32", 18_000_003),
        ("var", "float32", 18_000_003),
        ("max", "float32", 60_000_003),
    ],
)
def test_repeated_inter_block_reductions(device, op, dtype, n):
    """As many blocks as fit on a GPU at once, or more, with states of one or several words. Launches on two arrays
    alternate without a pause, so that stale partial results of one would show in the other."""
    n = n if device != "cpu" else n // (50 if n < 5_000_000 else times(50, 250))
    hosts = integers((n,), dtype), integers((n,), dtype, seed=1) + np.ones(1, dtype)
    hosts[0][n // 2], hosts[1][n - 5] = 100, 50  # the maxima are not in the first block
    arrays = [on(device, host) for host in hosts]
    results = [smemkit.reduce(arrays[i % 2], op) for i in range(20)]
    for host, of_host in zip(hosts, (results[::2], results[1::2]), strict=True):
        wide = host.astype({"float32": "float64", "complex64": "complex128"}.get(dtype, dtype))
        assert len({result.numpy().tobytes() for result in of_host}) == 1
        if op in ("max", "argmax"):
            assert of_host[0].item() == getattr(np, op)(wide)
        np.testing.assert_allclose(of_host[0].numpy(), getattr(np, op)(wide), rtol=2e-7)


# ---- kernel choice ----------------------------------------------------------------------------------------------

KERNEL_CHOICES = [  # shape, axis, kernel=, __global__ function, and whether several blocks share a row or tile
    ((1000,), 0, None, "reduce_rows", False),
    ((16_000,), 0, None, "reduce_rows", False),
    ((100_000,), 0, None, "reduce_rows", True),
    ((2, 100_000), 1, None, "reduce_rows", True),
    ((2200, 140), 1, None, "reduce_rows", False),
    ((4000, 16), 1, None, "reduce_short_rows", False),
    ((14_000, 5), 1, None, "reduce_small_columns", False),
    ((33_000, 5), 1, None, "reduce_rowwise", False),
    ((22_000, 3), 1, None, "reduce_rows_in_registers", False),
    ((22_000, 3), 1, "rowwise", "reduce_rowwise", False),
    ((40, 3), 1, None, "reduce_rows_in_registers", False),
    ((4000, 7), 1, None, "reduce_small_columns", False),
    ((300, 37), 1, None, "reduce_small_columns", False),
    ((3, 313), 1, None, "reduce_small_columns", False),
    ((2000, 601), 1, None, "reduce_small_columns", False),
    ((150, 1000), 1, None, "reduce_rows", False),
    ((4000, 32), 1, None, "reduce_short_rows", False),
    ((3000, 512), 1, None, "reduce_rows", False),
    ((4000, 3), 0, None, "reduce_small_columns", False),
    ((40_000, 3), 0, None, "reduce_small_columns", True),
    ((3, 9001), 0, None, "reduce_small_columns", False),
    ((3, 9000), 0, None, "reduce_few_rows", False),
    ((300, 4, 8), 1, None, "reduce_small_columns", False),
    ((1, 300), 0, None, "reduce_rows_in_registers", False),
    ((2, 205_000), 0, None, "reduce_few_rows", False),
    ((5, 205_000), 0, None, "reduce_whole_columns", False),
    ((5, 205_001), 0, None, "reduce_columns", False),
    ((40, 4, 5200), 1, None, "reduce_few_rows", False),
    ((40, 11, 5200), 1, None, "reduce_whole_columns", False),
    ((20_000, 3), 0, "columns", "reduce_columns", True),
    ((1000, 300), 0, "columns", "reduce_columns", True),
    ((60, 400), 0, "columns", "reduce_columns", False),
]


@pytest.mark.parametrize(("shape", "axis", "kernel", "function", "split"), KERNEL_CHOICES, ids=str)
@pytest.mark.covering(most=5)
def test_kernel_choice_passes_the_checker(shape, axis, kernel, function, split):
    """One launch, of the kernel for the shape, without faults, with whole sectors and few bank conflicts. Kernels
    that load single elements read a sector several times; those whose vectors are not adjacent, twice."""
    report = smemkit.check(smemkit.sum, np.ones(shape, np.float32), axis, kernel=kernel, blocks="all")
    (launch,) = report.launches
    assert report.ok, report
    assert launch.kernel.split("<")[0] == function
    assert (launch.grid[1] > 1) is split
    loads = [line for line in launch.lines if line.space == "global" and line.access == "load"]
    sector_reads = {"reduce_small_columns": 8 if axis else 3, "reduce_rowwise": 8, "reduce_rows_in_registers": 2}
    most = sector_reads.get(function, 1.25)
    assert sum(line.sectors for line in loads) <= most * sum(line.ideal_sectors for line in loads)
    shared = [line for line in launch.lines if line.space == "shared"]
    assert sum(line.conflicts for line in shared) <= 0.25 * sum(line.wavefronts for line in shared)


@pytest.mark.parametrize(("n", "blocks"), [(4180, 133), (4096, 1057), (8192, 1057)])
def test_warp_per_row_if_a_block_would_idle(n, blocks):
    """Eight rows per block if a block per row would need another round of loads for 21 vectors; otherwise one."""
    report = smemkit.check(smemkit.sum, np.ones((1057, n), np.int32), 1)
    assert report.ok, report
    assert report.launches[0].grid == (blocks, 1, 1)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_shortest_rows_are_not_copied(device, dtype):
    """A thread takes one or several contiguous rows. Strided rows are not made contiguous for that."""
    whole = (integers((30_000, 4), dtype) / 7).astype(dtype)
    for x in (np.ascontiguousarray(whole[:, :3]), whole[:, :3]):
        array = on(device, whole)[:, :3] if x.base is whole else on(device, x)
        with expect_launches(1):
            result = smemkit.sum(array, 1)
        assert_array_equal(result.numpy(), exact("sum", x, 1).astype(result.dtype))


def assert_address_independent(device, shape, dtype, axis, gap):
    """Checks the results, and that their bits do not depend on the addresses of x and `out`."""
    x = integers(shape, dtype)
    if x.dtype.kind in "fV":
        x = (x / (7 + np.arange(shape[-1]) % 13)).astype(dtype)
    base = on(device, np.concatenate([x.ravel()[:1], x.ravel()]))
    wide = on(device, np.concatenate([x, x[..., :gap]], axis=-1))
    views = [on(device, x), base[1:].reshape(shape), wide[..., : shape[-1]]]
    for op in ("sum", "mean", "min", "max"):
        expected = exact(op, x, axis)
        results = [smemkit.asnumpy(smemkit.reduce(view, op, axis)) for view in views]
        if np.dtype(dtype).kind in "fV" and op in ("sum", "mean"):
            error = 2 * np.finfo(dtype).eps if dtype != "bfloat16" else 2.0**-7
            np.testing.assert_allclose(
                results[0].astype(float), expected.astype(float), rtol=error, atol=4 * error
            )
        else:
            assert_array_equal(results[0], expected.astype(results[0].dtype))
        for result in results[1:]:
            assert_array_equal(result.view(np.uint8), results[0].view(np.uint8))
        out = smemkit.empty(expected.size + 1, results[0].dtype, device=device)[1:].reshape(expected.shape)
        smemkit.reduce(views[0], op, axis, out=out)
        assert_array_equal(out.numpy().view(np.uint8), results[0].view(np.uint8))


each_element_size = pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "float16", "bfloat16", "float32", "int64", "float64"]
)


@each_element_size
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8])
@pytest.mark.covering(1, most=5)
def test_shortest_rows_at_any_address(device, dtype, n):
    assert_address_independent(device, (70_003, n), dtype, 1, 1)


@each_element_size
@pytest.mark.parametrize("rows", [2, 3, 4, 5])
@pytest.mark.covering(1, most=2)
def test_few_rows_at_any_address(device, dtype, rows):
    """Two matrices with so many columns that five rows take the kernel for whole columns."""
    width = 26_000 * 16 // np.dtype(dtype).itemsize
    assert_address_independent(device, (2, rows, width), dtype, 1, 16)


@pytest.mark.parametrize(("shape", "axis"), [((70_003, 3), 1), ((3, 203_000), 0)], ids=str)
def test_vectorized_results_in_parts_and_with_initial(device, shape, axis):
    x = integers(shape, "float32")
    whole = smemkit.sum(x / np.float32(7), axis, device=device)
    with parts_of(40_004):
        assert smemkit.sum(x / np.float32(7), axis, device=device).tobytes() == whole.tobytes()
    for op in ("sum", "min"):
        result = smemkit.reduce(on(device, x), op, axis, initial=-5)
        assert_array_equal(result.numpy(), getattr(np, op)(x, axis=axis, initial=-5))


@pytest.mark.parametrize("op", ["argmax", "var", "any"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((30_000,), 0), ((900, 21), 1), ((4000, 21), 1), ((9000, 3), 0), ((50, 300), 0)], ids=str
)
@pytest.mark.covering(1, most=4)
def test_other_operations_pass_the_checker(op, shape, axis):
    for dtype, kernel in itertools.product(("int8", "float64"), (None, "columns") if axis == 0 else (None,)):
        report = smemkit.check(smemkit.reduce, integers(shape, dtype), op, axis, kernel=kernel)
        assert report.ok, report


@pytest.mark.parametrize("kernel", ["columns", "small_columns"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16"])
def test_small_integer_sums_do_not_overflow(device, dtype, kernel):
    """The kernels add them in 32 bits, for as many rows as 32 bits hold the sum of."""
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for value in (low, high):
        for shape in ((140_000, 2), (140_000, 5), (20_000, 64)):
            x = np.full(shape, value, dtype)
            result = smemkit.sum(on(device, x), 0, kernel=kernel)
            assert_array_equal(smemkit.asnumpy(result), np.full(shape[1], shape[0] * int(value)))


def test_bool_is_any_nonzero_byte(device):
    x = np.array([[0, 1, 2, 128, 255]] * 300, np.uint8)
    for kernel in ("columns", "small_columns", None):
        assert_array_equal(
            smemkit.asnumpy(smemkit.sum(on(device, x.view(bool)), 0, kernel=kernel)), [0, 300, 300, 300, 300]
        )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
@pytest.mark.covering(most=1)
def test_dtype_float64_accumulates_in_float64(device, dtype, axis):
    """The sums take a few bits more than float32 has, or fit float64 without compensated summation."""
    x = np.zeros((2200, 4096), dtype)
    x[:, ::512] = 1
    x[:, 1::512] = 2.0**-24
    if dtype != "float16":
        x[:, 0] = 2.0**30
        for k in range(1, 32):
            x[:, k * 128 : k * 128 + 4] = 1 + 2.0**-23
    wide = np.result_type(dtype, "float64")
    x = x if axis else np.ascontiguousarray(x.T)
    for out in (None, np.empty(2200, wide)):
        result = smemkit.sum(x, axis, dtype=None if out is not None else wide, out=out, device=device)
        assert_array_equal(result, [math.fsum(x.take(0, 1 - axis).real.tolist())] * 2200)
    mean = smemkit.mean(x, axis, dtype=wide, device=device)
    assert_array_equal(mean, result / 4096)


def test_overflowing_variance_is_infinite(device):
    for x in ([1e200, -1e200], [1e200] + [-1e200] * 999):
        assert smemkit.var(np.array(x), device=device) == np.inf
    with np.errstate(all="ignore"):
        assert np.isnan(smemkit.var(np.array([np.inf, 1.0]), device=device))


@pytest.mark.parametrize("device", [pytest.param("cuda:0", marks=pytest.mark.gpu)], indirect=True)
def test_concurrent_streams_have_separate_counters(device):
    xs = [on(device, np.random.default_rng(i).standard_normal(3_000_000, np.float32)) for i in range(8)]
    expected = [smemkit.sum(x).item() for x in xs]
    streams = [smemkit.Stream(device=device) for _ in xs]
    outs = [[smemkit.empty((), "float32", device=device) for _ in range(100)] for _ in xs]
    smemkit.synchronize(device)
    for k in range(100):
        for x, stream, out in zip(xs, streams, outs, strict=True):
            smemkit.sum(x, out=out[k], stream=stream)
    smemkit.synchronize(device)
    for out, value in zip(outs, expected, strict=True):
        assert [result.item() for result in out] == [value] * 100


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_mean_of_large_integers_is_accurate(device, dtype):
    x = np.full((3, 100_000), 2**53 - 1, dtype)
    x[:, ::3] = 3
    for axis in (0, 1):
        y = x if axis else np.ascontiguousarray(x.T)
        exact = [float(Fraction(sum(row.tolist()), row.size)) for row in x]
        np.testing.assert_allclose(smemkit.mean(y, axis, device=device), exact, rtol=2.0**-52)
