// Named barriers, PTX's bar.sync and bar.arrive: which threads must arrive, which ones wait, and which ones only
// arrive.
#include "check.h"

static __device__ void bar_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
static __device__ void bar_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Each half of the block rotates its own items, and one half does so more often.
__global__ void halves(int *out)
{
    __shared__ int items[256];
    const int half = threadIdx.x / 128, i = threadIdx.x % 128;
    int *mine = items + 128 * half;
    mine[i] = i;
    for (int round = 0; round <= half; ++round) {
        bar_sync(1 + half, 128);
        const int next = mine[(i + 1) % 128];
        bar_sync(1 + half, 128);
        mine[i] = next;
    }
    __syncthreads();
    out[threadIdx.x] = items[threadIdx.x];
}

// Warp 0 fills two slots alternately, and three warps empty them. Each slot has a `full` and an `empty` barrier.
__global__ void producer(int *out, int batches)
{
    __shared__ int slots[2][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int sum = 0;
    for (int b = 0; b < batches; ++b) {
        const int slot = b % 2, full = 1 + slot, empty = 3 + slot;
        if (warp == 0) {
            if (b >= 2)
                bar_sync(empty, 128);
            slots[slot][lane] = 100 * b + lane;
            bar_arrive(full, 128);
        } else {
            bar_sync(full, 128);
            sum += slots[slot][(lane + warp) % 32];
            bar_arrive(empty, 128); // nobody waits for the last of these
        }
    }
    out[threadIdx.x] = sum;
}

static void produced(int batches)
{
    Array<int> out(128);
    producer<<<3, 128>>>(out.device, batches);
    RUNS();
    out.download();
    for (int t = 32; t < 128; ++t)
        EQUAL_AT(t, out[t], 100 * (batches * (batches - 1) / 2) + batches * ((t % 32 + t / 32) % 32));
}

// Threads at different lines of a kernel may meet at one barrier. All 16 barriers are used.
__global__ void meeting(int *out)
{
    __shared__ int items[64];
    const int warp = threadIdx.x / 32;
    int sum = 0;
    for (int id = 0; id < 16; ++id) {
        items[threadIdx.x] = id + threadIdx.x;
        if (id == 0)
            bar_sync(0, 64);
        else if (warp == 0)
            bar_sync(id, 64);
        else
            bar_sync(id, 64);
        sum += items[63 - threadIdx.x];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

// The hardware counts warps: the last one, of 16 threads, counts as 32.
__global__ void ragged(int *out)
{
    __shared__ int items[80];
    items[threadIdx.x] = threadIdx.x;
    if (threadIdx.x < 32) {
        bar_arrive(5, 96);
    } else {
        bar_sync(5, 96);
        out[threadIdx.x] = items[threadIdx.x - 32];
    }
    bar_sync(0, 96);
    if (threadIdx.x < 32)
        out[threadIdx.x] = items[79 - threadIdx.x];
}

int main()
{
    {
        Array<int> out(256);
        halves<<<2, 256>>>(out.device);
        RUNS();
        out.download();
        for (int t = 0; t < 256; ++t)
            EQUAL_AT(t, out[t], (t % 128 + t / 128 + 1) % 128);
    }
    produced(1);
    produced(2);
    produced(25);
    {
        Array<int> out(64);
        meeting<<<1, 64>>>(out.device);
        RUNS();
        out.download();
        for (int t = 0; t < 64; ++t)
            EQUAL_AT(t, out[t], 120 + 16 * (63 - t));
    }
    {
        Array<int> out(80);
        ragged<<<1, 80>>>(out.device);
        RUNS();
        out.download();
        for (int t = 0; t < 80; ++t)
            EQUAL_AT(t, out[t], t < 32 ? 79 - t : t - 32);
    }
    return verdict();
}
