// Registers of a are overwritten while the multiplication may still read them.
// topic: wgmma
// launch: grid 1, block 128
// arg x: int[512] = random
// arg y: int[64] = random
// arg z: float[512] = zeros
// fault: race WAW
#include <cstdint>

// chunk c of row r at 16 (rows c + r): no swizzle
__device__ uint64_t descriptor(const void *chunks, int rows)
{
    return (uint64_t)(__cvta_generic_to_shared(chunks) >> 4 & 0x3fff) | (uint64_t)rows << 16 | 8ull << 32;
}

__device__ void multiply(float (&d)[4], const int (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 " // THERE
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__global__ void product(const int *x, const int4 *y, float *z)
{
    __shared__ alignas(128) int4 b[16];
    float d[4] = {};
    int a[4];
    const int t = threadIdx.x;

    if (t < 16)
        b[t] = y[t];
    for (int i = 0; i < 4; i++)
        a[i] = x[4 * t + i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    multiply(d, a, descriptor(b, 8));
    for (int i = 0; i < 4; i++)
        a[i] = 0; // HERE
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; i++)
        z[4 * t + i] = d[i] + (float)a[i];
}
