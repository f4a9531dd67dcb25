// The tile has the padding that the leading dimension counts.
// topic: tensor cores
// launch: grid 1, block 32
// arg a: half[256] = random
// arg b: half[256] = random
// arg c: float[256] = zeros
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void multiply(const half *a, const half *b, float *c)
{
    __shared__ __align__(32) half tile[16][24];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;

    for (int i = threadIdx.x; i < 256; i += 32)
        tile[i / 16][i % 16] = a[i];
    __syncwarp();
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(left, &tile[0][0], 24);
    wmma::load_matrix_sync(right, b, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
