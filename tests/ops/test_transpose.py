"""Every kernel of transpose moves each element to its position, for all shapes; the ceiling `copy` only copies."""

import math

import numpy as np
import pytest
from cases import DTYPES, each_kernel, each_variant, expect_launches, numbered, on, poison
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from tiers import times

import smemkit

SIZES = ["int8", "float16", "float32", "float64", "complex128"]  # 1, 2, 4, 8 and 16 bytes
SHAPES = [
    (1, 1),
    (2, 3),
    (31, 33),
    (32, 32),
    (33, 31),
    (64, 64),
    (65, 63),
    (67, 41),
    (1, 257),
    (257, 1),
    (2, 1009),
]
EDGE_SHAPES = [  # edges of vectors, tiles and chunks, for any size of element
    (15, 17),
    (16, 128),
    (127, 129),
    (128, 272),
    (130, 96),
    (257, 15),
    (33, 600),
    (600, 33),
    (64, 300),
    (300, 64),
    (2, 2500),
    (2500, 2),
    (3, 1111),
    (1111, 3),
    (1030, 16),
    (5, 33, 40),
    (3, 70, 5),
    (3, 5, 70),
    (40, 8, 8),
]
EMPTY = [(0, 0), (0, 5), (5, 0)]


def expected_result(kernel, x):
    """The result that the kernel must give."""
    return x if kernel.row.role == "ceiling" else x.T


def scrambled(shape, dtype):
    """Numbers without a period; numbers that count up have one in small dtypes."""
    return (
        (numbered(shape, np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40))
        .astype(np.uint8)
        .astype(dtype)
    )


def kernel_result(kernel, device, x):
    """The kernel's result in an output that was poisoned before."""
    out = on(device, poison(expected_result(kernel, x).shape, x.dtype))
    with expect_launches(1):
        assert kernel(on(device, x), out=out) is out
    return out.numpy()


@each_kernel("transpose")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.covering
def test_every_element_is_moved_correctly(device, kernel, shape):
    x = numbered(shape, kernel.dtype)
    assert_array_equal(kernel_result(kernel, device, x), expected_result(kernel, x), strict=True)


@each_kernel("transpose", dtypes=SIZES)
@pytest.mark.covering(1)
def test_vectors_and_their_edges(device, kernel):
    for shape in EDGE_SHAPES:
        x = scrambled(shape, kernel.dtype)
        axes = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
        expected = x if kernel.row.role == "ceiling" else x.transpose(axes)
        out = on(device, poison(expected.shape, x.dtype))
        with expect_launches(1):
            kernel(on(device, x), axes, out=out)
        assert_array_equal(out.numpy(), expected, err_msg=str(shape), strict=True)


@each_kernel("transpose", dtypes=DTYPES)
@pytest.mark.covering(1)
def test_every_dtype(device, kernel):
    for shape in (33, 31), (1, 67), (64, 65):
        x = numbered(shape, kernel.dtype)
        assert_array_equal(kernel_result(kernel, device, x), expected_result(kernel, x), strict=True)


@each_variant("transpose", dtypes=SIZES)
def test_every_variant_guards_its_edges(device, kernel):
    tile = dict(kernel.options)["tile"]
    for shape in (tile - 1, tile + 1), (tile, tile), (tile + 1, 2 * tile - 1), (1, 2 * tile + 1):
        x = numbered(shape, kernel.dtype)
        assert_array_equal(kernel_result(kernel, device, x), expected_result(kernel, x), strict=True)


@each_kernel("transpose", dtypes=[*SIZES, "bfloat16", "complex64", "bool"])
def test_bits_are_moved_and_not_computed(device, kernel):
    size = np.dtype(kernel.dtype).itemsize
    bits = np.random.default_rng(0).integers(0, 256, (33, 35, size), np.uint8)  # NaNs with payloads among them
    x = bits.view(kernel.dtype)[..., 0]
    expected = bits if kernel.row.role == "ceiling" else bits.transpose(1, 0, 2)
    for result in (kernel_result(kernel, device, x), kernel(x, device=device)):
        assert_array_equal(result[..., None].view(np.uint8), expected)


