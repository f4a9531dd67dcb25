"""The accuracy of `mma_split` and `wgmma_split` as tensor cores round, which the executor does not imitate, and
special numbers."""

import ml_dtypes
import numpy as np
import pytest
from cases import integers, integers_for
from tiers import times

import smemkit

EXTRA_BITS = (
    2  # in addition to the 24 of a float32, to which all summands of an mma are cut off on an H100 (Khattak and
)
# Mikaitis, "Accurate Models of NVIDIA Tensor Cores", 2025)
STEP, FLUSH = 16, 2048  # numbers along k in an mma, and in a sum of mma_split
TILE = 64  # the same in a sum of wgmma_split


def truncated(x, exponent):
    """x without what is below 2**exponent."""
    return np.ldexp(np.trunc(np.ldexp(x, -exponent)), exponent)


def mma(a, b, c):
    """c + a @ b for (m, STEP) @ (STEP, n): summands are cut off below the largest one, and so is the sum."""
    terms = np.concatenate([a[:, :, None] * b[None], c[:, None, :]], axis=1)  # exact in float64
    largest = np.frexp(np.abs(terms).max(axis=1))[1]
    total = truncated(terms, (largest - 24 - EXTRA_BITS)[:, None, :]).sum(axis=1)
    return truncated(total, np.frexp(total)[1] - 24)


def parts(x, dtype=ml_dtypes.bfloat16, count=3):
    """The numbers that add up to x, nearly."""
    found = []
    for _ in range(count):
        found.append(x.astype(dtype).astype(np.float32))
        x = x - found[-1]
    return [part.astype(np.float64) for part in found]


def products(a, b, step, orders):
    """The sum of the products of the parts of a and b whose numbers add up to these, added to 0 in their order."""
    total = np.zeros((a[0].shape[0], b[0].shape[1]))
    for order in orders:
        for part in range(order + 1):
            for k in range(0, step, STEP):
                total = mma(a[part][:, k : k + STEP], b[order - part][k : k + STEP], total)
    return total.astype(np.float32)


def mma_split(a, b):
    """What `mma_split` computes on tensor cores."""
    result = total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(0, a.shape[1], STEP):
        if k % FLUSH == 0:
            result, total = result + total, np.zeros_like(total)
        total += products(parts(a[:, k : k + STEP]), parts(b[k : k + STEP]), STEP, (2, 1, 0))
    return result + total


def powers(x, axis, exponent):
    """The powers of two that bring the largest of each row or column to this exponent."""
    return np.exp2(exponent + 1 - np.frexp(np.abs(x).max(axis=axis, keepdims=True))[1]).astype(np.float64)


def wgmma_split(a, b):
    """What `wgmma_split` computes on tensor cores, if all rows and columns are in one tile."""
    scaled = a * powers(a, 1, 14), b * powers(b, 0, 14)
    dense = all(
        np.all((np.abs(x) >= 512).sum(axis) > x.shape[axis] / 2) for x, axis in zip(scaled, (1, 0), strict=True)
    )
    short = all(np.all(x.astype(np.float16) == x) for x in scaled)
    kind, orders = ((np.float16, 2), [(1, 0)]) if dense or short else ((ml_dtypes.bfloat16, 3), [(2, 1), (0,)])
    exponent = 14 if dense or short else 50
    scales = powers(a, 1, exponent), powers(b, 0, exponent)
    a, b = ((x * scale).astype(np.float32) for x, scale in zip((a, b), scales, strict=True))
    total, rest = (np.zeros((a.shape[0], b.shape[1]), np.float32) for _ in range(2))
    for k in range(0, a.shape[1], TILE):
        of_a, of_b = parts(a[:, k : k + TILE], *kind), parts(b[k : k + TILE], *kind)
        for some in orders[:-1]:
            rest += products(of_a, of_b, TILE, some)
        x = products(of_a, of_b, TILE, orders[-1])
        before, total = total, total + x
        if len(orders) > 1:
            rest += (before.astype(np.float64) + x - total).astype(np.float32)
    return ((total + rest) / scales[0] / scales[1]).astype(np.float32)


