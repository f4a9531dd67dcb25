// C = A @ B of float32 in TF32 with tiles of 64 x 128 elements of C, for products too small to give every
// multiprocessor a larger one: see wgmma_tf32.cuh. Launch: blocks of 256 threads, one block per tile of each C.
#include "wgmma_tf32.cuh"

cudaError_t launch_matmul_wgmma_tf32_small(const matmul_args *args, cudaStream_t stream)
{
    return launch_tf32<tf32_tile<64, 1, 2>>(args, stream);
}
