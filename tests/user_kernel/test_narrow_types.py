"""The 8-bit and 16-bit floating-point types of user kernels on the CPU device, against ml_dtypes and NumPy."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import smemkit

E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
NUMBERS = np.concatenate(
    [
        (np.arange(1 << 16, dtype=np.uint32) << 16 | add).view(np.float32)  # each bfloat16, and numbers next to it
        for add in (0, 1, 0x7FFF)
    ]
)

FP8 = """
#include <cuda_fp8.h>
__global__ void encode(const float *x, __nv_fp8_e4m3 *saturated, __nv_fp8_e5m2 *saturated5, unsigned char *plain,
                       unsigned char *plain5, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        saturated[i] = __nv_fp8_e4m3(x[i]);
        saturated5[i] = __nv_fp8_e5m2(x[i]);
        plain[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, __NV_E4M3);
        plain5[i] = __nv_cvt_double_to_fp8(x[i], __NV_NOSAT, __NV_E5M2);
    }
}
__global__ void decode(const __nv_fp8_e4m3 *x, const __nv_fp8_e5m2 *x5, float *y, float *y5, __half *h, int *whole)
{
    const int i = threadIdx.x;
    y[i] = float(x[i]);
    y5[i] = float(x5[i]);
    h[i] = __half(x[i]);
    h[256 + i] = __half(__nv_cvt_fp8_to_halfraw(x5[i].__x, __NV_E5M2));
    whole[i] = int(x[i]) + 1000 * (bool)x[i] + 10000 * (signed char)x5[i];
}
__global__ void vectors(const float4 *x, __nv_fp8x4_e4m3 *y, __nv_fp8x2_e5m2 *two, float4 *back)
{
    const float4 v = x[threadIdx.x];
    y[threadIdx.x] = __nv_fp8x4_e4m3(v);
    two[threadIdx.x] = __nv_fp8x2_e5m2(make_float2(v.x, v.y));
    const __half2 low = __half2(__nv_cvt_fp8x2_to_halfraw2(two[threadIdx.x].__x, __NV_E5M2));
    const __nv_fp8x4_e5m2 four(low, __floats2half2_rn(v.z, v.w));
    const float2 z = float2(two[threadIdx.x]);
    float4 all = float4(four);
    all.x += z.x;
    back[threadIdx.x] = all;
}
__global__ void from_others(unsigned char *y)
{
    y[0] = __nv_fp8_e4m3(17).__x;
    y[1] = __nv_fp8_e4m3(1.0625 + 1e-12).__x; // a tie in float32, not in float64
    y[2] = __nv_fp8_e4m3(__float2half(3.0f)).__x;
    y[3] = __nv_fp8_e5m2(__float2bfloat16(-0.25f)).__x;
    y[4] = __nv_cvt_halfraw_to_fp8(__float2half(1e4f), __NV_SATFINITE, __NV_E4M3);
    y[5] = __nv_cvt_bfloat16raw_to_fp8(__float2bfloat16(1e5f), __NV_NOSAT, __NV_E5M2);
    y[6] = __nv_cvt_float2_to_fp8x2(make_float2(1, 2), __NV_SATFINITE, __NV_E4M3) >> 8;
    y[7] = __nv_cvt_halfraw2_to_fp8x2(__floats2half2_rn(1, 2), __NV_SATFINITE, __NV_E5M2) & 255;
}
"""


@cache
def kernels(source):
    return smemkit.Kernel(source)


def as_codes(values):
    """The bytes of 8-bit floats, with one code for NaN, whose sign and payload are not defined."""
    return np.where(np.isnan(values.astype(np.float32)), 0xFF, values.view(np.uint8))


def test_fp8_encodings_are_those_of_ml_dtypes():
    n = NUMBERS.size
    saturated, saturated5 = np.zeros(n, E4M3), np.zeros(n, E5M2)
    plain, plain5 = np.zeros(n, np.uint8), np.zeros(n, np.uint8)
    kernels(FP8)["encode"][1, 32](NUMBERS, saturated, saturated5, plain, plain5, n)
    with np.errstate(all="ignore"):
        assert_array_equal(as_codes(plain.view(E4M3)), as_codes(NUMBERS.astype(E4M3)))
        assert_array_equal(as_codes(plain5.view(E5M2)), as_codes(NUMBERS.astype(E5M2)))
        for got, dtype in (saturated, E4M3), (saturated5, E5M2):
            most = np.float32(ml_dtypes.finfo(dtype).max)
            assert_array_equal(as_codes(got), as_codes(np.clip(NUMBERS, -most, most).astype(dtype)))


def test_fp8_values_are_those_of_ml_dtypes():
    codes = np.arange(256, dtype=np.uint8)
    x, x5 = codes.view(E4M3), codes.view(E5M2)
    y, y5, halves, whole = np.zeros(256, "f4"), np.zeros(256, "f4"), np.zeros(512, "f2"), np.zeros(256, "i4")
    kernels(FP8)["decode"][1, 256](x, x5, y, y5, halves, whole)
    assert_array_equal(y, x.astype(np.float32))
    assert_array_equal(y5, x5.astype(np.float32))
    assert_array_equal(halves, np.concatenate([x.astype("f2"), x5.astype("f2")]))
    plain, narrow = np.nan_to_num(y, nan=0), np.clip(np.nan_to_num(y5, nan=0), -128, 127)
    assert_array_equal(whole, plain.astype(int) + 1000 * (y != 0) + 10000 * narrow.astype(int))


def test_fp8_vectors_keep_the_order_of_their_numbers():
    x = np.array([[1, -2, 0.3, 500], [1e-3, 7, 60000, -9]], np.float32)
    y, two, back = np.zeros((2, 4), E4M3), np.zeros((2, 2), E5M2), np.zeros((2, 4), np.float32)
    kernels(FP8)["vectors"][1, 2](x, y, two, back)
    assert_array_equal(y.view("u1"), np.clip(x, -448, 448).astype(E4M3).view("u1"))
    assert_array_equal(two.view("u1"), x[:, :2].astype(E5M2).view("u1"))
    expected = np.clip(x, -57344, 57344).astype(E5M2).astype(np.float32)
    expected[:, 0] *= 2
    assert_array_equal(back, expected)


def test_fp8_from_other_types():
    y = np.zeros(8, np.uint8)
    kernels(FP8)["from_others"][1, 1](y)
    assert_array_equal(y[:3].view(E4M3).astype(float), [16, 1.125, 3])  # 17 is a tie, and goes to even
    assert_array_equal(y[3:4].view(E5M2).astype(float), [-0.25])
    assert_array_equal(y[4:5].view(E4M3).astype(float), [448])
    assert_array_equal(y[5:6].view(E5M2).astype(float), [np.inf])
    assert_array_equal(y[6:7].view(E4M3).astype(float), [2])
    assert_array_equal(y[7:8].view(E5M2).astype(float), [1])


def test_an_argument_may_be_a_scalar_of_fp8():
    kernel = smemkit.Kernel(
        "#include <cuda_fp8.h>\n__global__ void k(float *y, __nv_fp8_e4m3 a) { *y = float(a); }"
    )
    y = np.zeros(1, np.float32)
    for value in E4M3.type(1.75), 1.75:
        kernel[1, 1](y, value)
        assert y[0] == 1.75
    with pytest.raises(TypeError, match=r"a: expected float8_e4m3fn .* got float8_e5m2 1.75"):
        kernel[1, 1](y, E5M2.type(1.75))


@pytest.mark.usefixtures("compiled_when_used")
def test_out_of_bounds_reads_of_fp8_are_found():
    source = "#include <cuda_fp8.h>\n__global__ void k(float *y, const __nv_fp8_e4m3 *x) { *y = float(x[64]); }"
    report = smemkit.check(smemkit.Kernel(source)[1, 1], np.zeros(1, np.float32), np.zeros(64, E4M3))
    assert [fault.kind for fault in report.faults] == ["out_of_bounds"]


HALVES = """
#include <cublas_v2.h>
__global__ void masks(const __half2 *x, unsigned *m)
{
    m[0] = __heq2_mask(x[0], x[1]);
    m[1] = __hne2_mask(x[0], x[1]);
    m[2] = __hlt2_mask(x[0], x[1]);
    m[3] = __hgeu2_mask(x[0], x[2]);
    m[4] = __hge2_mask(x[0], x[2]);
}
__global__ void products(const __half2 *x, __half2 *y)
{
    y[0] = __hcmadd(x[0], x[1], x[2]); // complex
    y[1] = __half2(__half2_raw{0x3c00, 0x4000});
}
__global__ void roundings(const int *x, __half *y, __nv_bfloat16 *z, int n)
{
    const int i = threadIdx.x;
    y[i] = __int2half_rn(x[i]);
    y[n + i] = __int2half_rd(x[i]);
    y[2 * n + i] = __int2half_ru(x[i]);
    y[3 * n + i] = __int2half_rz(x[i]);
    z[i] = __ll2bfloat16_rd(x[i]);
    z[n + i] = __uint2bfloat16_ru(abs(x[i]));
}
__global__ void characters(const __half *x, signed char *y, unsigned char *z)
{
    y[threadIdx.x] = __half2char_rz(x[threadIdx.x]);
    z[threadIdx.x] = __half2uchar_rz(x[threadIdx.x]);
}
"""


def test_masks_of_comparisons_of_pairs():
    x = np.array([[1, 2], [1, 3], [np.nan, 2]], np.float16)
    m = np.zeros(5, np.uint32)
    kernels(HALVES)["masks"][1, 1](x, m)
    assert [f"{mask:08x}" for mask in m] == ["0000ffff", "ffff0000", "ffff0000", "ffffffff", "ffff0000"]


def test_complex_products_of_pairs():
    x = np.array([[1, 2], [3, 4], [0.5, 0.25]], np.float16)
    y = np.zeros((2, 2), np.float16)
    kernels(HALVES)["products"][1, 1](x, y)
    assert_array_equal(y, [[-4.5, 10.25], [1, 2]])  # (1 + 2i)(3 + 4i) + 0.5 + 0.25i


def test_integers_to_halves_with_a_direction():
    x = np.array([2049, -2049, 2050, 70000, -70000, 65519], np.int32)
    y, z = np.zeros((4, x.size), np.float16), np.zeros((2, x.size), ml_dtypes.bfloat16)
    kernels(HALVES)["roundings"][1, x.size](x, y, z, x.size)
    inf = np.inf
    assert_array_equal(y[0], [2048, -2048, 2050, inf, -inf, 65504])
    assert_array_equal(y[1], [2048, -2050, 2050, 65504, -inf, 65504])
    assert_array_equal(y[2], [2050, -2048, 2050, inf, -65504, inf])
    assert_array_equal(y[3], [2048, -2048, 2050, 65504, -65504, 65504])
    assert_array_equal(z[0].astype(float), [2048, -2064, 2048, 69632, -70144, 65280])
    assert_array_equal(z[1].astype(float), [2064, 2064, 2064, 70144, 70144, 65536])


def test_halves_to_characters_saturate():
    x = np.array([1.9, -1.9, 300, -300, np.nan], np.float16)
    y, z = np.zeros(5, np.int8), np.zeros(5, np.uint8)
    kernels(HALVES)["characters"][1, 5](x, y, z)
    assert_array_equal(y, [1, -1, 127, -128, 0])
    assert_array_equal(z, [1, 0, 255, 0, 0])
