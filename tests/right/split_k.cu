// A product whose inner dimension is split over the blocks of a cluster, which add their tiles through each other's
// shared memory.
// launch: grid 4x2, block 64
// arg a: float[16,256] = random
// arg b: float[256,16] = random
// arg c: float[16,16] = zeros
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int SPLIT = 4, M = 16, N = 16, K = 256, PART = K / SPLIT, TILE = 8;

// blockIdx.x: the part of k; blockIdx.y: the eight rows
__global__ void __cluster_dims__(SPLIT, 1, 1) product(const float *a, const float *b, float *c)
{
    __shared__ float partial[TILE][N];
    const cg::cluster_group cluster = cg::this_cluster();
    const int part = cluster.block_rank(), row = threadIdx.x / TILE, column = threadIdx.x % TILE;
    const float *from = a + (blockIdx.y * TILE + row) * K + part * PART;
    float left = 0, right = 0;

    for (int k = 0; k < PART; k++) {
        left += from[k] * b[(part * PART + k) * N + column];
        right += from[k] * b[(part * PART + k) * N + column + TILE];
    }
    partial[row][column] = left;
    partial[row][column + TILE] = right;
    cluster.sync();
    // each block adds two rows of the tiles of all
    if (threadIdx.x < 2 * N) {
        const int mine = 2 * part + threadIdx.x / N, at = threadIdx.x % N;
        float sum = 0;

        for (int i = 0; i < SPLIT; i++)
            sum += cluster.map_shared_rank(&partial[mine][at], i)[0];
        c[(blockIdx.y * TILE + mine) * N + at] = sum;
    }
    cluster.sync();
}
