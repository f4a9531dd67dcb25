// Barriers: every thread reads after a barrier what was written before it, for every size of block; and the
// results of __syncthreads_count, __syncthreads_and and __syncthreads_or.
#include "check.h"

// Threads read each other's items: a thread that reads too early gets another sum.
__global__ void exchange(int *out)
{
    __shared__ int items[1024];
    const int n = blockDim.x * blockDim.y * blockDim.z;
    const int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int seen = 0;
    for (int round = 0; round < 3; ++round) {
        items[i] = i + round;
        __syncthreads();
        seen += items[n - 1 - i] + items[(i + 1) % n];
        __syncthreads(); // before the next round overwrites what a neighbour still reads
    }
    out[blockIdx.x * n + i] = seen;
}

static void exchanged(dim3 block)
{
    const int blocks = 3, n = block.x * block.y * block.z;
    Array<int> out(blocks * n);
    exchange<<<blocks, block>>>(out.device);
    RUNS();
    out.download();
    for (int j = 0; j < blocks * n; ++j)
        EQUAL_AT(j, out[j], 3 * (n - 1 - j % n) + 3 * ((j % n + 1) % n) + 6);
}

template <typename T>
__global__ void tree_sum(const T *in, T *out, int n)
{
    extern __shared__ float4 raw[];
    T *partial = (T *)raw;
    T sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = partial[0];
}

static void summed(int block)
{
    const int blocks = 5, n = 10007;
    Array<double> in(n), out(blocks);
    for (int i = 0; i < n; ++i)
        in[i] = i % 17 - 5;
    in.upload();
    tree_sum<<<blocks, block, block * sizeof(double)>>>(in.device, out.device, n);
    RUNS();
    out.download();
    double got = 0, want = 0;
    for (int i = 0; i < blocks; ++i)
        got += out[i];
    for (int i = 0; i < n; ++i)
        want += in[i];
    EQUAL(got, want);
}

// Jacobi steps between two buffers: one barrier per step is enough.
__global__ void double_buffer(long long *out, int steps)
{
    __shared__ long long buffer[2][128];
    const int i = threadIdx.x;
    buffer[0][i] = i;
    for (int step = 0; step < steps; ++step) {
        __syncthreads();
        buffer[(step + 1) % 2][i] = buffer[step % 2][(i + 127) % 128] + buffer[step % 2][(i + 1) % 128];
    }
    out[i] = buffer[steps % 2][i];
}

static void double_buffered()
{
    const int steps = 50;
    Array<long long> out(128);
    double_buffer<<<1, 128>>>(out.device, steps);
    RUNS();
    out.download();
    long long now[128], next[128];
    for (int i = 0; i < 128; ++i)
        now[i] = i;
    for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < 128; ++i)
            next[i] = now[(i + 127) % 128] + now[(i + 1) % 128];
        memcpy(now, next, sizeof now);
    }
    for (int i = 0; i < 128; ++i)
        EQUAL_AT(i, out[i], now[i]);
}

// A barrier under a condition that is the same for the whole block: that is allowed.
__global__ void uniform_branch(int *out)
{
    __shared__ int value;
    if (blockIdx.x % 2) {
        if (threadIdx.x == 0)
            value = 1;
        __syncthreads();
    } else {
        if (threadIdx.x == 1)
            value = 2;
        __syncthreads();
    }
    for (unsigned i = 0; i < blockIdx.x; ++i) { // the same count for each thread of the block
        const int now = value;
        __syncthreads();
        if (threadIdx.x == i % 32)
            value = now + 10;
        __syncthreads();
    }
    out[32 * blockIdx.x + threadIdx.x] = value;
}

struct Votes {
    int count, every, some, nobody, all, one;
};

__global__ void votes(Votes *out)
{
    const int t = threadIdx.x, n = blockDim.x;
    Votes v;
    v.count = __syncthreads_count(t % 3 == 0 ? 5 : 0); // any non-zero counts once
    v.every = __syncthreads_and(t != n - 1);
    v.some = __syncthreads_or(t == n - 1);
    v.nobody = __syncthreads_or(0);
    v.all = __syncthreads_and(-1);
    v.one = __syncthreads_count(t == 0);
    out[t] = v;
}

static void voted(int n)
{
    Array<Votes> out(n);
    votes<<<1, n>>>(out.device);
    RUNS();
    out.download();
    for (int t = 0; t < n; ++t) {
        EQUAL_AT(t, out[t].count, (n + 2) / 3);
        EQUAL_AT(t, out[t].every != 0, false);
        EQUAL_AT(t, out[t].some != 0, true);
        EQUAL_AT(t, out[t].nobody, 0);
        EQUAL_AT(t, out[t].all != 0, true);
        EQUAL_AT(t, out[t].one, 1);
    }
}