MODELS = {"mma_split": mma_split, "wgmma_split": wgmma_split}


def band(shape, width):
    """Ones near the diagonal of a matrix as broad as it is long, of which this is the end; elsewhere 0."""
    row, column = np.indices(shape)
    return np.abs((row - column) % min(shape)) <= width


OPERANDS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "one sign": lambda rng, shape: rng.random(shape),
    "diagonal": lambda rng, shape: rng.standard_normal(shape) * band(shape, 0),
    "tridiagonal": lambda rng, shape: rng.standard_normal(shape) * band(shape, 1),
    "wide exponents": lambda rng, shape: rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 31, shape),
}


def error(result, a, b):
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return np.linalg.norm(result - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("k", [64, 1024, pytest.param(8192, marks=pytest.mark.slow)])
@pytest.mark.parametrize("values", OPERANDS)
@pytest.mark.parametrize("kernel", MODELS)
@pytest.mark.covering
def test_products_on_tensor_cores_are_as_accurate_as_those_of_float32(kernel, values, k):
    rng = np.random.default_rng(k)
    a, b = (OPERANDS[values](rng, shape).astype(np.float32) for shape in ((24, k), (k, 20)))
    result, plain = MODELS[kernel](a, b), smemkit.matmul(a, b, kernel="simt", device="cpu")
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert np.all(np.abs(result - a.astype(np.float64) @ b.astype(np.float64)) <= (k + 2) * 2.0**-24 * magnitude)
    # wgmma_split is chosen from k = 512 on
    if (values in ("normal", "one sign") and kernel == "mma_split") or (kernel == "wgmma_split" and k > 500):
        assert error(result, a, b) <= error(plain, a, b)


@pytest.mark.parametrize("values", OPERANDS)
@pytest.mark.parametrize("kernel", MODELS)
def test_the_kernel_adds_the_same_products(kernel, values):
    """The executor rounds each mma once, to nearest: the results differ in the last bits only."""
    rng = np.random.default_rng(0)
    a, b = (OPERANDS[values](rng, shape).astype(np.float32) for shape in ((40, 256), (256, 30)))
    result = smemkit.matmul(a, b, kernel=kernel, device="cpu")
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    ulps = {"mma_split": 4, "wgmma_split": 8}[kernel]  # sums of 16 products, and of 64
    assert np.all(np.abs(result - MODELS[kernel](a, b)) <= ulps * 2.0**-24 * magnitude)
    if values == "normal":
        assert error(result, a, b) < error(smemkit.matmul(a, b, kernel="simt", device="cpu"), a, b)


def test_the_kernel_adds_several_sums():
    """Numbers of one sign have an error that grows with the length of a sum."""
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape).astype(np.float32) for shape in ((20, 8192), (8192, 20)))
    assert error(smemkit.matmul(a, b, kernel="mma_split", device="cpu"), a, b) < 2.5 * 2.0**-24


EACH_SPECIAL = pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 3.4e38, 1e-38, 1e-45])
EACH_SPLIT = pytest.mark.parametrize("kernel", [*MODELS, "wgmma_split_small"])


def special_operands(special):
    """Operands with this number in one tile."""
    a, b = integers((130, 40), np.float32), integers((40, 135), np.float32, seed=1)
    b[b == 0] = 1  # infinity times 0 is NaN everywhere
    a[3, 5], b[7, 134] = special, special
    return a, b


@EACH_SPECIAL
@EACH_SPLIT
@pytest.mark.covering(1)
def test_numbers_beyond_the_parts_are_multiplied_as_float32(kernel, special):
    a, b = special_operands(special)
    with np.errstate(invalid="ignore", over="ignore"):
        plain = smemkit.matmul(a, b, kernel="simt", device="cpu")
        result = smemkit.matmul(a, b, kernel=kernel, device="cpu")
    np.testing.assert_array_equal(result, plain)


