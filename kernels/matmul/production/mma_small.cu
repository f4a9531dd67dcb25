// C = A @ B on tensor cores for products too small for large tiles: see mma.cuh. Launch: blocks of 128
// threads, one block per 64 x 64 tile of each C and slice of k; then the sums of the slices.
#include "mma.cuh"

template <class T>
using small_tile = mma_tile<T, 64, 64, 32, 32, 4, 3>;

cudaError_t launch_matmul_mma_small(const matmul_args *args, cudaStream_t stream)
{
    return launch_mma_of_dtype<small_tile>(args, stream);
}
