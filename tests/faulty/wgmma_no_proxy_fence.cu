// The tensor cores may miss what threads have stored: a barrier alone does not order the proxies.
// topic: proxy fence
// launch: grid 1, block 128
// arg x: int[512] = random
// arg y: int[64] = random
// arg z: float[512] = zeros
// fault: race proxy
#include <cstdint>

// chunk c of row r at 16 (rows c + r): no swizzle
__device__ uint64_t descriptor(const void *chunks, int rows)
{
    return (uint64_t)(__cvta_generic_to_shared(chunks) >> 4 & 0x3fff) | (uint64_t)rows << 16 | 8ull << 32;
}

__device__ void multiply(float (&d)[4], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 " // HERE
                 "{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(a), "l"(b));
}

__global__ void product(const int4 *x, const int4 *y, float *z)
{
    __shared__ alignas(128) int4 a[128], b[16];
    float d[4] = {};
    const int t = threadIdx.x;

    a[t] = x[t]; // THERE
    if (t < 16)
        b[t] = y[t]; // ALSO
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    multiply(d, descriptor(a, 64), descriptor(b, 8));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; i++)
        z[4 * t + i] = d[i];
}
