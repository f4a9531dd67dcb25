// C = A @ B of float32 on Hopper's tensor cores with the accuracy of float32: see wgmma_split.cuh.
#include "wgmma_split.cuh"

cudaError_t launch_matmul_wgmma_split(const matmul_args *args, cudaStream_t stream)
{
    return launch_split<128, 2, 3, true>(args, stream);
}
