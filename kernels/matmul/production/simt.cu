// C = A @ B in any dtype: see simt.cuh. Launch: blocks of 128 threads (256 for complex128), one block per 64 x 64
// tile of each C and slice of k; then the sums of the slices.
#include "simt.cuh"

// Blocks per multiprocessor: as many as the registers of their threads allow.
template <class Sum>
constexpr int BLOCKS = sizeof(Sum) <= 4         ? 5
                       : sizeof(Sum) == 16      ? 1
                       : is_complex<Sum>::value ? 2
                                                : 3;

template <class Sum>
using medium_tile = block_tile<Sum, 64, 64, sizeof(Sum) == 16 ? 4 : 8, 4, BLOCKS<Sum>>;

cudaError_t launch_matmul_simt(const matmul_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY & ~SIGNED>(without_sign(args->dtype), [&](auto zero) {
        using T = decltype(zero);

        return launch_simt<T, medium_tile<accumulator_type<T>>>(args, stream);
    });
}
