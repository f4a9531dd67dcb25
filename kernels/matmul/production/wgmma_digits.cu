// C = A @ B of integers on Hopper's tensor cores with tiles of 128 x 256 elements of C: see wgmma_digits.cuh.
#include "wgmma_digits.cuh"

cudaError_t launch_matmul_wgmma_digits(const matmul_args *args, cudaStream_t stream)
{
    return launch_digits<256>(args, stream);
}