@each_kernel("transpose")
def test_numpy_in_numpy_out(device, kernel):
    x = numbered((33, 31), kernel.dtype)
    result = kernel(x, device=device)
    assert type(result) is np.ndarray
    assert result.flags.c_contiguous
    assert result.flags.owndata
    assert_array_equal(result, expected_result(kernel, x), strict=True)


@each_kernel("transpose")
def test_numpy_out_is_overwritten_and_returned(device, kernel):
    x = numbered((33, 31), kernel.dtype)
    out = poison(expected_result(kernel, x).shape, kernel.dtype)
    assert kernel(x, out=out, device=device) is out
    assert_array_equal(out, expected_result(kernel, x))


@each_kernel("transpose")
@pytest.mark.parametrize("shape", EMPTY, ids=str)
@pytest.mark.covering
def test_empty_transposes_launch_nothing(device, kernel, shape):
    x = np.ones(shape, kernel.dtype)
    with expect_launches(0):
        result = kernel(x, device=device)
        array = kernel(on(device, x))
    assert result.shape == array.shape == expected_result(kernel, x).shape


@pytest.mark.parametrize("axes", [None, (1, 0), [1, 0], (-1, 0), (-1, -2)])
def test_axes(device, axes):
    x = numbered((3, 4), np.float32)
    assert_array_equal(smemkit.transpose(x, axes, device=device), x.T)


PERMUTED = [  # shape, axes
    ((5,), None),
    ((5,), (0,)),
    ((), ()),
    ((), None),
    ((3, 4, 5), None),
    ((3, 4, 5), (0, 2, 1)),
    ((3, 4, 5), (1, 0, 2)),
    ((3, 4, 5), (1, 2, 0)),
    ((3, 4, 5), (0, 1, 2)),
    ((3, 4, 5), (-1, 0, 1)),
    ((3, 1, 5), (1, 2, 0)),
    ((2, 3, 4, 5), (2, 3, 0, 1)),
    ((2, 3, 4, 5), (0, 3, 1, 2)),
    ((2, 3, 4, 5), (3, 1, 2, 0)),
    ((2, 1, 3, 2, 1, 2, 3), (6, 0, 5, 1, 4, 2, 3)),
]


@each_kernel("transpose")
@pytest.mark.parametrize(("shape", "axes"), PERMUTED, ids=str)
@pytest.mark.covering(1)
def test_any_permutation_of_any_dimensions(device, kernel, shape, axes):
    x = numbered(shape, kernel.dtype)
    expected = x if kernel.row.role == "ceiling" else np.transpose(x, axes)
    for operand in (x, on(device, x)):
        result = smemkit.asnumpy(kernel(operand, axes, device=device))
        assert_array_equal(result, expected, strict=True)
        assert result.flags.c_contiguous


@pytest.mark.parametrize(("shape", "axes"), PERMUTED, ids=str)
def test_default_kernel_permutes_in_one_launch(device, shape, axes):
    x = on(device, numbered(shape, np.float32))
    with expect_launches(1):
        smemkit.transpose(x, axes)


def test_out_may_be_the_operand(device):
    x = on(device, numbered((33, 33), np.float32))
    assert_array_equal(smemkit.transpose(x, out=x).numpy(), numbered((33, 33), np.float32).T)


# ---- strides ----


def framed(shape, dtype, left, right):
    """An array, and the slices of a view of `shape` in it: `left` elements before the view and `right` after it in
    each dimension."""
    whole = scrambled([length + left + right for length in shape], dtype)
    return whole, tuple(slice(left, left + length) for length in shape)


