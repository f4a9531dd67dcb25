"""The textbook's rungs of reduce: the checker reports exactly what each of them wastes."""

import math

import numpy as np
import pytest
from cases import expect_launches, integers, on
from numpy.testing import assert_array_equal

import smemkit
from smemkit import _core

TREES = ["divergent", "conflicting", "tree", "first_add"]  # add in shared memory, step by step
RUNGS = ["divergent", "conflicting", "tree", "first_add", "shuffle", "vectorized", "single_pass"]
X = np.ones(8 * 1024, np.float32)
STEPS = [1 << i for i in range(10)]  # strides of a block of 1024


def check(kernel, x=X, **options):
    """A sum's report; of its first launch, the shared accesses of the adding line, and the number of blocks."""
    report = smemkit.check(smemkit.sum, x, kernel=kernel, blocks="all", **options)
    assert report.ok, report
    launch = report.launches[0]
    adds = [line for line in launch.lines if line.space == "shared" and "combine(partial[" in line.text]
    return report, {line.access: line for line in adds}, launch.blocks


def warps_of(threads):
    """The number of warps that contain the first `threads` threads."""
    return math.ceil(threads / 32)


@pytest.mark.parametrize("kernel", RUNGS)
@pytest.mark.parametrize("op", ["sum", "prod", "min"])
@pytest.mark.parametrize(("shape", "axis"), [((700,), 0), ((20_000,), 0), ((5, 129), 1)], ids=str)
@pytest.mark.covering
def test_reduce_rungs_have_no_fault(kernel, op, shape, axis):
    report = smemkit.check(smemkit.reduce, integers(shape, np.float64), op, axis, kernel=kernel, blocks="all")
    assert report.ok, report


