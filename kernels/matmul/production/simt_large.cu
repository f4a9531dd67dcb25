// C = A @ B where there is enough of C to fill a GPU with large tiles: see simt.cuh. Launch: blocks of 256
// threads, one block per 128 x 128 tile of each C and slice of k; then the sums of the slices.
#include "simt.cuh"

template <class T>
using large_tile = block_tile<accumulator_type<T>, 128, 128, 8, 8, 2>;

cudaError_t launch_matmul_simt_large(const matmul_args *args, cudaStream_t stream)
{
    return dispatch_dtype<WORD_SUMS & ~SIGNED>(without_sign(args->dtype), [&](auto zero) {
        using T = decltype(zero);

        return launch_simt<T, large_tile<T>>(args, stream);
    });
}
