// C = A @ B in float64 with tiles of 128 x 64 elements of C, for products too small to give every multiprocessor a
// larger one: see dmma.cuh. Each element has the same bits.
#include "dmma.cuh"

cudaError_t launch_matmul_dmma_small(const matmul_args *args, cudaStream_t stream)
{
    return launch_dmma<64>(args, stream);
}