def test_interleaved_threads_are_spread_over_all_warps():
    report, adds, blocks = check("divergent", block_size=1024)
    warps = sum(32 if stride < 32 else 1024 // (2 * stride) for stride in STEPS)  # with an active thread
    whole = sum(warps_of(512 // stride) for stride in STEPS)
    for line, reads in (adds["load"], 2), (adds["store"], 1):
        assert line.divergent
        assert (line.requests, line.lanes) == (reads * warps * blocks, reads * 1023 * blocks)
        assert (line.ideal_requests, line.conflicts) == (reads * whole * blocks, 0)
        assert line.warps == 32 * blocks
        assert "divergent: 5.4 of 32 lanes active on average, 5.3 times the requests" in line.advice
    assert "divergent warps at reduce/ladder/20_divergent.cu:" in report.headline
    assert "divergent: 5.4 of 32 lanes" in str(report)
    assert "divergent: 5.4 of 32 lanes" in report._repr_html_()


@pytest.mark.parametrize("kernel", ["conflicting", "tree", "first_add"])
def test_contiguous_threads_fill_whole_warps(kernel):
    _, adds, blocks = check(kernel, block_size=1024)
    whole = sum(warps_of(512 // stride) for stride in STEPS)
    for line, reads in (adds["load"], 2), (adds["store"], 1):
        assert line.requests == line.ideal_requests == reads * whole * blocks
        assert not line.divergent and "divergent" not in line.advice


def test_interleaved_words_conflict_increasingly():
    report, adds, blocks = check("conflicting", block_size=1024)
    steps = [
        [smemkit.wavefronts([8 * stride * t for t in range(min(32, 512 // stride))])] * warps_of(512 // stride)
        for stride in STEPS
    ]
    assert [step[0].degree for step in steps] == [2, 4, 8, 16, 32, 16, 8, 4, 2, 1]
    wavefronts, conflicts = (
        sum(getattr(a, key) for step in steps for a in step) for key in ("wavefronts", "conflicts")
    )
    for line, reads in (adds["load"], 2), (adds["store"], 1):
        assert (line.degree, line.wavefronts, line.conflicts) == (
            32,
            reads * wavefronts * blocks,
            reads * conflicts * blocks,
        )
    assert "the worst a 32-way bank conflict at reduce/ladder/30_conflicting.cu:" in report.headline


@pytest.mark.parametrize("kernel", ["divergent", "tree", "first_add", "shuffle", "vectorized", "single_pass"])
def test_other_rungs_have_no_conflicts(kernel):
    report, _, _ = check(kernel)
    assert sum(line.conflicts for line in report.lines) == 0


@pytest.mark.parametrize("kernel", ["shuffle", "vectorized"])
def test_with_shuffles_each_warp_stores_one_word_in_shared_memory(kernel):
    report, _, _ = check(kernel)
    launch = report.launches[0]
    shared = {line.access: line for line in launch.lines if line.space == "shared"}
    assert (shared["store"].requests, shared["store"].lanes) == (8 * launch.blocks,) * 2
    assert (shared["load"].requests, shared["load"].lanes) == (launch.blocks, 8 * launch.blocks)
    assert not any(line.divergent for line in report.lines)


@pytest.mark.parametrize(("kernel", "elements"), [("tree", 256), ("first_add", 512), ("shuffle", 512)])
def test_first_add_halves_the_blocks(kernel, elements):
    _, _, blocks = check(kernel)
    assert blocks == X.size / elements


def test_vectors_are_16_bytes():
    report, _, _ = check("vectorized")
    (load,) = (line for line in report.launches[0].lines if line.space == "global" and line.access == "load")
    assert (load.size, load.requests, load.sectors) == (16, X.nbytes // 512, X.nbytes // 32)


@pytest.mark.parametrize("kernel", ["vectorized", "single_pass"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 255, 4097, 16_391])
@pytest.mark.covering
def test_misaligned_rows(device, kernel, dtype, n):
    x = integers((3, n), dtype)
    expected = x.astype(int).sum(1)
    result = smemkit.sum(x, 1, dtype=np.float32 if dtype == "float16" else None, kernel=kernel, device=device)
    assert_array_equal(result, expected)
    assert_array_equal(smemkit.max(x, 1, kernel=kernel, device=device), x.max(1), strict=True)


@pytest.mark.parametrize("kernel", RUNGS)
def test_bits_do_not_depend_on_the_address(device, kernel):
    values = np.random.default_rng(0).standard_normal((3, 20_001), dtype=np.float32)
    array = on(device, np.concatenate([np.zeros(4, np.float32), values.ravel()]))
    expected = smemkit.sum(on(device, values), 1, kernel=kernel).numpy()
    for offset in (1, 2, 3, 4):
        moved = on(device, np.concatenate([np.zeros(offset, np.float32), values.ravel()]))[offset:]
        result = smemkit.sum(moved.reshape(3, 20_001), 1, kernel=kernel).numpy()
        assert_array_equal(result.view(np.int32), expected.view(np.int32), err_msg=f"offset {offset}")
    del array


@pytest.mark.parametrize("kernel", RUNGS)
def test_each_row_is_reduced(device, kernel):
    x = integers((5, 129), np.int32)
    assert_array_equal(smemkit.sum(x, 1, kernel=kernel, device=device), x.sum(1))


@pytest.mark.parametrize("kernel", RUNGS)
@pytest.mark.covering(most=1)
def test_grids_of_many_rows(device, kernel):
    x = integers((65_537, 3), np.int32)
    with expect_launches(1):
        result = smemkit.sum(on(device, x), 1, kernel=kernel, block_size=32)
    assert_array_equal(result.numpy(), x.sum(1))


@pytest.mark.parametrize("kernel", RUNGS)
def test_rows_are_not_split(kernel):
    x, before = integers(100_000, np.int32), _core.set_part_bytes(1 << 14)
    try:
        with expect_launches(1):
            assert smemkit.sum(x, kernel=kernel, device="cpu") == x.sum()
    finally:
        _core.set_part_bytes(before)


@pytest.mark.parametrize("kernel", RUNGS)
def test_other_dtypes_are_refused(device, kernel):
    message = rf"x: expected dtype .*float32 or float64 for kernel '{kernel}', got complex64; kernel=None"
    with pytest.raises(ValueError, match=message):
        smemkit.sum(np.ones(3, np.complex64), kernel=kernel, device=device)
