// A long sum in three precisions, and the rate of their multiply-adds.
#include <cuda_fp16.h>

template <typename T>
__device__ void long_sum(double term, int count, double *out)
{
    const T one = (T)(float)term;
    T sum = (T)0.0f;

    for (int i = 0; i < count; i++)
        sum = sum + one;
    out[0] = (double)(float)sum;
}

__global__ void sum_half(double term, int count, double *out)
{
    long_sum<__half>(term, count, out);
}
__global__ void sum_float(double term, int count, double *out)
{
    long_sum<float>(term, count, out);
}
__global__ void sum_double(double term, int count, double *out)
{
    double sum = 0;

    for (int i = 0; i < count; i++)
        sum += term;
    out[0] = sum;
}

// Four independent chains of multiply-adds per thread; a __half2 does two.
template <typename T>
__device__ T fused(T a, T b, T c);
template <>
__device__ inline float fused(float a, float b, float c)
{
    return fmaf(a, b, c);
}
template <>
__device__ inline double fused(double a, double b, double c)
{
    return fma(a, b, c);
}
template <>
__device__ inline __half2 fused(__half2 a, __half2 b, __half2 c)
{
    return __hfma2(a, b, c);
}

template <typename T>
__device__ T rate(T start, T factor, int count)
{
    T a = start, b = start, c = start, d = start;

#pragma unroll 64 // so that the loop itself costs little
    for (int i = 0; i < count; i++) {
        a = fused(a, factor, start);
        b = fused(b, factor, start);
        c = fused(c, factor, start);
        d = fused(d, factor, start);
    }
    return fused(fused(a, b, c), factor, d);
}

__global__ void rate_float(float factor, int count, float *out)
{
    out[blockIdx.x * blockDim.x + threadIdx.x] = rate<float>(1, factor, count);
}

__global__ void rate_double(float factor, int count, float *out)
{
    out[blockIdx.x * blockDim.x + threadIdx.x] = (float)rate<double>(1, factor, count);
}

__global__ void rate_half(float factor, int count, float *out)
{
    const __half2 result = rate<__half2>(__float2half2_rn(1), __float2half2_rn(factor), count);

    out[blockIdx.x * blockDim.x + threadIdx.x] = __low2float(result) + __high2float(result);
}
