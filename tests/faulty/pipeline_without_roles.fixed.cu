// One warp copies and one adds, and the pipeline knows which.
// topic: cuda::pipeline
// launch: grid 1, block 64
// arg x: float[2, 32] = random
// arg y: float[32] = zeros
// arg steps: 2
#include <cooperative_groups.h>
#include <cuda/pipeline>

// the first warp copies, the second one adds
__global__ void sum_of_rows(const float *x, float *y, int steps)
{
    __shared__ float s[2][32];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    const auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state, 32);
    const int lane = threadIdx.x % 32;
    float sum = 0;

    for (int step = 0; step < steps; step++) {
        if (threadIdx.x < 32) {
            pipe.producer_acquire();
            cuda::memcpy_async(&s[step % 2][lane], &x[step * 32 + lane], sizeof(float), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            sum += s[step % 2][31 - lane];
            pipe.consumer_release();
        }
    }
    if (threadIdx.x >= 32)
        y[lane] = sum;
}