@EACH_SPECIAL
@EACH_SPLIT
@pytest.mark.covering(most=1)
def test_products_of_numbers_beyond_the_parts_have_no_fault(kernel, special):
    a, b = special_operands(special)
    assert not smemkit.check(smemkit.matmul, a, b, kernel=kernel, blocks="all").faults


@pytest.mark.parametrize("kernel", [*MODELS, "wgmma_split_small"])
def test_products_with_one_hot_rows_and_columns_are_exact(device, kernel):
    x = np.random.default_rng(0).standard_normal((150, 130), dtype=np.float32)
    x[0] = 0
    one = np.eye(130, dtype=np.float32)
    np.testing.assert_array_equal(smemkit.matmul(x, one, kernel=kernel, device=device), x)
    np.testing.assert_array_equal(smemkit.matmul(one, x[:130], kernel=kernel, device=device), x[:130])


def test_wide_rows_change_only_tiles_of_their_own(device):
    """What float16 does not hold decides for each strip of 128 rows and columns, so that a part of the rows gives
    the same bits."""
    rng = np.random.default_rng(0)
    a, b = (OPERANDS["normal"](rng, shape).astype(np.float32) for shape in ((390, 100), (100, 260)))
    a[140:250] *= np.exp2(rng.integers(-30, 31, (110, 100))).astype(np.float32)
    b[1::2, 200] = 0
    whole = smemkit.matmul(a, b, kernel="wgmma_split", device=device)
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert np.all(np.abs(whole - a.astype(np.float64) @ b.astype(np.float64)) <= 102 * 2.0**-24 * magnitude)
    for rows in slice(0, 128), slice(128, 256), slice(256, 390):
        np.testing.assert_array_equal(smemkit.matmul(a[rows], b, kernel="wgmma_split", device=device), whole[rows])
    np.testing.assert_array_equal(smemkit.matmul(a, b, kernel="wgmma_split_small", device=device), whole)


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [("wgmma_large", "float16"), ("wgmma_large", ml_dtypes.bfloat16), ("dmma_small", "float64")],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_unaligned_operands_of_the_tma_are_copied(device, kernel, dtype, order):
    a, b = integers((140, 75), np.float32).astype(dtype), integers((75, 259), np.float32, seed=1).astype(dtype)
    a, b = (np.array(x, order=order) for x in (a, b))
    expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(smemkit.matmul(a, b, kernel=kernel, device=device), expected)
    wide = np.zeros((140, 80), dtype)[:, 1:76]
    wide[:] = a
    np.testing.assert_array_equal(smemkit.matmul(wide, b, kernel=kernel, device=device), expected)


def grids(a, b, **options):
    """The grid and the cluster of each launch of wgmma_large, which must have no fault."""
    report = smemkit.check(smemkit.matmul, a, b, kernel="wgmma_large", **options)
    assert report.ok, report
    return [(launch.grid[0], launch.cluster) for launch in report.launches]


@pytest.mark.parametrize(
    ("orders", "m", "k"),
    [
        *((orders, 200, 40) for orders in ("CC", "CF", "FC", "FF")),
        ("CC", 1096, 24),
    ],  # 9 rows of tiles, one outside C
)
def test_two_blocks_share_the_tiles_of_b_if_rows_begin_amid_sectors(device, orders, m, k):
    a, b = integers((m, k), np.float32), integers((k, 264), np.float32, seed=1)
    a, b = (np.array(x.astype("float16"), order=order) for x, order in zip((a, b), orders, strict=True))
    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype("float16")
    np.testing.assert_array_equal(smemkit.matmul(a, b, kernel="wgmma_large", device=device), expected)
    if orders in ("CF", "FC"):  # two rows of tiles
        assert grids(a, b, blocks=2) == [(6, (2, 1, 1))]


