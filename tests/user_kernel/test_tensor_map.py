"""Tensor maps: their rules, and boxes that go to shared memory and back, byte for byte."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from together import Variants

import smemkit

MOVED = """
#include <cuda.h>
#include <cstdint>
__global__ void moved(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to,
                      unsigned char *seen, int bytes, int c0, int c1, int c2, int c3, int c4)
{
    extern __shared__ __align__(1024) unsigned char s[];
    __shared__ uint64_t full;
    const unsigned at = (unsigned)__cvta_generic_to_shared(s), bar = (unsigned)__cvta_generic_to_shared(&full);
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" :: "l"(&from) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.RANKd.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {FROM}], [%2];"
                     :: "r"(at), "l"(&from), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
    }
    asm volatile("{.reg .pred P1; LAB_WAIT: mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], 0; @P1 bra DONE;"
                 " bra LAB_WAIT; DONE: }" :: "r"(bar));
    for (int i = threadIdx.x; i < SHOWN; i += blockDim.x)
        seen[i] = s[i];
    if (threadIdx.x == 0 && GUARD) {
        asm volatile("cp.async.bulk.tensor.RANKd.global.shared::cta.tile.bulk_group [%0, {TO}], [%1];"
                     :: "l"(&to), "r"(at), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""


INSIDE = "(c0 | c1 | c2 | c3 | c4) >= 0"  # only a load may begin before 0


def moved(rank, guard=INSIDE, shown="bytes"):
    coordinates = [", ".join(f"%{first + i}" for i in range(rank)) for first in (3, 2)]
    text = MOVED.replace("RANK", str(rank)).replace("FROM", coordinates[0]).replace("TO", coordinates[1])
    return text.replace("GUARD", guard).replace("SHOWN", str(shown))


KERNELS = Variants("moved")
for rank in range(1, 6):
    KERNELS.add(moved(rank))
for guard in ("false", "true"):
    KERNELS.add(moved(2, guard))
for swizzle in (32, 64, 128):
    KERNELS.add(moved(2, shown=16 * swizzle))


def kernel(rank, guard=INSIDE, shown="bytes"):
    return KERNELS[moved(rank, guard, shown)]


def box_of(x, box, first, fill):
    """The box that begins at `first`; elements outside the array are `fill`."""
    out = np.full(box, fill, x.dtype)
    for index in np.ndindex(*box):
        position = tuple(i + f for i, f in zip(index, first, strict=True))
        if all(0 <= p < n for p, n in zip(position, x.shape, strict=True)):
            out[index] = x[position]
    return out


def in_shared(rows, swizzle):
    """The bytes of a box as shared memory holds them, from the pattern of the programming guide's tables: in a
    segment of 8 rows of 128 bytes, row r's chunk c is at c XOR r, or r / 2 of 4 chunks, or r / 4 of 2."""
    content = rows.tobytes()
    out = bytearray(len(content))
    for chunk in range(len(content) // 16):
        row, column = divmod(chunk, 8)
        if swizzle:
            column ^= row % (swizzle // 16)
        out[(row * 8 + column) * 16 : (row * 8 + column) * 16 + 16] = content[chunk * 16 : chunk * 16 + 16]
    return bytes(out)


def random_map(rng):
    rank = int(rng.integers(1, 6))
    dtype = [np.float32, np.float16, np.uint8, np.int32, np.float64][rng.integers(5)]
    size = np.dtype(dtype).itemsize
    swizzle = int([0, 32, 64, 128][rng.integers(4)])
    inner = 16 // size * int(rng.integers(1, (swizzle or 64) // 16 + 1))
    if swizzle:
        inner = swizzle // size
    box = [int(length) for length in rng.integers(1, 5, rank - 1)] + [inner]
    if inner > 256:
        box[-1] = 256 // 16 * 16
    shape = [int(length) for length in rng.integers(1, 9, rank - 1)]
    shape += [int(rng.integers(1, 40)) * (16 // size) if rank > 1 else int(rng.integers(1, 300))]
    first = [int(rng.integers(-3, n + 2)) for n in shape]
    first[-1] = first[-1] // (16 // size) * (16 // size)
    fill = "nan" if dtype in (np.float32, np.float16, np.float64) and rng.integers(2) else "zeros"
    return rank, dtype, swizzle, tuple(box), tuple(shape), first, fill


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.covering(most=6)
def test_boxes_byte_for_byte(seed):
    rng = np.random.default_rng(seed)
    rank, dtype, swizzle, box, shape, first, fill = random_map(rng)
    x = rng.integers(0, 100, shape).astype(dtype)
    y = np.full(shape, 7, dtype)
    total = int(np.prod(box)) * x.itemsize
    seen = np.zeros(total, np.uint8)
    maps = [smemkit.TensorMap(array, box, swizzle=swizzle, fill=fill) for array in (x, y)]
    launch = kernel(rank)[1, 32, -(-total // 1024) * 1024]
    coordinates = (first[::-1] + [0] * 5)[:5]
    launch(*maps, seen, total, *coordinates)
    want = box_of(x, box, first, np.nan if fill == "nan" else 0)
    pad = np.frombuffer(want.tobytes().ljust(-(-total // 128) * 128, b"\0"), np.uint8)
    stored = in_shared(pad, swizzle)[:total]
    if total % 128 == 0 or not swizzle:
        got = seen.tobytes()
        if fill == "nan":  # any NaN will do
            got = np.frombuffer(got, dtype)
            assert_array_equal(got, np.frombuffer(stored, dtype))
        else:
            assert got == stored
    wanted = np.full(shape, 7, dtype)
    for index in np.ndindex(*box) if min(first) >= 0 else ():
        position = tuple(i + f for i, f in zip(index, first, strict=True))
        if all(p < n for p, n in zip(position, shape, strict=True)):
            wanted[position] = x[position]
    assert_array_equal(y, wanted)


@pytest.mark.parametrize(
    ("swizzle", "row"), [(32, 16), (64, 16), (64, 32), (64, 48), (128, 16), (128, 48), (128, 96), (128, 112)]
)
def test_rows_that_are_shorter_than_the_swizzle(device, swizzle, row):
    """They begin where whole rows would: so did an H100's, chunk by chunk."""
    x = np.arange(1, 16 * 64 + 1, dtype=np.uint16).reshape(16, 64)
    y = np.zeros_like(x)
    maps = [smemkit.TensorMap(one, (16, row // 2), swizzle=swizzle) for one in (x, y)]
    seen = np.zeros(16 * swizzle, np.uint8)
    kernel(2, shown=seen.size)[1, 32, 2048](*maps, seen, 16 * row, 0, 0, 0, 0, 0)
    for r, c in np.ndindex(16, row // 16):
        at = r * swizzle + c * 16
        at ^= (at >> 7 & (swizzle // 16 - 1)) << 4
        assert_array_equal(seen[at : at + 16].view(np.uint16), x[r, 8 * c : 8 * c + 8], err_msg=f"{r}, {c}")
    assert_array_equal(y[:, : row // 2], x[:, : row // 2])
    assert not y[:, row // 2 :].any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_nan_beyond_an_array(device, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    x = np.ones((4, 32), dtype)
    smap = smemkit.TensorMap(x, (2, 32), fill="nan")
    seen = np.zeros(64 * x.itemsize, np.uint8)
    kernel(2, "false")[1, 32, 1024](smap, smap, seen, seen.size, 0, 3, 0, 0, 0)
    assert_array_equal(seen[: seen.size // 2].view(dtype), x[3])
    assert set(seen[seen.size // 2 :].view(np.uint16).tolist()) == {0x7FF7}


@pytest.mark.parametrize("kind", ["numpy", "array"])
def test_what_lies_in_gaps_stays_as_it_is(device, kind):
    x = np.arange(12 * 40, dtype=np.int32).reshape(12, 40) + 1
    y = np.full_like(x, 7)
    x, y = (x, y) if kind == "numpy" else (smemkit.asarray(one, device=device, copy=True) for one in (x, y))
    views = x[2:10, 4:24], y[1:9, 8:28]
    maps = [smemkit.TensorMap(view, (8, 16)) for view in views]
    seen = np.zeros(512, np.uint8)
    launch = kernel(2)[1, 32, 1024]
    launch(*maps, seen, 512, 8, 0, 0, 0, 0)
    want = np.zeros((8, 16), np.int32)  # zeros beyond the view's 20 columns
    want[:, :12] = np.asarray(views[0])[:, 8:]
    assert seen.tobytes() == want.tobytes()
    expected = np.full((12, 40), 7, np.int32)
    expected[1:9, 16:28] = want[:, :12]
    assert_array_equal(np.asarray(y), expected)
    if device == "cpu":
        assert not smemkit.check(launch, *maps, seen, 512, 8, 0, 0, 0, 0).faults


def test_gaps_that_are_in_no_array_are_refused():
    x = np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), (2, 8), (128, 4))
    bare = smemkit.TensorMap(x, (2, 8))
    with pytest.raises(
        ValueError, match=r"from: expected an array without gaps, or a view of such .* \.copy\(\) has no gaps"
    ):
        kernel(2)[1, 32, 1024](bare, bare, np.zeros(64, np.uint8), 64, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("box", "steps", "first"),
    [((7, 16), (2, 1), (1, 0)), ((3, 4, 16), (3, 2, 1), (0, -2, 4)), ((8, 16), (8, 1), (2, 4))],
)
def test_steps_between_elements(box, steps, first):
    shape = (5, 9, 32)[-len(box) :]
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape) + 1
    y = np.zeros_like(x)
    want = box_of(x, box, first, 0)[tuple(slice(None, None, step) for step in steps)]
    maps = [smemkit.TensorMap(one, box, element_strides=steps) for one in (x, y)]
    seen = np.zeros(want.nbytes, np.uint8)
    coordinates = (*first[::-1], 0, 0, 0, 0)[:5]
    kernel(len(box))[1, 32, -(-want.nbytes // 1024) * 1024](*maps, seen, want.nbytes, *coordinates)
    assert seen.tobytes() == want.tobytes()
    if min(first) >= 0:
        assert_array_equal(np.sort(y[y > 0]), np.sort(want[want > 0], axis=None))


@pytest.mark.parametrize("steps", [(9, 1), (0, 1), (1, 2), (1,)])
def test_steps_that_cannot_be(steps):
    with pytest.raises(ValueError, match="element_strides: expected"):
        smemkit.TensorMap(np.zeros((8, 32), np.float32), (8, 32), element_strides=steps)


def rounded_to_tf32(x):
    """float32 with 11 significant bits, ties to even; at the lower end of the range as many as subnormals have."""
    exponents = np.maximum(np.frexp(x)[1], -125) - 11
    return np.ldexp(np.rint(np.ldexp(x.astype(np.float64), -exponents)), exponents)


def test_a_load_rounds_to_tf32(device):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((8, 32), np.float32) * np.float32(10) ** rng.integers(-38, 38, (8, 32)).astype(
        np.float32
    )
    tie = 2.0**-11
    x[0, :8] = [1 + tie, 1 + 3 * tie, -1 - tie, 2 - tie, 1 + 1.0001 * tie, 1e-45, 3 * 2.0**-137, -0.0]
    x[1, :4] = [np.inf, -np.inf, np.nan, np.finfo(np.float32).max]  # the last becomes infinity
    y, seen = np.zeros_like(x), np.zeros(x.nbytes, np.uint8)
    maps = smemkit.TensorMap(x, (8, 32), tf32=True), smemkit.TensorMap(y, (8, 32))
    assert repr(maps[0]) == "TensorMap(float32, shape (8, 32), box (8, 32), swizzle 0, rounded to TF32)"
    kernel(2)[1, 32, 1024](*maps, seen, x.nbytes, 0, 0, 0, 0, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        want = rounded_to_tf32(x).astype(np.float32)
    want[~np.isfinite(x)] = x[~np.isfinite(x)]
    assert want[1, 3] == np.inf
    assert_array_equal(seen.view(np.float32).reshape(x.shape), want)
    assert_array_equal(np.signbit(y), np.signbit(want))
    assert_array_equal(y, want)  # the store rounds nothing


def test_tf32_outside_the_tensor_is_nan(device):
    x, seen = np.ones((4, 32), np.float32), np.zeros(1024, np.uint8)
    to = smemkit.TensorMap(np.zeros((8, 32), np.float32), (8, 32))
    map_ = smemkit.TensorMap(x, (8, 32), tf32=True, fill="nan")
    kernel(2)[1, 32, 1024](map_, to, seen, 1024, 0, 0, 0, 0, 0)
    assert_array_equal(seen.view(np.float32), np.repeat(np.float32([1, np.nan]), 128))


def test_tensor_maps_of_tf32_are_for_loads():
    x, seen = np.ones((8, 32), np.float32), np.zeros(1024, np.uint8)
    box = smemkit.TensorMap(x, (8, 32), tf32=True)
    with pytest.raises(smemkit.Error, match="with a tensor map of TF32, which the executor knows for loads only"):
        kernel(2)[1, 32, 1024](box, box.of(x), seen, 1024, 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="tf32: expected an array of float32, got float64"):
        smemkit.TensorMap(np.ones((8, 16)), (8, 16), tf32=True)


@pytest.mark.parametrize("completion", ["early", "late"])
def test_check_of_a_right_copy(completion):
    x, y, seen = np.ones((8, 32), np.float32), np.zeros((8, 32), np.float32), np.zeros(1024, np.uint8)
    maps = [smemkit.TensorMap(array, (8, 32), swizzle=128) for array in (x, y)]
    report = smemkit.check(kernel(2)[1, 32, 1024], *maps, seen, 1024, 0, 0, 0, 0, 0, completion=completion)
    assert not report.faults, report
    assert not y.any()  # a check changes nothing
    on_cpu = [smemkit.asarray(array, device="cpu") for array in (x, y)]
    kernel(2)[1, 32, 1024](*[smemkit.TensorMap(array, (8, 32)) for array in on_cpu], seen, 1024, 0, 0, 0, 0, 0)
    assert_array_equal(on_cpu[1].numpy(), x)


@pytest.mark.usefixtures("compiled_when_used")
def test_read_before_the_wait_is_a_race():
    x, y, seen = np.ones((8, 32), np.float32), np.zeros((8, 32), np.float32), np.zeros(1024, np.uint8)
    maps = [smemkit.TensorMap(array, (8, 32), swizzle=128) for array in (x, y)]
    text = MOVED.replace("RANK", "2").replace("FROM", "%3, %4").replace("TO", "%2, %3")
    text = text.replace("GUARD", "true").replace("SHOWN", "bytes")
    text = text.replace("mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], 0;", "setp.eq.u32 P1, 0, 0;")
    with smemkit.Device("cpu"):
        launch = smemkit.Kernel(text)[1, 32, 1024]
    report = smemkit.check(launch, *maps, seen, 1024, 0, 0, 0, 0, 0)
    assert {fault.kind for fault in report.faults} == {"race"}, report


def test_a_store_may_not_begin_before_the_tensor():
    x, seen = np.ones((8, 32), np.float32), np.zeros(1024, np.uint8)
    box = smemkit.TensorMap(x, (8, 32))
    with pytest.raises(smemkit.Error, match="to a box that begins at -8 in dimension 0: only a load may"):
        kernel(2, "true")[1, 32, 1024](box, box, seen, 1024, -8, 0, 0, 0, 0)


@pytest.mark.parametrize("guard", ["false", "true"])
def test_a_box_begins_at_a_multiple_of_16_bytes(guard):
    """An H100 reports an illegal instruction for boxes of float16 at -4, 4 and 28, and none at -8, 8 and 24."""
    x, seen = np.ones((8, 32), np.float16), np.zeros(512, np.uint8)
    box = smemkit.TensorMap(x, (8, 32))
    kernel(2, guard)[1, 32, 1024](box, box, seen, 512, 8, 0, 0, 0, 0)
    message = "of a box that begins at 4 in dimension 0, at no multiple of 16 bytes: elements have 2"
    with pytest.raises(smemkit.Error, match=message):
        kernel(2, guard)[1, 32, 1024](box, box, seen, 512, 4, 0, 0, 0, 0)


def test_faults_of_tensor_copies():
    x, seen = np.ones((8, 32), np.float32), np.zeros(1024, np.uint8)
    two, one = smemkit.TensorMap(x, (8, 32)), smemkit.TensorMap(np.ones(64, np.float32), (32,))
    for maps, message in (((one, two), "of 2 dimensions with a tensor map of 1"),):
        with pytest.raises(smemkit.Error, match=message):
            kernel(2)[1, 32, 1024](*maps, seen, 1024, 0, 0, 0, 0, 0)
    content = np.zeros(1, "V128")[0]
    with pytest.raises(smemkit.Error, match="with 128 bytes that are no tensor map"):
        kernel(2)[1, 32, 1024](content, two, seen, 1024, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("shape", "dtype", "options", "message"),
    [
        ((8, 32), np.complex64, {}, "array: expected one of uint8"),
        ((1,) * 6, np.float32, {"box": (1,) * 6}, "1 to 5 dimensions, got 6"),
        ((8, 30), np.float32, {"box": (8, 28)}, r"strides: expected multiples of 16 bytes .* got \(120, 4\)"),
        ((8, 32), np.float32, {"box": (8,)}, "box: expected 2 numbers, one per dimension, got 1"),
        ((8, 32), np.float32, {"box": (0, 32)}, "box: expected 1 to 256 elements"),
        ((8, 512), np.float32, {"box": (1, 257)}, "box: expected 1 to 256 elements"),
        ((8, 32), np.float32, {"box": (8, 3)}, "rows of a multiple of 16 bytes, got 12"),
        ((8, 64), np.float32, {"box": (8, 64), "swizzle": 128}, "rows of at most 128 bytes, the swizzle, got 256"),
        ((8, 32), np.float32, {"swizzle": 16}, "swizzle: expected one of 0, 32, 64, 128, got 16"),
        ((8, 32), np.int32, {"fill": "nan"}, "fill: expected 'zeros' for int32"),
        ((8, 32), np.float32, {"fill": "ones"}, "fill: expected 'zeros' or 'nan'"),
        ((256, 256), np.float64, {"box": (256, 256)}, "box: expected at most 232448 bytes"),
        ((8, 32), np.float32, {"strides": (256, 4)}, "strides: expected at most the 1024 bytes of the array"),
        ((8, 32), np.float32, {"strides": (128, 8)}, "strides: expected 4 bytes in the last dimension, got 8"),
    ],
)
def test_rules_of_maps(shape, dtype, options, message):
    options = {"box": (8, 32), **options}
    with pytest.raises(ValueError, match=message):
        smemkit.TensorMap(np.zeros(shape, dtype), **options)


def test_a_map_of_something_else_is_refused():
    with pytest.raises(TypeError, match="array: expected a NumPy array or an Array, got list"):
        smemkit.TensorMap([1, 2], (2,))


def test_a_map_is_passed_for_a_map_only():
    with smemkit.Device("cpu"):
        launch = smemkit.Kernel("struct S { float v[32]; }; __global__ void k(S s) {}")[1, 1]
    with pytest.raises(TypeError, match="TensorMap"):
        launch(smemkit.TensorMap(np.zeros((8, 32), np.float32), (8, 32)))


def test_the_parameter_of_a_map_is_a_grid_constant():
    text = "#include <cuda.h>\n__global__ void k(const CUtensorMap m) {}"
    one = smemkit.TensorMap(np.zeros((4, 4), np.float32), (4, 4))
    with pytest.raises(TypeError, match=r"m: expected .* const __grid_constant__ CUtensorMap m, got const CUt"):
        smemkit.Kernel(text)[1, 1](one)
    smemkit.Kernel(text.replace("const CU", "const __grid_constant__ CU"))[1, 1](one)
