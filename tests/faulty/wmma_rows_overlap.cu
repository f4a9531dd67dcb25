// The rows of the result begin 8 elements apart, but have 16 elements.
// topic: tensor cores
// launch: grid 1, block 32
// arg a: half[256] = random
// arg b: half[256] = random
// arg c: float[256] = zeros
// fault: race WAW warp-synchronous
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void multiply(const half *a, const half *b, float *c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;

    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(right, b, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(c, sum, 8, wmma::mem_row_major); // HERE
}