def test_blocks_share_the_tiles_of_b_in_one_round_after_another(device):
    """128 full tiles in 32 of 38 rows of tiles, because 33 is odd, and 48 thin ones; more steps than stages."""
    a, b = integers((19, 200, 264), np.float32), integers((264, 1000), np.float32, seed=1)
    expected = (a @ b).astype("float16")
    a, b = a.astype("float16"), b.astype("float16")
    np.testing.assert_array_equal(smemkit.matmul(a, b, kernel="wgmma_large", device=device), expected)


def test_blocks_share_no_tiles_if_one_has_none_to_share_or_copies_are_fast():
    a, b = integers((100, 72), "float16"), integers((72, 264), "float16")
    assert grids(a, b) == [(3, None)]  # one row of tiles
    assert grids(np.zeros((200, 64), "float16"), np.zeros((64, 272), "float16")) == [(6, None)]


@pytest.mark.parametrize("completion", ["early", "late"])
def test_shared_tiles_have_no_fault(completion):
    """More steps than stages."""
    a, b = np.ones((200, 328), "float16"), np.ones((328, 264), "float16")
    assert grids(a, b, completion=completion, blocks=2) == [(6, (2, 1, 1))]


FEW_WIDTHS = [(160, "CF"), (224, "FC"), (240, "FF"), (256, "CC")]
WIDTHS = [128, 160, 192, 224, 240, 256]  # of tiles of wgmma_large


@pytest.mark.parametrize(
    ("width", "orders"),
    [
        pytest.param(width, orders, marks=() if (width, orders) in FEW_WIDTHS else pytest.mark.slow)
        for width in WIDTHS
        for orders in ("CC", "CF", "FC", "FF")
    ],
)
def test_tiles_of_every_width(device, width, orders):
    """66 rows of two tiles each are a wave of 132 blocks. If rows of b are along k, the last tile lacks a column,
    and elements are stored one by one."""
    n = 2 * width - (orders[1] == "F")
    a, b = integers((66, 8, 72), np.float32), integers((72, n), np.float32, seed=1)
    expected = (a @ b).astype("float16")
    a, b = a.astype("float16"), np.array(b.astype("float16"), order=orders[1])
    if orders[0] == "F":
        a = np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2)
    np.testing.assert_array_equal(smemkit.matmul(a, b, kernel="wgmma_large", device=device), expected)


@pytest.mark.parametrize(
    ("shape", "n"),
    [
        ((68, 8, 72), 512),  # 66 rows of two full tiles, a wave of 132 blocks, and two rows of four thin ones
        ((30, 520, 72), 256),  # 132 of 150 rows, amid a matrix' five, and 18 of two
        ((33, 200, 72), 312),  # blocks share the tiles of b, of 160 columns
    ],
)
def test_the_last_rows_of_tiles_are_thin_if_blocks_would_have_none(device, shape, n):
    a, b = integers(shape, np.float32), integers((72, n), np.float32, seed=1)
    expected = (a @ b).astype("float16")
    a, b = a.astype("float16"), b.astype("float16")
    np.testing.assert_array_equal(smemkit.matmul(a, b, kernel="wgmma_large", device=device), expected)


@pytest.mark.parametrize("width", [160, 224, 240])
def test_thin_tiles_are_stored_without_what_is_beside_them(width):
    """Their last rounds of 64 columns are not full. The first blocks have neighbours."""
    a, b = np.ones((8, 16), "float16"), np.ones((16, 132 * width), "float16")
    assert grids(a, b, blocks=3) == [(132, None)]


@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
def test_doubles_of_every_pair_of_layouts_are_multiplied(device, orders):
    """The operands' layouts decide which is mma's first one, and what the lanes load."""
    for kernel in "dmma_large", "dmma_small", "wgmma_residues":
        a, b = integers_for(kernel, (140, 75), "float64"), integers_for(kernel, (75, 200), "float64", seed=1)
        x, y = (np.array(x, order=order) for x, order in zip((a, b), orders, strict=True))
        np.testing.assert_array_equal(smemkit.matmul(x, y, kernel=kernel, device=device), a @ b)


