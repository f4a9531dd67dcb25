// The consumers release a stage once they have read it.
// topic: pipeline
// launch: grid 1, block 64
// arg x: float[512] = random
// arg y: float[32] = zeros
#include <cuda/barrier>

using barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void sums(const float *x, float *y)
{
    __shared__ alignas(16) float s[2][64];
    __shared__ barrier full[2], empty[2];
    const int t = threadIdx.x;

    if (t == 0)
        for (int i = 0; i < 2; i++) {
            init(&full[i], 1);
            init(&empty[i], 32);
        }
    __syncthreads();
    if (t == 32) { // the producer
        for (int tile = 0; tile < 8; tile++) {
            if (tile > 1)
                empty[tile % 2].wait_parity(tile / 2 - 1 & 1);
            cuda::device::memcpy_async_tx(s[tile % 2], x + tile * 64, cuda::aligned_size_t<16>(256),
                                          full[tile % 2]);
            (void)cuda::device::barrier_arrive_tx(full[tile % 2], 1, 256);
        }
    } else if (t < 32) { // the consumers
        float sum = 0;
        for (int tile = 0; tile < 8; tile++) {
            full[tile % 2].wait_parity(tile / 2 & 1);
            sum += s[tile % 2][t] + s[tile % 2][t + 32];
            (void)empty[tile % 2].arrive();
        }
        y[t] = sum;
    }
}
