// consumer_wait of a thread's own pipeline waits for its own copies, not for its neighbours'.
// topic: pipeline
// launch: grid 1, block 64
// arg x: float[256] = random
// arg y: float[256] = zeros
// fault: race RAW
#include <cuda/pipeline>

__global__ void reverse_stages(const float *x, float *y)
{
    __shared__ float s[4][64];
    const int t = threadIdx.x;
    auto pipe = cuda::make_pipeline();

    for (int i = 0; i < 4; i++) {
        pipe.producer_acquire();
        cuda::memcpy_async(&s[i][t], &x[64 * i + t], sizeof(float), pipe); // THERE
        pipe.producer_commit();
    }
    for (int i = 0; i < 4; i++) {
        pipe.consumer_wait();
        y[64 * i + t] = s[i][63 - t]; // HERE
        pipe.consumer_release();
    }
}