def test_checks_of_doubles_run_all_quarters_of_a_tile():
    report = smemkit.check(smemkit.matmul, np.ones((64, 16)), np.ones((16, 64)), kernel="dmma_large")
    assert [launch.grid[0] for launch in report.launches] == [4]


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
def test_whole_tiles_of_doubles_of_every_pair_of_layouts(device, orders):
    """34 tiles are too many to be divided among 132 blocks; k is longer than all stages."""
    a, b = integers((34, 70, 120), "float64"), integers((34, 120, 72), "float64", seed=1)
    expected = a @ b
    a, b = (
        x if order == "C" else np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
        for x, order in zip((a, b), orders, strict=True)
    )
    np.testing.assert_array_equal(smemkit.matmul(a, b, kernel="dmma_large", device=device), expected)


def test_tiles_of_doubles_have_the_same_bits(device):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((150, 333)), rng.standard_normal((333, 140))
    large, small = (smemkit.matmul(a, b, kernel=kernel, device=device) for kernel in ("dmma_large", "dmma_small"))
    np.testing.assert_array_equal(large, small)
    np.testing.assert_allclose(large, a @ b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", ["wgmma_single", "wgmma_split", "wgmma_split_small"])
def test_a_tile_of_two_strips_has_the_parts_of_both(device, kernel):
    """One sparse column makes float16 too little for its strip, and so for a tile of 256 columns."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in ((128, 100), (100, 256)))
    b[1:, 200] = 0
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    bound = 2.0**-10 if kernel == "wgmma_single" else 102 * 2.0**-24
    result = smemkit.matmul(a, b, kernel=kernel, device=device)
    assert np.all(np.abs(result - a.astype(np.float64) @ b.astype(np.float64)) <= bound * magnitude)


@pytest.mark.parametrize(
    "kernel", ["wgmma_large", "wgmma_small", "wgmma_single", "wgmma_split", "dmma_large", "wgmma_residues"]
)
@pytest.mark.parametrize("convert", ["swapped", "cast", "native"])
def test_broadcast_batches_have_room_for_their_parts(device, kernel, convert):
    """An operand that is the same for a batch is one matrix, unless it is converted."""
    of_doubles, of_floats = kernel in ("dmma_large", "wgmma_residues"), kernel in ("wgmma_single", "wgmma_split")
    dtype = np.dtype("float64" if of_doubles else "float32" if of_floats else "float16")
    other = {"swapped": dtype.newbyteorder(), "cast": np.dtype("int8"), "native": dtype}[convert]
    batch = times((3, 5), (2, 3))
    a = np.broadcast_to(integers_for(kernel, (40, 96), np.float32).astype(other), (*batch, 40, 96))
    b = integers_for(kernel, (batch[1], 96, 48), np.float32, seed=1).astype(dtype)
    expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(smemkit.matmul(a, b, kernel=kernel, device=device), expected)
    there = smemkit.asarray(a[0, 0], device=device)
    if convert != "swapped":  # on a device elements are in native order
        x = smemkit.asarray(b, device=device)
        np.testing.assert_array_equal(smemkit.matmul(there, x, kernel=kernel).numpy(), expected[0])


# ---- integers ------------------------------------------------------------------------------------------------

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DIGITS = ["wgmma_digits", "wgmma_digits_small"]


def any_integers(shape, dtype, seed=0):
    """Every value of the dtype is as likely as another."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("kernel", DIGITS)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
@pytest.mark.covering(1)
def test_integers_of_every_value_wrap_around(device, kernel, dtype, orders):
    for m, k, n in (1, 1, 1), (3, 16, 8), (130, 131, 67):
        a, b = any_integers((m, k), dtype), any_integers((k, n), dtype, seed=1)
        expected = a @ b
        a, b = (np.array(x, order=order) for x, order in zip((a, b), orders, strict=True))
        np.testing.assert_array_equal(smemkit.matmul(a, b, kernel=kernel, device=device), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64"])
def test_integers_at_any_strides_and_in_batches(device, dtype):
    a, b = any_integers((2, 1, 70, 66), dtype)[..., ::2], any_integers((3, 40, 33), dtype, seed=1).swapaxes(1, 2)
    for x, y in (a, b), (a[:, :, ::-1], b[..., ::-1]), (a[0, 0], b):
        np.testing.assert_array_equal(smemkit.matmul(x, y, kernel="wgmma_digits_small", device=device), x @ y)


@pytest.mark.parametrize("kernel", DIGITS)
@pytest.mark.parametrize(("dtype", "wide"), [("int8", "int32"), ("uint8", "int32"), ("uint8", "uint32")])
def test_bytes_are_multiplied_as_they_are_for_a_wider_result(device, kernel, dtype, wide):
    a, b = any_integers((3, 70, 300), dtype), any_integers((300, 133), dtype, seed=1)
    call = smemkit.matmul, a, b.T.copy().T
    options = {"kernel": kernel, "dtype": wide, "device": device}
    np.testing.assert_array_equal(call[0](*call[1:], **options), a.astype(wide) @ b.astype(wide))
    assert {(launch.op, launch.kernel) for launch in smemkit.plan(*call, **options).launches} == {
        ("matmul", kernel)
    }


@pytest.mark.parametrize(("dtypes", "wide"), [(("int8", "uint8"), "int32"), (("int8", "int8"), "int64")])
def test_other_operands_are_converted_to_the_dtype_of_the_result(device, dtypes, wide):
    a, b = any_integers((70, 30), dtypes[0]), any_integers((30, 33), dtypes[1], seed=1)
    expected = a.astype(wide) @ b.astype(wide)
    np.testing.assert_array_equal(
        smemkit.matmul(a, b, kernel="wgmma_digits_small", dtype=wide, device=device), expected
    )


def test_a_kernel_of_bytes_takes_no_other_operands(device):
    one = {name: np.ones((2, 2), name) for name in ("int8", "uint8", "int32", "float32")}
    for x1, x2, dtype, result in (
        ("int32", "int32", None, "int32"),
        ("int8", "int32", None, "int32"),
        ("int8", "uint8", None, "int16"),
        ("int8", "int8", "int64", "int64"),
        ("float32", "float32", None, "float32"),
    ):
        message = (
            f"kernel 'imma' multiplies two operands of int8, .* got {x1} and {x2}, with a result of {result};"
        )
        with pytest.raises(ValueError, match=message):
            smemkit.matmul(one[x1], one[x2], dtype=dtype, kernel="imma", device=device)
    assert smemkit.matmul(one["int8"], one["int8"], kernel="imma", device=device).dtype == np.int8


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 16, 48), (130, 160, 144), (131, 129, 67)])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", ["imma", "wgmma", "wgmma_specialized", "persistent"])
@pytest.mark.covering
def test_bytes_of_every_value_wrap_around_or_are_widened(device, name, dtype, m, k, n):
    a, b = any_integers((2, m, k), dtype), any_integers((k, n), dtype, seed=1)
    np.testing.assert_array_equal(smemkit.matmul(a, b, kernel=name, device=device), a @ b)
    wide = smemkit.matmul(a, b, kernel=name, dtype="int32", device=device)
    np.testing.assert_array_equal(wide, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.slow
def test_sums_of_digits_do_not_outgrow_32_bits(device):
    """16 600 products of digits of 255, four per element at one place: more than 2**32."""
    a, b = np.full((2, 16_600), np.uint64(2**64 - 1)), np.full((16_600, 3), np.uint64(2**32 - 1))
    np.testing.assert_array_equal(smemkit.matmul(a, b, kernel="wgmma_digits_small", device=device), a @ b)
