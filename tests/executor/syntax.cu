// Syntax beyond textbook examples that nvcc accepts without a warning.
#include "check.h"

#include <algorithm>
#include <iostream>

using namespace std; // min, max and abs of both C++ and CUDA

// ---- names and launches ---------------------------------------------------------------------------------------

extern "C" __global__ void c_linkage(int *out)
{
    out[threadIdx.x] = threadIdx.x;
}

__global__ static void static_after(int *out);
template <typename T>
__global__ void specialised(T *out);
template <>
__global__ void specialised<int>(int *out)
{
    out[threadIdx.x] = 2 * threadIdx.x;
}

template <int N, bool UP>
__global__ void constants_only(int *out)
{
    out[threadIdx.x] = UP ? N + threadIdx.x : N - threadIdx.x;
}

__global__ void optional(int *out, const float *bias, const float *scale, int n)
{
    out[threadIdx.x] = n + (bias ? 100 : 0) + (scale ? 1000 : 0);
}

#define LAUNCH(kernel, threads, ...) kernel<<<1, threads>>>(__VA_ARGS__)

static void launches(Array<int> &out)
{
    c_linkage<<<1, 8>>>(out.device);
    RUNS();
    out.download();
    EQUAL(out[7], 7);
    static_after<<<{1, 1}, {8, 1}>>>(out.device);
    RUNS();
    out.download();
    EQUAL(out[7], 10);
    // clang-format off
    specialised<int> <<< 1, 8 >>> (out.device);
    // clang-format on
    RUNS();
    out.download();
    EQUAL(out[7], 14);
    constants_only<(3 > 2) ? 4 : 5, true><<<1, 8>>>(out.device);
    RUNS();
    out.download();
    EQUAL(out[7], 11);
    constants_only<40, (2 > 3)><<<1, 8>>>(out.device);
    RUNS();
    out.download();
    EQUAL(out[7], 33);
    optional<<<1, 8>>>(out.device, NULL, 0, 5); // null pointers of all kinds
    optional<<<1, 8>>>(out.device, nullptr, NULL, 6);
    RUNS();
    out.download();
    EQUAL(out[7], 6);
    LAUNCH(optional, 8, out.device, nullptr, nullptr, 8);
    RUNS();
    out.download();
    EQUAL(out[7], 8);
    ::c_linkage<<<(out.n + 7) / out.n, min(8, 9)>>>(out.device);
    void (*table[])(int *) = {c_linkage, specialised<int>};
    for (int i = 0; i < 2; i++) {
        table[i]<<<1, 8>>>(out.device);
        RUNS();
        out.download();
        EQUAL(out[7], 7 + 7 * i);
    }
    (*table[0])<<<1, 8>>>(out.device);
    RUNS();
    out.download();
    EQUAL(out[7], 7);
    const char *text = "kernel<<<1, 1>>>(x)"; // kernel<<<1, 1>>>(x) /* kernel<<<1, 1>>>(x) */
    EQUAL(strlen(text), 19u);
    const int thousand = 1'000; // a digit separator, not a character literal
    optional<<<1, 8>>>(out.device, nullptr, nullptr, thousand + 1'0);
    RUNS();
    out.download();
    EQUAL(out[7], 1010);
}

__global__ static void static_after(int *out)
{
    out[threadIdx.x] = min(10u, threadIdx.x + 100) + max(-1, 0) + abs(-3) - 3;
}

// ---- variables ------------------------------------------------------------------------------------------------

static __constant__ float static_constant[2];
__device__ __constant__ int device_constant = 3;
__constant__ __device__ int constant_device[2] = {1, 2};
static __device__ int static_device = 4;
__device__ const float pi = 3.0f;
__device__ static const int squares[] = {0, 1, 4};

__global__ void variables(int *out)
{
    *out = (int)static_constant[1] + device_constant + constant_device[1] + static_device + (int)pi + squares[2];
}

__device__ unsigned corner(uint3 index, dim3 shape)
{
    return index.x + shape.x;
}

__global__ void built_ins(int *out)
{
    const uint3 thread = threadIdx;
    const dim3 block = blockDim, grid(gridDim);
    auto where = blockIdx;
    *out = corner(thread, block) + corner(where, grid) + corner(threadIdx, blockDim) + thread.y + block.z;
}

template <typename T>
struct SharedMemory {
    __device__ operator T *()
    {
        extern __shared__ int of_any_type[];
        return (T *)of_any_type;
    }
};

extern __shared__ int at_file_scope[];

template <typename T>
__global__ void shared_forms(T *out)
{
    __shared__ int a[32], b[32];
    static __shared__ int c[32];
    __shared__ int *pointer;
    __shared__ volatile int changing[4];
    __shared__ struct {
        int x;
        float y;
    } pair;
    __shared__ bool last;
    extern volatile __shared__ int dynamic[];
    T *any = SharedMemory<T>();
    const int i = threadIdx.x;
    a[i] = 1, b[i] = 2, c[i] = 3;
    if (i == 0)
        pointer = a, changing[0] = 4, pair.y = 5, last = true;
    any[i] = 6;
    __syncthreads();
    out[i] = pointer[31 - i] + b[31 - i] + c[31 - i] + changing[0] + pair.y + last + dynamic[31 - i] +
             at_file_scope[31 - i];
}

// ---- arguments that convert -----------------------------------------------------------------------------------

__global__ void conversions(int *out)
{
    const bool flag = threadIdx.x == 3;
    const char letter = 'x';
    const short small = -4;
    const long large = 1l << 40;
    const int shuffled = __shfl_sync(0xffffffffu, flag, 3) +
                         10 * (__shfl_down_sync(0xffffffffu, letter, 1) == 'x') +
                         100 * (__shfl_xor_sync(0xffffffffu, small, 1) == -4) +
                         1000 * (__shfl_up_sync(0xffffffffu, large, 1) == large);
    out[threadIdx.x] = shuffled;
    __shared__ unsigned long long sum;
    __shared__ float real;
    if (threadIdx.x == 0) {
        sum = 1, real = 1;
        atomicAdd(&sum, 1); // an int argument for another type
        atomicAdd(&real, 1);
        out[32] = (int)sum + (int)real;
    }
}

int main()
{
    Array<int> out(64);
    launches(out);

    const float two[] = {0, 2};
    cudaMemcpyToSymbol(static_constant, two, sizeof two);
    variables<<<1, 1>>>(out.device);
    RUNS();
    out.download();
    EQUAL(out[0], 2 + 3 + 2 + 4 + 3 + 4);
    built_ins<<<1, 1>>>(out.device);
    RUNS();
    out.download();
    EQUAL(out[0], 1 + 1 + 1 + 1);
    shared_forms<<<1, 32, 32 * sizeof(int)>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 32; ++i)
        EQUAL_AT(i, out[i], 1 + 2 + 3 + 4 + 5 + 1 + 6 + 6);
    conversions<<<1, 32>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 32; ++i)
        EQUAL_AT(i, out[i], 1111);
    EQUAL(out[32], 4);
    return verdict();
}
