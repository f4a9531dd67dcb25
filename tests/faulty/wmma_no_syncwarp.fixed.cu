// __syncwarp shows the matrix to the other lanes of the warp before they load it.
// topic: matrix instructions
// launch: grid 1, block 32
// arg x: half[256] = random
// arg y: float[256] = zeros
#include <mma.h>

using namespace nvcuda;

__global__ void squared(const half *x, float *y)
{
    __shared__ half s[256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;

    for (int i = threadIdx.x; i < 256; i += 32)
        s[i] = x[i];
    __syncwarp();
    wmma::load_matrix_sync(a, s, 16);
    wmma::load_matrix_sync(b, s, 16);
    wmma::fill_fragment(c, 0.0f);
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(y, c, 16, wmma::mem_row_major);
}