@each_kernel("transpose", dtypes=SIZES)
@pytest.mark.covering(1)
def test_strided_views_and_strided_out(device, kernel):
    for shape in (5, 7), (33, 130), (200, 20), (3, 40, 35):
        for left, right in (0, 3), (3, 2), (16, 16):
            x, inside = framed(shape, kernel.dtype, left, right)
            axes = None if len(shape) == 2 else (2, 0, 1)
            expected = x[inside] if kernel.row.role == "ceiling" else x[inside].transpose(axes)
            whole, out_slices = framed(expected.shape, kernel.dtype, right, left)
            out = on(device, whole)
            kernel(on(device, x)[inside], axes, out=out[out_slices])
            whole[out_slices] = expected  # and nothing else
            assert_array_equal(out.numpy(), whole, err_msg=f"{shape} {left} {right}")


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("rows", [40, 97, 128, 259])
@pytest.mark.covering(1)
def test_rows_at_any_offset_in_a_sector(device, dtype, rows):
    """With tiles of words, which are used for arrays of this size; the last tiles begin past the end of x."""
    x = scrambled((90, rows, 33), dtype)
    for begin, gap in (0, 0), (1, 2), (3, 5):
        whole = poison((90, 33, begin + rows + gap), dtype)
        out = on(device, whole)
        inside = np.s_[:, :, begin : begin + rows]
        smemkit.transpose(on(device, x), (0, 2, 1), kernel="tiles", out=out[inside])
        whole[inside] = x.transpose(0, 2, 1)  # and nothing else
        assert_array_equal(out.numpy(), whole, err_msg=f"{begin} {gap}")


@pytest.mark.parametrize("past", [0, 1, 15, 31])
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("uint8", (2101, 2003)),
        ("uint8", (5, 1027, 901)),
        ("float16", (1025, 1041)),
        ("float16", (17, 257, 481)),
    ],
    ids=str,
)
@pytest.mark.covering(1)
def test_rows_of_odd_lengths_are_read_by_sectors(device, dtype, shape, past):
    """Arrays so large that tiles are loaded by aligned sectors; x and out begin and end anywhere in a sector."""
    axes = (1, 0) if len(shape) == 2 else (0, 2, 1)
    flat = scrambled((past + math.prod(shape),), dtype)
    expected = flat[past:].reshape(shape).transpose(axes)
    whole = poison((past + expected.size + 40,), dtype)
    out, inside = on(device, whole), np.s_[past : past + expected.size]
    x = on(device, flat)[past:].reshape(shape)
    smemkit.transpose(x, axes, kernel="tiles", out=out[inside].reshape(expected.shape))
    whole[inside] = expected.ravel()  # and nothing else
    assert_array_equal(out.numpy(), whole)


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("shape", [(272, 288), (5, 160, 112), (1200, 1264), (3, 1088, 1024)], ids=str)
@pytest.mark.covering(1)
def test_whole_vectors_in_tiles_that_are_not_full(device, dtype, shape):
    """With the tiles for small and for large arrays, the last of which reach beyond the ends of x."""
    x = scrambled(shape, dtype)
    axes = (1, 0) if len(shape) == 2 else (0, 2, 1)
    whole = poison((2, *shape[:-2], shape[-1], shape[-2]), dtype)
    out = on(device, whole)
    smemkit.transpose(on(device, x), axes, kernel="tiles", out=out[0])
    whole[0] = x.transpose(axes)  # and nothing else
    assert_array_equal(out.numpy(), whole)


@pytest.mark.parametrize("dtype", SIZES)
def test_strided_views_are_one_launch(device, dtype):
    x = scrambled((6, 20, 34), dtype)
    array = on(device, x)
    for view, rows in (
        (array[1, :, 1:], x[1, :, 1:]),  # rows with gaps
        (array[2, ::-1, 3:], x[2, ::-1, 3:]),  # backwards
        (array[3, :, ::2], x[3, :, ::2]),  # no two elements are adjacent
        (array[:, 3, :].T, x[:, 3, :].T),  # a copy without the gaps
    ):
        into = on(device, poison((40, 40), dtype))[1 : 1 + rows.shape[1], 2 : 2 + rows.shape[0]]
        with expect_launches(1):
            smemkit.transpose(view, out=into)
        assert_array_equal(into.numpy(), rows.T)


