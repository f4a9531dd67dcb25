// The rows of the tile have one element of padding, which is not a multiple of 16 bytes.
// topic: tensor cores
// launch: grid 1, block 32
// arg a: half[256] = random
// arg c: float[256] = zeros
// fault: misaligned
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

const int PADDING = 1;

__global__ void square(const half *a, float *c)
{
    __shared__ __align__(32) half tile[16][16 + PADDING];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;

    for (int i = threadIdx.x; i < 256; i += 32)
        tile[i / 16][i % 16] = a[i];
    __syncwarp();
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(left, &tile[0][0], 16 + PADDING); // HERE
    wmma::load_matrix_sync(right, &tile[0][0], 16 + PADDING);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
