// C = A @ B of float32 on Hopper's tensor cores with the accuracy of TF32, by products of 16-bit numbers: see
// wgmma_split.cuh.
#include "wgmma_split.cuh"

cudaError_t launch_matmul_wgmma_single(const matmul_args *args, cudaStream_t stream)
{
    return launch_split<256, 1, 2, false>(args, stream);
}
