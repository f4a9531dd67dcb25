// Each half of the block has its own named barrier.
// topic: named barriers
// launch: grid 1, block 128
// arg x: float[128] = random
// arg y: float[128] = zeros
__device__ __forceinline__ void meet(int barrier)
{
    asm volatile("{\n.reg .u32 threads;\nmov.u32 threads, 64;\nbarrier.sync %0, threads;\n}" ::"r"(barrier)
                 : "memory");
}

__global__ void reverse_halves(const float *x, float *y)
{
    __shared__ float s[2][64];
    const int half = threadIdx.x / 64, t = threadIdx.x % 64;

    s[half][t] = x[threadIdx.x];
    meet(1 + half);
    y[threadIdx.x] = s[half][63 - t];
}
