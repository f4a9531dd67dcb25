// C = A @ B of float32 in TF32 with tiles of 128 x 256 elements of C: see wgmma_tf32.cuh. Launch: blocks of 384
// threads, one block per tile of each C.
#include "wgmma_tf32.cuh"

cudaError_t launch_matmul_wgmma_tf32(const matmul_args *args, cudaStream_t stream)
{
    return launch_tf32<tf32_tile<128, 2, 1>>(args, stream);
}