def test_a_repeated_row(device):
    x = np.broadcast_to(scrambled((50,), np.float32), (40, 50))
    assert_array_equal(smemkit.transpose(x, device=device), x.T)


# ---- permutations ----

LAST_AXIS_FIXED = [  # shape of x, for axes 1, 0, 2
    (20, 30, 2),
    (20, 30, 3),
    (20, 30, 4),
    (20, 30, 16),
    (9, 11, 100),
    (9, 11, 101),
    (3, 5, 1031),
]


@each_kernel("transpose", dtypes=SIZES)
@pytest.mark.covering(1)
def test_segments_are_copied_as_segments(device, kernel):
    for shape in LAST_AXIS_FIXED:
        x = scrambled(shape, kernel.dtype)
        expected = x if kernel.row.role == "ceiling" else x.transpose(1, 0, 2)
        assert_array_equal(smemkit.asnumpy(kernel(on(device, x), (1, 0, 2))), expected, strict=True)


SHORT_FAST_AXES = [  # short fastest axes of x and of the result, with other axes between; shape, axes
    ((9, 70, 5), (2, 1, 0)),
    ((3, 611, 13), (2, 1, 0)),
    ((40, 2, 93, 4), (3, 0, 2, 1)),
    ((11, 30, 65, 2), (3, 1, 0, 2)),
    ((5, 33, 7, 9), (2, 1, 3, 0)),
    ((129, 9, 3, 3), (3, 2, 0, 1)),
    ((2, 3, 1999), (2, 1, 0)),
]


@pytest.mark.parametrize("kernel", [None, "tiles", "narrow", "small", "boxes"])
@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.covering(1)
def test_boxes_and_their_edges(device, kernel, dtype):
    for shape, axes in SHORT_FAST_AXES:
        for begin in 0, 1:  # 1: with gaps, and misaligned
            whole = scrambled([length + begin for length in shape], dtype)
            x = whole[(slice(begin, None),) * whole.ndim]
            array = on(device, whole)[(slice(begin, None),) * whole.ndim]
            expected = x.transpose(axes)
            out = on(device, poison(expected.shape, x.dtype))
            with expect_launches(1):
                smemkit.transpose(array, axes, kernel=kernel, out=out)
            assert_array_equal(out.numpy(), expected, err_msg=f"{shape} {axes} {begin}", strict=True)


FEW_ROWS = [1, 2, 3, 4, 5, 7, 8, 16, 33, 46, 63, 64]


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("few", FEW_ROWS)
@pytest.mark.covering(1)
def test_few_rows_at_any_offset(device, few, dtype):
    for columns in 65, 515, 4099:
        for skipped in 0, 1, 3:  # elements before x and before out
            whole = scrambled((3, few, columns + skipped), dtype)
            x, array = whole[..., skipped:], on(device, whole)[..., skipped:]
            buffer = on(device, poison((x.size + skipped,), x.dtype))
            out = buffer[skipped:].reshape(3, columns, few)
            with expect_launches(1):
                assert smemkit.transpose(array, (0, 2, 1), kernel="narrow", out=out) is out
            assert_array_equal(out.numpy(), x.transpose(0, 2, 1), err_msg=f"{columns} {skipped}", strict=True)
            assert_array_equal(buffer.numpy()[:skipped], poison((skipped,), x.dtype))


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.covering(most=2)
def test_few_rows_have_no_faults(dtype):
    for few in times((2, 3, 7, 33), (3, 33)):
        for columns in 300, 301:
            for skipped in 0, 1:
                x = np.zeros((few, columns + skipped), dtype)[:, skipped:]
                report = smemkit.check(smemkit.transpose, x, kernel="narrow", blocks="all")
                assert report.ok, report.faults


