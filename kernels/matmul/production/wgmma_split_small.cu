// wgmma_split with tiles of 128 x 64 elements of C, for products too small to give every multiprocessor a larger
// one: see wgmma_split.cuh. Each element has the same bits.
#include "wgmma_split.cuh"

cudaError_t launch_matmul_wgmma_split_small(const matmul_args *args, cudaStream_t stream)
{
    return launch_split<64, 2, 3, true>(args, stream);
}
