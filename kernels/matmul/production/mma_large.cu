// C = A @ B on tensor cores where there is enough of C to fill a GPU with large tiles: see mma.cuh. Launch:
// blocks of 256 threads, one block per 128 x 256 tile of each C and slice of k; then the sums of the slices.
#include "mma.cuh"

template <class T>
using large_tile = mma_tile<T, 128, 256, 64, 64, 3, 1>;

cudaError_t launch_matmul_mma_large(const matmul_args *args, cudaStream_t stream)
{
    return launch_mma_of_dtype<large_tile>(args, stream);
}
