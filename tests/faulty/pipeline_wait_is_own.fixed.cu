// Each thread waits for its own copies, then all meet at a barrier.
// topic: pipeline
// launch: grid 1, block 64
// arg x: float[256] = random
// arg y: float[256] = zeros
#include <cuda/pipeline>

__global__ void reverse_stages(const float *x, float *y)
{
    __shared__ float s[4][64];
    const int t = threadIdx.x;
    auto pipe = cuda::make_pipeline();

    for (int i = 0; i < 4; i++) {
        pipe.producer_acquire();
        cuda::memcpy_async(&s[i][t], &x[64 * i + t], sizeof(float), pipe);
        pipe.producer_commit();
    }
    for (int i = 0; i < 4; i++) {
        pipe.consumer_wait();
        __syncthreads();
        y[64 * i + t] = s[i][63 - t];
        pipe.consumer_release();
    }
}
