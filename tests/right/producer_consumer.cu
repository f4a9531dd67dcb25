// One warp loads, another one computes; two slots, each with two named barriers: full and empty.
// launch: grid 2, block 64
// arg x: float[2, 6, 32] = random
// arg y: float[2, 6, 32] = zeros
// arg steps: 6
__device__ void bar_sync(int name, int threads)
{
    asm volatile("bar.sync %0, %1;" : : "r"(name), "r"(threads) : "memory");
}

__device__ void bar_arrive(int name, int threads)
{
    asm volatile("bar.arrive %0, %1;" : : "r"(name), "r"(threads) : "memory");
}

__global__ void pipeline(const float *x, float *y, int steps)
{
    __shared__ float slots[2][32];
    const int lane = threadIdx.x % 32, first = blockIdx.x * steps * 32;
    const int FULL = 1, EMPTY = 3; // barriers 1, 2 and 3, 4

    if (threadIdx.x < 32) {
        for (int step = 0; step < steps; step++) {
            if (step >= 2)
                bar_sync(EMPTY + step % 2, 64);
            slots[step % 2][lane] = x[first + step * 32 + lane];
            bar_arrive(FULL + step % 2, 64);
        }
    } else {
        for (int step = 0; step < steps; step++) {
            bar_sync(FULL + step % 2, 64);
            y[first + step * 32 + lane] = 2 * slots[step % 2][31 - lane];
            if (step + 2 < steps)
                bar_arrive(EMPTY + step % 2, 64);
        }
    }
}
