// Asynchronous copies from global to shared memory through every API: what a wait makes visible.
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

template <typename T>
__global__ void staged(const T *in, T *out)
{
    __shared__ T items[64];
    __pipeline_memcpy_async(&items[threadIdx.x], &in[blockIdx.x * 64 + threadIdx.x], sizeof(T));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = items[63 - threadIdx.x];
}

template <typename T>
static void check_staged(T (*make)(int))
{
    Array<T> in(256), out(256);
    for (int i = 0; i < 256; ++i)
        in[i] = make(i);
    in.upload();
    staged<<<4, 64>>>(in.device, out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 256; ++i)
        EQUAL_AT(i, memcmp(&out[i], &in[i / 64 * 64 + 63 - i % 64], sizeof(T)), 0);
}

// Copies 16 - 4 * (i % 5) bytes; the rest of the 16 bytes become zero.
__global__ void filled(const int4 *in, int4 *out)
{
    __shared__ int4 items[32];
    items[threadIdx.x] = make_int4(-1, -1, -1, -1);
    __pipeline_memcpy_async(&items[threadIdx.x], &in[threadIdx.x], 16, 4 * (threadIdx.x % 5));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[threadIdx.x] = items[threadIdx.x];
}

// Sums a row of tiles, with three stages in flight.
__global__ void pipelined(const float *in, float *out, int tiles)
{
    const int STAGES = 3;
    __shared__ float stages[STAGES][128];
    const int i = threadIdx.x;
    float sum = 0;
    for (int t = 0; t < STAGES - 1; ++t) {
        if (t < tiles)
            __pipeline_memcpy_async(&stages[t][i], &in[t * 128 + i], sizeof(float));
        __pipeline_commit();
    }
    for (int t = 0; t < tiles; ++t) {
        const int next = t + STAGES - 1;
        if (next < tiles)
            __pipeline_memcpy_async(&stages[next % STAGES][i], &in[next * 128 + i], sizeof(float));
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 1);
        __syncthreads();
        sum += stages[t % STAGES][127 - i];
        __syncthreads();
    }
    out[i] = sum;
}

static void check_pipelined(int tiles)
{
    Array<float> in(tiles * 128), out(128);
    for (int i = 0; i < tiles * 128; ++i)
        in[i] = i % 31;
    in.upload();
    pipelined<<<1, 128>>>(in.device, out.device, tiles);
    RUNS();
    out.download();
    for (int i = 0; i < 128; ++i) {
        float want = 0;
        for (int t = 0; t < tiles; ++t)
            want += (t * 128 + 127 - i) % 31;
        EQUAL_AT(i, out[i], want);
    }
}

// A group copies collectively: any number of bytes, at any alignment that both addresses share.
__global__ void together(const char *in, char *out, int bytes, int shift)
{
    extern __shared__ char raw[];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, raw + shift, in + shift, bytes);
    cg::wait(block);
    for (int i = threadIdx.x; i < bytes; i += blockDim.x)
        out[i] = raw[shift + i];
}

static void check_together(int bytes, int shift)
{
    Array<char> in(bytes + shift), out(bytes);
    for (int i = 0; i < bytes + shift; ++i)
        in[i] = (char)(i * 13);
    in.upload();
    together<<<1, 64, 2048>>>(in.device, out.device, bytes, shift);
    RUNS();
    out.download();
    for (int i = 0; i < bytes; ++i)
        EQUAL_AT(i, out[i], in[i + shift]);
}

// The CUDA guide's double buffer: two copies in flight, and a wait for the first.
__global__ void batches(const int *in, int *out, int n)
{
    __shared__ int buffer[2][256];
    auto block = cg::this_thread_block();
    int sum = 0;
    cg::memcpy_async(block, buffer[0], in, sizeof(int) * 256);
    for (int b = 0; b < n; ++b) {
        if (b + 1 < n) {
            cg::memcpy_async(block, buffer[(b + 1) % 2], in + 256 * (b + 1), sizeof(int) * 256);
            cg::wait_prior<1>(block);
        } else {
            cg::wait(block);
        }
        sum += buffer[b % 2][threadIdx.x] - buffer[b % 2][(threadIdx.x + 1) % 256];
        block.sync();
    }
    out[threadIdx.x] = sum;
}

// cuda::pipeline, one per thread
__global__ void by_thread(const float2 *in, float2 *out, int n)
{
    __shared__ float2 slots[2][32];
    cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
    float2 sum = make_float2(0, 0);
    for (int fetched = 0, b = 0; b < n; ++b) {
        for (; fetched < n && fetched < b + 2; ++fetched) {
            pipe.producer_acquire();
            cuda::memcpy_async(&slots[fetched % 2][threadIdx.x], &in[32 * fetched + threadIdx.x],
                               cuda::aligned_size_t<8>(sizeof(float2)), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum.x += slots[b % 2][threadIdx.x].x;
        sum.y += slots[b % 2][threadIdx.x].y;
        pipe.consumer_release();
    }
    out[threadIdx.x] = sum;
}

// cuda::barrier: separate arrival and wait, and copies that complete at the barrier.
__global__ void split_barrier(const int *in, int *out, int rounds)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int items[2][128];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0)
        init(&barrier, block.size());
    block.sync();
    int sum = 0;
    for (int round = 0; round < rounds; ++round) {
        cuda::memcpy_async(block, items[round % 2], in + 128 * round, sizeof(int) * 128, barrier);
        cuda::barrier<cuda::thread_scope_block>::arrival_token token = barrier.arrive();
        sum += 1;
        barrier.wait(std::move(token));
        sum += items[round % 2][127 - threadIdx.x];
        barrier.arrive_and_wait();
    }
    out[threadIdx.x] = sum;
}

