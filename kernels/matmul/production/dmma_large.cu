// C = A @ B in float64 with tiles of 128 x 128 elements of C: see dmma.cuh.
#include "dmma.cuh"

cudaError_t launch_matmul_dmma_large(const matmul_args *args, cudaStream_t stream)
{
    return launch_dmma<128>(args, stream);
}
