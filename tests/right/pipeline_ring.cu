// y = A x: one warp copies tiles of A and x into a ring of three stages, two warps multiply them.
// launch: grid 2, block 96
// arg a: float[64, 224] = random
// arg x: float[224] = random
// arg y: float[64] = zeros
// arg k: 224
#include <cooperative_groups.h>
#include <cuda/pipeline>

constexpr int ROWS = 32, STEP = 32, STAGES = 3, PITCH = STEP + 4; // 16-byte rows that start in different banks

__global__ void matvec(const float *a, const float *x, float *y, int k)
{
    __shared__ alignas(16) float a_tile[STAGES][ROWS][PITCH], x_tile[STAGES][STEP];
    __shared__ float other_half[ROWS];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    const auto block = cooperative_groups::this_thread_block();
    const auto warp = cooperative_groups::tiled_partition<32>(block);
    const bool produces = warp.meta_group_rank() == 0;
    auto pipe = cuda::make_pipeline(block, &state,
                                    produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    const int row = threadIdx.x % ROWS, half = threadIdx.x / ROWS - 1; // of a consumer
    float sum = 0;

    for (int step = 0; step < k / STEP; step++) {
        const int stage = step % STAGES;

        if (produces) {
            pipe.producer_acquire();
            for (int i = 0; i < ROWS; i++)
                cuda::memcpy_async(warp, a_tile[stage][i], &a[(blockIdx.x * ROWS + i) * k + step * STEP],
                                   cuda::aligned_size_t<16>(sizeof(float) * STEP), pipe);
            cuda::memcpy_async(warp, x_tile[stage], &x[step * STEP],
                               cuda::aligned_size_t<16>(sizeof(float) * STEP), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            for (int i = STEP / 2 * half; i < STEP / 2 * (half + 1); i++)
                sum += a_tile[stage][row][i] * x_tile[stage][i];
            pipe.consumer_release();
        }
    }
    if (half == 1)
        other_half[row] = sum;
    __syncthreads();
    if (half == 0)
        y[blockIdx.x * ROWS + row] = sum + other_half[row];
}
