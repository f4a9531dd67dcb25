// C = A @ B in float16 and bfloat16 with tiles of 128 x 256 elements of C, or fewer columns: see wgmma_half.cuh.
#include "wgmma_half.cuh"

cudaError_t launch_matmul_wgmma_large(const matmul_args *args, cudaStream_t stream)
{
    return launch_half<256, true, 2>(args, stream);
}
