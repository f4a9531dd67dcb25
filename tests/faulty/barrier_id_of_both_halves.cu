// Both halves of the block meet at one named barrier, each as if it were alone.
// topic: named barriers
// launch: grid 1, block 128
// arg x: float[128] = random
// arg y: float[128] = zeros
// fault: barrier race
__device__ __forceinline__ void meet(int barrier)
{
    asm volatile("{\n.reg .u32 threads;\nmov.u32 threads, 64;\nbarrier.sync %0, threads;\n}" ::"r"(barrier) // HERE
                 : "memory");
}

__global__ void reverse_halves(const float *x, float *y)
{
    __shared__ float s[2][64];
    const int half = threadIdx.x / 64, t = threadIdx.x % 64;

    s[half][t] = x[threadIdx.x]; // ALSO
    meet(1);
    y[threadIdx.x] = s[half][63 - t]; // ALSO
}
