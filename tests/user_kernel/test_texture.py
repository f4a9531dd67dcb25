"""Textures: what kernels read at given coordinates, by a model of the rules of the CUDA Programming Guide's
appendix "Texture Fetching"; and what is refused."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import smemkit
from smemkit import Texture

SOURCE = """
__global__ void fetch1(cudaTextureObject_t t, const float *at, float *out, int n)
{
    const int i = threadIdx.x;
    out[i] = tex1D<float>(t, at[i]);
}
__global__ void fetch2(cudaTextureObject_t t, const float *at, float *out, int n)
{
    const int i = threadIdx.x;
    out[i] = tex2D<float>(t, at[n + i], at[i]);
}
__global__ void fetch3(cudaTextureObject_t t, const float *at, float *out, int n)
{
    const int i = threadIdx.x;
    out[i] = tex3D<float>(t, at[2 * n + i], at[n + i], at[i]);
}
__global__ void bytes(cudaTextureObject_t t, const float *at, unsigned char *out, int n)
{
    const int i = threadIdx.x;
    out[i] = tex2D<unsigned char>(t, at[n + i], at[i]);
}
__global__ void pixels(cudaTextureObject_t t, const float *at, float4 *out, int n)
{
    const int i = threadIdx.x;
    out[i] = tex2D<float4>(t, at[n + i], at[i]);
}
__global__ void memory(cudaTextureObject_t t, const int *at, int *out)
{
    out[threadIdx.x] = tex1Dfetch<int>(t, at[threadIdx.x]);
}
__global__ void in_place(cudaTextureObject_t t, float *x)
{
    const int i = threadIdx.x;
    x[i] = tex1D<float>(t, i - 1 + 0.5f) + 1;
}
"""
SHAPES = {1: (8,), 2: (4, 8), 3: (2, 4, 8)}
N = 64


@pytest.fixture(scope="module")
def kernels():
    return smemkit.Kernel(SOURCE)


def run(kernels, device, name, texture, at, out):
    with smemkit.Device(device):
        kernels[name][1, len(out)](texture, at, out, *((len(out),) if name != "memory" else ()))
    return out


# ---- the model ----


def inside(i, size, mode):
    """The index of a texel, and whether there is one."""
    period = {"wrap": size, "mirror": 2 * size}.get(mode)
    if period:
        i = i % period
        return np.where(i < size, i, period - 1 - i), np.full(i.shape, True)
    return np.clip(i, 0, size - 1), (mode == "clamp") | ((i >= 0) & (i < size))


def fetched(texels, at, *, filter, address, border=0.0):
    """The texels at unnormalised coordinates (rank, n)."""
    rank = len(at)
    first = np.floor(at - 0.5 if filter == "linear" else at).astype(int)
    part = at - 0.5 - first if filter == "linear" else np.zeros_like(at)
    total = np.zeros(at.shape[1])
    for corner in itertools.product((0, 1), repeat=rank):
        weight, exists, index = 1.0, True, []
        for axis, second in enumerate(corner):
            weight = weight * (part[axis] if second else 1 - part[axis])
            i, found = inside(first[axis] + second, texels.shape[axis], address[axis])
            index.append(i)
            exists = exists & found
        total += weight * np.where(exists, texels[tuple(index)], border)
    return total


@pytest.mark.parametrize("normalized", [False, True], ids=["texels", "normalized"])
@pytest.mark.parametrize("filter", ["point", "linear"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.covering(most=6)
def test_fetches_equal_the_model(kernels, device, rank, filter, normalized):
    modes = ("clamp", "border", "wrap", "mirror") if normalized else ("clamp", "border")
    shape = SHAPES[rank]

    @settings(max_examples=10, deadline=None, database=None)
    @given(st.integers(0, 2**32 - 1), st.tuples(*[st.sampled_from(modes)] * rank))
    def check(seed, address):
        random = np.random.default_rng(seed)
        texels = random.integers(-9, 10, shape).astype(np.float32)
        sizes = np.array(shape)[:, None]
        at = random.integers(-4 * 9, 4 * (sizes + 9), (rank, N)) / 4  # the fractions are exact in 8 bits
        options = {"filter": filter, "address": address, "border": 3.0}
        texture = Texture(texels, normalized=normalized, **options)
        given_at = (at / sizes if normalized else at).astype(np.float32)
        out = run(kernels, device, f"fetch{rank}", texture, given_at, np.full(N, np.nan, np.float32))
        assert_array_equal(out, fetched(texels, at, **options))

    check()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_integers_are_read_as_fractions(kernels, device, dtype):
    most = np.iinfo(dtype).max
    texels = np.array([[0, 1, most // 2, most], [most - 1, 5, 3, 2]], dtype)
    if most < 1000:
        texels[1, 1] = np.iinfo(dtype).min  # -128 is read as -1
    at = np.stack([np.repeat([0.5, 1.5], 4), np.tile(np.arange(4) + 0.5, 2)]).astype(np.float32)
    out = run(kernels, device, "fetch2", Texture(texels, as_float=True), at, np.zeros(8, np.float32))
    expected = np.maximum(texels.reshape(-1).astype(np.float32) / np.float32(most), -1)
    np.testing.assert_allclose(out, expected, rtol=2**-23)


def test_integers_are_read_as_they_are(kernels, device):
    texels = np.arange(250, 218, -1).astype(np.uint8).reshape(4, 8)
    at = np.indices((4, 8)).reshape(2, 32).astype(np.float32) + 0.5
    out = run(kernels, device, "bytes", Texture(texels), at, np.zeros(32, np.uint8))
    assert_array_equal(out, texels.reshape(-1))


def test_halves_are_read_as_floats(kernels, device):
    texels = np.arange(32, dtype=np.float16).reshape(4, 8)
    at = np.array([[0.5, 1.0], [0.5, 2.0]], np.float32)
    out = run(kernels, device, "fetch2", Texture(texels, filter="linear"), at, np.zeros(2, np.float32))
    assert_array_equal(out, [0, 5.5])


def test_texels_of_four_channels(kernels, device):
    texels = np.arange(4 * 8 * 4, dtype=np.float32).reshape(4, 8, 4)
    at = np.array([[0.5, 2.5, -1], [0.5, 7.5, 99]], np.float32)
    texture = Texture(texels, channels=4, address="border", border=(1, 2, 3, 4))
    out = np.zeros((3, 4), np.float32)
    run(kernels, device, "pixels", texture, at, out)
    assert_array_equal(out, [texels[0, 0], texels[2, 7], [1, 2, 3, 4]])


def test_linear_memory_is_read_by_index(kernels, device):
    texels, at = np.arange(100, 116, dtype=np.int32), np.array([0, 15, 16, -1, 7], np.int32)
    out = run(kernels, device, "memory", Texture(texels, linear_memory=True), at, np.full(5, -7, np.int32))
    assert_array_equal(out, [100, 115, 0, 0, 107])


def test_a_kernel_that_writes_the_array_reads_what_it_held_before(kernels, device):
    x = np.arange(32, dtype=np.float32)
    with smemkit.Device(device):
        kernels["in_place"][1, 32](Texture(x), x)
    assert_array_equal(x, np.maximum(np.arange(32) - 1, 0) + 1)


def test_arrays_of_the_device(kernels, device):
    texels = smemkit.asarray(np.arange(32, dtype=np.float32).reshape(4, 8), device=device)
    at = smemkit.asarray(np.array([[3.5], [7.5]], np.float32), device=device)
    out = smemkit.asarray(np.zeros(1, np.float32), device=device)
    kernels["fetch2"][1, 1](Texture(texels), at, out, 1)
    assert float(out.numpy()[0]) == 31


def test_views_are_read_in_their_own_order(kernels, device):
    whole = np.arange(64, dtype=np.float32).reshape(8, 8)
    at = np.array([[1.5], [2.5]], np.float32)
    for view in (whole.T, whole[::2, ::2], whole[2:6]):
        out = run(kernels, device, "fetch2", Texture(view), at, np.zeros(1, np.float32))
        assert out[0] == view[1, 2]


def test_a_check_takes_textures(kernels):
    texels = np.arange(32, dtype=np.float32).reshape(4, 8)
    at, out = np.zeros((2, 32), np.float32), np.zeros(32, np.float32)
    report = smemkit.check(kernels["fetch2"][1, 32], Texture(texels), at, out, 32)
    assert report.ok, report
    report = smemkit.check(kernels["fetch2"][1, 32], Texture(texels), at, np.zeros(8, np.float32), 32)
    assert {fault.kind for fault in report.faults} == {"out_of_bounds"}, report


# ---- what is refused ----

FLOATS = np.zeros((4, 8), np.float32)
REFUSED = {
    "double": (lambda: Texture(FLOATS.astype(np.float64)), "array: expected one of int8, .*, got float64"),
    "byte order": (lambda: Texture(FLOATS.astype(">f4")), "array: expected one of"),
    "rank": (lambda: Texture(np.zeros((2,) * 4, np.float32)), "array: expected 1 to 3 dimensions, got 4"),
    "empty": (lambda: Texture(FLOATS[:0]), "texels per dimension"),
    "too long": (lambda: Texture(np.zeros(131073, np.uint8)), r"expected 1 to \(131072,\) texels per dimension"),
    "channels": (lambda: Texture(FLOATS, channels=3), "channels: expected 1, 2 or 4, got 3"),
    "last dimension": (lambda: Texture(FLOATS, channels=4), "array: expected a last dimension of 4 channels"),
    "filter": (lambda: Texture(FLOATS, filter="cubic"), "filter: expected 'point' or 'linear', got 'cubic'"),
    "interpolated integers": (lambda: Texture(FLOATS.astype(np.int32), filter="linear"), "only floats are"),
    "floats of int32": (lambda: Texture(FLOATS.astype(np.int32), as_float=True), "integers of 8 or 16 bits"),
    "address": (lambda: Texture(FLOATS, address="repeat"), "address: expected one of 'wrap', 'clamp'"),
    "addresses": (lambda: Texture(FLOATS, address=("clamp",)), "or one per dimension"),
    "wrap": (lambda: Texture(FLOATS, address="wrap"), "without normalized=True"),
    "border": (lambda: Texture(FLOATS, border=(1, 2)), "border: expected a number, or 4 of them"),
    "linear rank": (lambda: Texture(FLOATS, linear_memory=True), "1 dimension of linear memory, got 2"),
    "linear filter": (lambda: Texture(FLOATS[0], linear_memory=True, filter="linear"), "tex1Dfetch takes"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_rules(case):
    make, message = case
    with pytest.raises(ValueError, match=message):
        make()


def test_other_arguments_are_refused(kernels):
    with smemkit.Device("cpu"):
        launch = kernels["fetch1"][1, 1]
        with pytest.raises(TypeError, match=r"t: expected a smemkit\.Texture"):
            launch(FLOATS[0], FLOATS[0], FLOATS[0], 1)
        with pytest.raises(TypeError, match="at: expected an array of float32"):
            launch(Texture(FLOATS[0]), Texture(FLOATS[0]), FLOATS[0], 1)
        with pytest.raises(TypeError, match="array: expected a NumPy array or an Array, got list"):
            Texture([1.0])


@pytest.mark.parametrize(
    ("name", "texture", "message"),
    [
        ("memory", Texture(np.zeros(8, np.int32)), "tex1Dfetch from a texture that is not of linear memory"),
        ("fetch1", Texture(FLOATS[0], linear_memory=True), "which tex1Dfetch alone reads"),
    ],
)
def test_the_wrong_kind_of_fetch_is_reported(kernels, name, texture, message):
    dtype = np.int32 if name == "memory" else np.float32
    with pytest.raises(smemkit.Error, match=message):
        run(kernels, "cpu", name, texture, np.zeros(1, dtype), np.zeros(1, dtype))


def test_repr():
    assert repr(Texture(FLOATS)) == "Texture(float32, shape (4, 8), filter point, address clamp)"
    assert "address ('clamp', 'border')" in repr(Texture(FLOATS, address=("clamp", "border")))
