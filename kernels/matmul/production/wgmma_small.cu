// C = A @ B in float16 and bfloat16 with tiles of 128 x 64 elements of C, for products too small to give every
// multiprocessor a larger one: see wgmma_half.cuh. Each element has the same bits.
#include "wgmma_half.cuh"

cudaError_t launch_matmul_wgmma_small(const matmul_args *args, cudaStream_t stream)
{
    return launch_half<64, false, 1>(args, stream);
}
