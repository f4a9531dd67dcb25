// The block waits for a stage before it reads it.
// topic: cuda::pipeline
// launch: grid 1, block 64
// arg x: float[4, 64] = random
// arg y: float[64] = zeros
// arg steps: 4
#include <cooperative_groups.h>
#include <cuda/pipeline>

__global__ void sum_of_rows(const float *x, float *y, int steps)
{
    __shared__ alignas(16) float s[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    const auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    const int t = threadIdx.x;
    float sum = 0;

    for (int step = 0; step < steps; step++) {
        pipe.producer_acquire();
        cuda::memcpy_async(block, s[step % 2], &x[step * 64], sizeof s[0], pipe);
        pipe.producer_commit();
        pipe.consumer_wait();
        sum += s[step % 2][63 - t];
        pipe.consumer_release();
    }
    y[t] = sum;
}
