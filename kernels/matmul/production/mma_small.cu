// C = A @ B in float16 and bfloat16 for products too small for large tiles: see mma.cuh. Launch: blocks of 128
// threads, one block per 64 x 64 tile of each C and slice of k; then the sums of the slices.
#include "mma.cuh"

using small_tile = mma_tile<64, 64, 32, 32, 4, 3>;

cudaError_t launch_matmul_mma_small(const matmul_args *args, cudaStream_t stream)
{
    return args->dtype == FLOAT16 ? launch_mma<__half, small_tile>(args, stream)
                                  : launch_mma<__nv_bfloat16, small_tile>(args, stream);
}