SEGMENT_COUNTS = [
    (1, 1),
    (3, 2),
    (1000, 1),
    (1023, 3),
    (1024, 5),
    (1025, 7),
    (4097, 2),
]  # numbers of segments along the two axes


@pytest.mark.parametrize("dtype", SIZES)
def test_segment_counts(device, dtype):
    for shape in SEGMENT_COUNTS:
        x = scrambled((2, *shape, 5), dtype)
        result = smemkit.transpose(on(device, x), (2, 1, 0, 3), kernel="segments")
        assert_array_equal(smemkit.asnumpy(result), x.transpose(2, 1, 0, 3), err_msg=str(shape), strict=True)


def test_box_and_its_tables_fit_shared_memory(device):
    """They need nearly all of the shared memory that a block has by default."""
    x = scrambled((35, 10, 33, 53, 4), "int16")
    for kernel in (None, "boxes"):
        result = smemkit.transpose(on(device, x), (1, 0, 2, 4, 3), kernel=kernel)
        assert_array_equal(smemkit.asnumpy(result), x.transpose(1, 0, 2, 4, 3))
    (launch,) = smemkit.check(smemkit.transpose, x, (1, 0, 2, 4, 3), blocks=1).launches
    assert launch.kernel.startswith("transpose_boxes")
    static_bytes = 7 * 24  # the kernel's array `parts`, for up to 7 axes
    assert 0 < launch.shared_bytes <= (48 << 10) - static_bytes


def test_blocks_process_boxes_of_several_sizes(device):
    for shape, axes in ((24, 22, 28, 6), (3, 1, 2, 0)), ((20, 20, 23, 42), (2, 1, 0, 3)):
        whole = scrambled(shape, "complex128")  # more boxes than a launch has blocks
        for inside in (slice(None),) * 4, (slice(1, None),) * 4:  # with gaps, boxes are shorter along two axes
            result = smemkit.transpose(on(device, whole)[inside], axes, kernel="boxes")
            assert_array_equal(result.numpy(), whole[inside].transpose(axes))


POLICY_CHOICES = [  # shape, dtype, axes, the rung that is taken
    ((100, 100), "float32", (0, 1), "small"),
    ((2000, 2000), "float32", (0, 1), "copy"),
    ((600, 700, 9), "float32", (1, 0, 2), "segments"),
    ((800, 900, 3), "float32", (1, 0, 2), "boxes"),
    ((3, 16384), "float16", (1, 0), "small"),
    ((1000, 1000), "float32", (1, 0), "tiles"),
    ((50_000, 33), "float32", (1, 0), "narrow"),
    ((33, 50_000), "float32", (1, 0), "narrow"),
    ((40_000, 8), "uint8", (1, 0), "narrow"),
    ((40_000, 8, 8), "float32", (0, 2, 1), "small"),
    ((8, 20_000, 15), "uint8", (2, 1, 0), "boxes"),
    ((2, 2000, 700), "float64", (1, 2, 0), "narrow"),
    ((256, 4, 56, 9), "float64", (1, 3, 2, 0), "narrow"),
    ((20, 4, 700, 9), "float32", (1, 3, 2, 0), "small"),
]


@pytest.mark.parametrize(("shape", "dtype", "axes", "rung"), POLICY_CHOICES, ids=str)
def test_policy_takes_the_rung_for_a_shape(shape, dtype, axes, rung):
    assert smemkit.plan("transpose", np.zeros(shape, dtype), axes, device="cpu").kernels == (rung,)


@st.composite
def permutations(draw):
    ndim = draw(st.integers(1, 6))
    shape = draw(st.lists(st.integers(1, (2000, 70, 30, 12, 7, 5)[ndim - 1]), min_size=ndim, max_size=ndim))
    begin = draw(st.lists(st.integers(0, 3), min_size=ndim, max_size=ndim))
    return shape, begin, draw(st.permutations(range(ndim)))


