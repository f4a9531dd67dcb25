// A ring of stages that bulk copies fill and four warps empty, with a store by bulk copies at the end.
// launch: grid 2, block 160
// arg x: int[2,16,256] = random
// arg y: int[2,128] = zeros
#include <cstdint>
#include <cuda/ptx>

namespace ptx = cuda::ptx;

constexpr int STAGES = 3, TILES = 16, TILE = 256, CONSUMERS = 128;

__device__ void await(uint64_t *barrier, unsigned parity)
{
    while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
    }
}

// warp 4: one thread fills the stages in turn
__device__ void produce(const int *x, int (*stages)[TILE], uint64_t *full, uint64_t *empty)
{
    for (int i = 0; i < TILES; i++) {
        const int stage = i % STAGES;
        const unsigned round = i / STAGES;

        await(&empty[stage], (round & 1) ^ 1);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[stage],
                                       TILE * sizeof(int));
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, stages[stage], x + i * TILE, TILE * sizeof(int),
                           &full[stage]);
    }
}

// warps 0 to 3: each thread adds two columns
__device__ int consume(const int (*stages)[TILE], uint64_t *full, uint64_t *empty)
{
    int sum = 0;

    for (int i = 0; i < TILES; i++) {
        const int stage = i % STAGES;

        await(&full[stage], i / STAGES & 1);
        sum += stages[stage][threadIdx.x] + stages[stage][threadIdx.x + CONSUMERS];
        ptx::mbarrier_arrive(&empty[stage]);
    }
    return sum;
}

__global__ void column_sums(const int *x, int *y)
{
    __shared__ alignas(128) int stages[STAGES][TILE];
    __shared__ alignas(16) int sums[CONSUMERS];
    __shared__ uint64_t full[STAGES], empty[STAGES];

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            ptx::mbarrier_init(&full[i], 1);
            ptx::mbarrier_init(&empty[i], CONSUMERS);
        }
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (threadIdx.x < CONSUMERS) {
        sums[threadIdx.x] = consume(stages, full, empty);
        ptx::fence_proxy_async(ptx::space_shared); // the bulk copy reads what these threads have stored
    } else if (threadIdx.x == CONSUMERS) {
        produce(x + blockIdx.x * TILES * TILE, stages, full, empty);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + blockIdx.x * CONSUMERS, sums, sizeof sums);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}
