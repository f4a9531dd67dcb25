// C = A @ B on tensor cores where there is enough of C to fill a GPU with large tiles: see mma.cuh. Launch:
// blocks of 256 threads, one block per 128 x 256 tile (float64: 128 x 128) of each C and slice of k; then the sums
// of the slices.
#include "mma.cuh"

template <class T>
using large_tile = std::conditional_t<std::is_same_v<T, double>, mma_tile<T, 128, 128, 64, 32, 4, 1>,
                                      mma_tile<T, 128, 256, 64, 64, 3, 1>>;

cudaError_t launch_matmul_mma_large(const matmul_args *args, cudaStream_t stream)
{
    return launch_mma_of_dtype<large_tile>(args, stream);
}