#ifdef SMEMKIT_HERE
// The executor performs copies as late as possible; a copy without a wait is performed when its thread ends.
__global__ void late(const int *in, int *out)
{
    __shared__ int items[64];
    items[threadIdx.x] = -1;
    items[32 + threadIdx.x] = -1;
    __pipeline_memcpy_async(&items[threadIdx.x], &in[threadIdx.x], 4);
    __pipeline_commit();
    __pipeline_memcpy_async(&items[32 + threadIdx.x], &in[32 + threadIdx.x], 4);
    __pipeline_wait_prior(1);
    out[threadIdx.x] = items[threadIdx.x];
    __pipeline_wait_prior(0);
    out[32 + threadIdx.x] = items[threadIdx.x];
    out[64 + threadIdx.x] = items[32 + threadIdx.x]; // from a batch without a commit
}

__global__ void unawaited(const int *in, int *out)
{
    __shared__ int items[64];
    items[threadIdx.x] = -1;
    if (threadIdx.x < 32) {
        __pipeline_memcpy_async(&items[threadIdx.x], &in[threadIdx.x], 4);
        return;
    }
    out[threadIdx.x - 32] = items[threadIdx.x - 32];
}

static void check_late()
{
    Array<int> in(64), out(96);
    for (int i = 0; i < 64; ++i)
        in[i] = 100 + i;
    in.upload();
    late<<<3, 32>>>(in.device, out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 32; ++i) {
        EQUAL_AT(i, out[i], -1);
        EQUAL_AT(i, out[32 + i], 100 + i);
        EQUAL_AT(i, out[64 + i], -1);
    }
    unawaited<<<1, 64>>>(in.device, out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 32; ++i)
        EQUAL_AT(i, out[i], 100 + i);
}
#endif

int main()
{
    check_staged<int>([](int i) { return i * 3; });
    check_staged<double>([](int i) { return i * 0.5; });
    check_staged<float4>([](int i) { return make_float4(i, -i, 2 * i, 0.5f * i); });
    {
        Array<int4> in(32), out(32);
        for (int i = 0; i < 32; ++i)
            in[i] = make_int4(i + 1, i + 2, i + 3, i + 4);
        in.upload();
        filled<<<1, 32>>>(in.device, out.device);
        RUNS();
        out.download();
        for (int i = 0; i < 32; ++i) {
            const int words = 4 - i % 5;
            EQUAL_AT(i, out[i].x, words > 0 ? i + 1 : 0);
            EQUAL_AT(i, out[i].y, words > 1 ? i + 2 : 0);
            EQUAL_AT(i, out[i].z, words > 2 ? i + 3 : 0);
            EQUAL_AT(i, out[i].w, words > 3 ? i + 4 : 0);
        }
    }
    check_pipelined(1);
    check_pipelined(2);
    check_pipelined(20);
    for (int bytes : {0, 1, 3, 4, 12, 63, 64, 1000, 1024, 1036})
        for (int shift : {0, 1, 2, 4, 8})
            check_together(bytes, shift);
    {
        Array<int> in(256 * 9), out(256);
        for (int i = 0; i < 256 * 9; ++i)
            in[i] = i / 256 * (i % 256);
        in.upload();
        batches<<<2, 256>>>(in.device, out.device, 9);
        RUNS();
        out.download();
        for (int i = 0; i < 256; ++i)
            EQUAL_AT(i, out[i], i < 255 ? -36 : 36 * 255);
    }
    {
        Array<float2> in(32 * 7), out(32);
        for (int i = 0; i < 32 * 7; ++i)
            in[i] = make_float2(i, 1);
        in.upload();
        by_thread<<<1, 32>>>(in.device, out.device, 7);
        RUNS();
        out.download();
        for (int i = 0; i < 32; ++i) {
            EQUAL_AT(i, out[i].x, 7 * i + 32 * 21);
            EQUAL_AT(i, out[i].y, 7);
        }
    }
    {
        Array<int> in(128 * 6), out(128);
        for (int i = 0; i < 128 * 6; ++i)
            in[i] = i;
        in.upload();
        split_barrier<<<2, 128>>>(in.device, out.device, 6);
        RUNS();
        out.download();
        for (int i = 0; i < 128; ++i)
            EQUAL_AT(i, out[i], 6 + 128 * 15 + 6 * (127 - i));
    }
#ifdef SMEMKIT_HERE
    check_late();
#endif
    return verdict();
}
