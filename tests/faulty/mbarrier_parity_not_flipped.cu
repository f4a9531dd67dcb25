// The parity stays that of the first phase, so that later waits return at once.
// topic: mbarrier
// launch: grid 1, block 64
// arg x: float[256] = random
// arg y: float[256] = zeros
// fault: race RAW hang
#include <cuda/ptx>

__global__ void reverse_stages(const float *x, float *y)
{
    __shared__ float s[4][64];
    __shared__ uint64_t all;
    const int t = threadIdx.x;

    if (t == 0)
        cuda::ptx::mbarrier_init(&all, 64);
    __syncthreads();
    for (int i = 0; i < 4; i++) {
        s[i][t] = x[64 * i + t]; // THERE
        cuda::ptx::mbarrier_arrive(&all);
        while (!cuda::ptx::mbarrier_try_wait_parity(&all, 0)) // ALSO
            ;
        y[64 * i + t] = s[i][63 - t]; // HERE
    }
}