@pytest.mark.parametrize("kernel", [None, "tiles", "segments", "narrow", "small", "boxes"])
@settings(max_examples=times(100, 20))
@given(permutations(), st.sampled_from(SIZES))
def test_random_permutations_of_views(kernel, case, dtype):
    shape, begin, axes = case
    whole = scrambled([length + first for length, first in zip(shape, begin, strict=True)], dtype)
    inside = tuple(slice(first, None) for first in begin)
    result = smemkit.transpose(on("cpu", whole)[inside], axes, kernel=kernel)
    assert_array_equal(result.numpy(), whole[inside].transpose(axes))


# ---- in out_slices ----


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize(
    "shape", [(1, 1), (33, 33), (128, 128), (144, 144), (257, 257), (3, 48, 48), (4, 35, 35)], ids=str
)
def test_squares_are_transposed_in_place_in_one_launch(device, shape, dtype):
    x = scrambled(shape, dtype)
    expected = x.swapaxes(-1, -2).copy()
    array = on(device, x)
    axes = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    with expect_launches(1):
        assert smemkit.transpose(array, axes, out=array) is array
    assert_array_equal(array.numpy(), expected)


@each_kernel("transpose", dtypes=["float32"])
@pytest.mark.parametrize("shape", [(33, 33), (64, 64), (40, 70)], ids=str)
def test_every_kernel_supports_out_that_is_the_operand(device, kernel, shape):
    x = scrambled(shape, kernel.dtype)
    array = on(device, x)
    out = array if kernel.row.role == "ceiling" else array.reshape(shape[::-1])
    kernel(array, out=out)
    assert_array_equal(out.numpy(), expected_result(kernel, x))


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("shape", [(33, 33), (64, 64)], ids=str)
def test_in_place_by_name(device, shape, dtype):
    x = scrambled(shape, dtype)
    array = on(device, x)
    assert smemkit.plan("transpose", array, kernel="in_place", out=array).kernels == ("in_place",)
    with expect_launches(1):
        smemkit.transpose(array, kernel="in_place", out=array)
    assert_array_equal(array.numpy(), x.T)


def test_in_place_rejects_everything_else(device):
    square, rectangle = (on(device, np.zeros(shape, np.float32)) for shape in ((8, 8), (8, 9)))
    for x, out in ((square, None), (rectangle, rectangle.reshape(9, 8)), (square.numpy(), None)):
        with pytest.raises(ValueError, match=r"kernel: 'in_place' takes square .*; expected kernel=None"):
            smemkit.transpose(x, kernel="in_place", out=out, device=device)


def test_square_view_is_transposed_in_place(device):
    x = scrambled((100, 128), np.int32)
    array = on(device, x)
    square = array[4:84, 16:96]
    with expect_launches(1):
        smemkit.transpose(square, out=square)
    x[4:84, 16:96] = x[4:84, 16:96].T.copy()
    assert_array_equal(array.numpy(), x)


# ---- memory traffic ----


def memory_traffic(x, kernel):
    """(bank conflicts, sectors moved, least number of sectors) of a transpose, which must have no fault."""
    report = smemkit.check(smemkit.transpose, x, kernel=kernel, blocks="all")
    assert report.ok, report.faults
    shared = sum(line.conflicts for line in report.lines if line.space == "shared")
    moved = sum(line.sectors for line in report.lines if line.space == "global")
    return shared, moved, 2 * x.nbytes // 32


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("kernel", ["swizzled", "vectorized", "tiles"])
def test_tiles_have_no_bank_conflicts(kernel, dtype):
    conflicts, moved, least = memory_traffic(np.zeros((128, 256), dtype), kernel)
    assert conflicts == 0
    assert moved == least


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.covering(most=1)
def test_large_transposes_have_no_bank_conflicts(dtype):
    conflicts, moved, least = memory_traffic(np.zeros((1152, 1280), dtype), "tiles")
    assert conflicts == 0
    assert moved == least


