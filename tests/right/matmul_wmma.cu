// C = A @ B of halves by nvcuda::wmma, from padded tiles in shared memory: a warp has a quarter of the tile.
// launch: grid 2x2, block 128
// arg a: half[128, 96] = random
// arg b: half[96, 128] = random
// arg c: float[128, 128] = zeros
// arg k: 96
#include <mma.h>

using namespace nvcuda;

constexpr int TILE = 64, STEP = 32, PAD = 8; // rows that are padded by 16 bytes

__global__ void matmul(const half *a, const half *b, float *c, int k)
{
    __shared__ __align__(32) half a_tile[TILE][STEP + PAD], b_tile[STEP][TILE + PAD];
    const int warp = threadIdx.x / 32, n = gridDim.x * TILE;
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE, top = warp / 2 * 32, left = warp % 2 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(sum[i][j], 0.0f);
    for (int first = 0; first < k; first += STEP) {
        for (int i = threadIdx.x; i < TILE * STEP; i += blockDim.x) {
            a_tile[i / STEP][i % STEP] = a[(row + i / STEP) * k + first + i % STEP];
            b_tile[i / TILE][i % TILE] = b[(first + i / TILE) * n + column + i % TILE];
        }
        __syncthreads(); // the tiles are complete
        for (int step = 0; step < STEP; step += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y[2];

            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(x[i], &a_tile[top + 16 * i][step], STEP + PAD);
                wmma::load_matrix_sync(y[i], &b_tile[step][left + 16 * i], TILE + PAD);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(sum[i][j], x[i], y[j], sum[i][j]);
        }
        __syncthreads(); // all have read the tiles
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(&c[(row + top + 16 * i) * n + column + left + 16 * j], sum[i][j], n,
                                    wmma::mem_row_major);
}
