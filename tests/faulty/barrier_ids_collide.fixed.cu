// Full and empty are two barriers.
// topic: named barriers
// launch: grid 1, block 128
// arg x: float[256] = random
// arg y: float[256] = zeros
enum { FULL = 1, EMPTY = 2 };

__device__ inline void arrive(int barrier)
{
    asm volatile("bar.arrive %0, 128;" ::"r"(barrier) : "memory");
}

__device__ inline void wait(int barrier)
{
    asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
}

// the first two warps load, the others store
__global__ void reverse_stages(const float *x, float *y)
{
    __shared__ float s[64];
    const int t = threadIdx.x % 64;

    for (int i = 0; i < 4; i++) {
        if (threadIdx.x < 64) {
            s[t] = x[64 * i + t];
            arrive(FULL);
            wait(EMPTY);
        } else {
            wait(FULL);
            y[64 * i + t] = s[63 - t];
            arrive(EMPTY);
        }
    }
}