@pytest.mark.parametrize(("dtype", "shape"), [("uint8", (2101, 2003)), ("float16", (1025, 1041))])
@pytest.mark.slow
def test_odd_rows_are_read_by_whole_sectors(dtype, shape):
    x = np.zeros(shape, dtype)
    assert smemkit.check(smemkit.transpose, x, kernel="tiles").launches[0].kernel == "transpose_sectors"
    conflicts, moved, least = memory_traffic(x, "tiles")
    assert conflicts == 0
    assert moved < 1.3 * least


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.covering(most=3)
def test_odd_rows_add_traffic_only_at_their_edges(dtype):
    conflicts, moved, least = memory_traffic(np.zeros((383, 385), dtype), "tiles")
    assert conflicts < least // 20
    assert (
        moved < {1: 4.5, 2: 1.9, 4: 1.4}.get(np.dtype(dtype).itemsize, 1.2) * least
    )  # edges are moved element by element


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("shape", [(6000, 33), (33, 6000)], ids=str)
@pytest.mark.covering(1, most=2)
def test_narrow_transposes_are_coalesced(shape, dtype):
    conflicts, moved, least = memory_traffic(np.zeros(shape, dtype), "narrow")
    assert conflicts < least // 5
    assert moved < 1.25 * least


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.covering(1, most=2)
def test_boxes_are_accessed_in_segments(dtype):
    x = np.zeros((8, 300, 15), dtype)
    report = smemkit.check(smemkit.transpose, x, (2, 1, 0), kernel="boxes", blocks="all")
    assert report.ok, report.faults
    moved = sum(line.sectors for line in report.lines if line.space == "global")
    assert moved < 3 * (2 * x.nbytes // 32)  # word by word, and each word requests a sector


@pytest.mark.parametrize("kernel", ["tiles", "segments", "narrow", "small", "boxes"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64"])
@pytest.mark.covering(1)
def test_strided_transposes_have_no_faults(kernel, dtype):
    for shape, axes in ((67, 130), (1, 0)), ((3, 700), (1, 0)), ((700, 3), (1, 0)), ((3, 5, 40, 7), (3, 1, 0, 2)):
        whole = np.zeros([length + 1 for length in shape], dtype)
        sliced = whole[(slice(1, None),) * whole.ndim]
        for x in times((whole, sliced), (sliced,)):
            report = smemkit.check(smemkit.transpose, x, axes, kernel=kernel, blocks="all")
            assert report.ok, report.faults


def test_numpy_out_may_be_a_view_of_the_operand(device):
    x = numbered((33, 31), np.float32)
    expected = x.T.copy()
    smemkit.transpose(x, out=x.reshape(31, 33), device=device)
    assert_array_equal(x.reshape(31, 33), expected)


def test_the_operand_is_not_written(device):
    x = on(device, numbered((33, 31), np.float32))
    smemkit.transpose(x)
    assert_array_equal(x.numpy(), numbered((33, 31), np.float32))


def test_more_tile_rows_than_the_height_of_a_grid(device):
    tile = min(size for row in smemkit.kernels("transpose") for size in row.sizes)
    x = numbered((65535 * tile + 3, 2), np.int32)
    assert_array_equal(smemkit.transpose(x, tile=tile, device=device), x.T)


@each_kernel("transpose", devices=["cuda:0"])  # the CPU takes a minute
@pytest.mark.parametrize("shape", [(65535 * 128 + 3, 2), (2, 65535 * 128 + 3)], ids=["tall", "wide"])
def test_every_kernel_covers_more_rows_of_tiles_than_a_grid_has(device, kernel, shape):
    x = numbered(shape, np.int32).view(kernel.dtype)
    assert_array_equal(kernel_result(kernel, device, x).view(np.int32), expected_result(kernel, x).view(np.int32))