// A voting barrier orders memory like any barrier.
__global__ void voting_orders_memory(int *out)
{
    __shared__ int items[96];
    items[threadIdx.x] = 3 * threadIdx.x;
    __syncthreads_count(0);
    const int a = items[95 - threadIdx.x];
    __syncthreads_and(1);
    items[threadIdx.x] = a;
    __syncthreads_or(1);
    out[threadIdx.x] = items[95 - threadIdx.x];
}

__global__ void warp_scan(int *out)
{
    __shared__ int items[64];
    const int lane = threadIdx.x % 32, i = threadIdx.x;
    items[i] = i;
    __syncwarp();
    for (int step = 1; step < 32; step *= 2) {
        const int left = lane >= step ? items[i - step] : 0;
        __syncwarp();
        items[i] += left;
        __syncwarp();
    }
    out[i] = items[i];
}

// Three groups of one warp, each with its own mask and number of iterations; lanes 30 and 31 do not take part.
__global__ void partial_masks(int *out)
{
    __shared__ int items[32];
    const int lane = threadIdx.x;
    items[lane] = lane;
    __syncwarp();
    if (lane < 30) {
        const int first = lane / 10 * 10, turns = lane / 10 + 1;
        const unsigned mask = 0x3ffu << first;
        for (int turn = 0; turn < turns; ++turn) {
            const int next = items[first + (lane - first + 1) % 10];
            __syncwarp(mask);
            items[lane] = next;
            __syncwarp(mask);
        }
    }
    out[lane] = items[lane];
}

// The first warp produces a batch, the second one consumes it; two barriers per batch.
__global__ void pipeline(int *out, int batches)
{
    __shared__ int batch[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int sum = 0;
    for (int b = 0; b < batches; ++b) {
        if (warp == 0)
            batch[lane] = 100 * b + lane;
        __syncthreads();
        if (warp == 1)
            sum += batch[31 - lane];
        __syncthreads();
    }
    if (warp == 1)
        out[lane] = sum;
}

// A warp hands data over through a flag that another warp polls, without any barrier.
__global__ void flag(int *out)
{
    __shared__ int data;
    __shared__ int ready;
    if (threadIdx.x == 0)
        ready = 0;
    __syncthreads();
    if (threadIdx.x == 63) {
        data = 42;
        __threadfence_block();
        atomicExch(&ready, 1);
    }
    if (threadIdx.x == 0) {
        while (atomicAdd(&ready, 0) == 0)
            ;
        __threadfence_block();
        *out = data;
    }
}

// Warps without work exit before the others use warp barriers and shuffles: that is allowed.
__global__ void warp_leaves(int *out)
{
    if (threadIdx.x >= 32)
        return;
    __shared__ int items[32];
    items[threadIdx.x] = threadIdx.x;
    __syncwarp();
    out[threadIdx.x] = items[31 - threadIdx.x];
}

int main()
{
    for (int n : {1, 2, 31, 32, 33, 63, 64, 1000, 1023, 1024})
        exchanged(n);
    exchanged(dim3(8, 4));
    exchanged(dim3(5, 7, 3));
    exchanged(dim3(1, 1, 64));
    exchanged(dim3(16, 1, 64));
    for (int block : {1, 2, 32, 64, 256, 1024})
        summed(block);
    double_buffered();

    Array<int> out(32 * 8);
    uniform_branch<<<8, 32>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 32 * 8; ++i)
        EQUAL_AT(i, out[i], (i / 32 % 2 ? 1 : 2) + 10 * (i / 32));

    for (int n : {1, 31, 32, 33, 256, 1000, 1024})
        voted(n);
    voting_orders_memory<<<1, 96>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 96; ++i)
        EQUAL_AT(i, out[i], 3 * i);

    warp_scan<<<1, 64>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0, sum = 0; i < 64; ++i) {
        sum = i % 32 ? sum + i : i;
        EQUAL_AT(i, out[i], sum);
    }

    partial_masks<<<1, 32>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 32; ++i)
        EQUAL_AT(i, out[i], i < 30 ? i / 10 * 10 + (i % 10 + i / 10 + 1) % 10 : i);

    pipeline<<<1, 64>>>(out.device, 20);
    RUNS();
    out.download();
    for (int i = 0; i < 32; ++i)
        EQUAL_AT(i, out[i], 100 * 190 + 20 * (31 - i));

    flag<<<1, 64>>>(out.device);
    RUNS();
    out.download();
    EQUAL(out[0], 42);

    warp_leaves<<<1, 128>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 32; ++i)
        EQUAL_AT(i, out[i], 31 - i);
    return verdict();
}
