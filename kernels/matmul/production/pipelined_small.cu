// C = A @ B in float32 where C has too few tiles to fill a GPU, or k is short: see pipelined.cuh. Launch: blocks
// of 128 threads, one block per tile of each C and slice of k; then the sums of the slices. Each of a block's 4
// warps multiplies a quarter of every pair's k. A tile has 32 x 64 elements, or 32 x 32 if that gives work to more
// multiprocessors; each sum is added in the same order.
#include "pipelined.cuh"

using small_tile = pipelined_tile<32, 64, 64, 8, 4, 2, 3>;
using smallest_tile = pipelined_tile<32, 32, 64, 4, 4, 3, 2>;

cudaError_t launch_matmul_pipelined_small(const matmul_args *args, cudaStream_t stream)
{
    const product<float> p = product_of<float>(args);
    const int64_t tiles = p.batches * p.slices * ceil_div(p.m, small_tile::BM) * ceil_div(p.n, small_tile::BN);

    return multiply_and_add_slices(p, stream, [&] {
        return 2 * tiles <= args->multiprocessors ? launch_pipelined<smallest_tile>(p, stream)
                                                  : launch_pipelined<small_tile>(p, stream);
    });
}
