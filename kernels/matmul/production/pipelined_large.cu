// C = A @ B in float32 where there is enough of C to fill a GPU with large tiles: see pipelined.cuh. Launch:
// blocks of 128 threads, one block per 64 x 128 tile of each C and slice of k (or of 256 threads and 128 x 128,
// where B is copied element by element); then the sums of the slices.
#include "pipelined.cuh"

using packs_tile = pipelined_tile<64, 128, 16, 8, 1, 3, 4>;
using elements_tile = pipelined_tile<128, 128, 32, 8, 1, 2, 2>;

cudaError_t launch_matmul_pipelined_large(const matmul_args *args, cudaStream_t stream)
{
    const product<float> p = product_of<float>(args);

    return multiply_and_add_slices(p, stream,
                                   [&] { return launch_pipelined<packs_tile, elements_tile>(p, stream); });
}
