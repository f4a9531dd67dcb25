// wgmma_digits with tiles of 128 x 128 elements of C, for products too small to give every multiprocessor a larger
// one: see wgmma_digits.cuh.
#include "wgmma_digits.cuh"

cudaError_t launch_matmul_wgmma_digits_small(const matmul_args *args, cudaStream_t stream)
{
    return launch_digits<128>(args, stream);
}
