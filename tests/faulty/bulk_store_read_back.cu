// The source has been read, but that does not mean that the bytes have been written.
// topic: bulk copy
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
// arg z: float[64] = zeros
// fault: race RAW
#include <cstdint>
#include <cuda/barrier>
#include <cuda/ptx>

namespace device = cuda::device::experimental;
namespace ptx = cuda::ptx;

__global__ void stored_and_read(const float *x, float *y, float *z)
{
    __shared__ alignas(16) float s[64];
    const int t = threadIdx.x;

    s[t] = 2 * x[t];
    device::fence_proxy_async_shared_cta();
    __syncthreads();
    if (t == 0) {
        device::cp_async_bulk_shared_to_global(y, s, sizeof s); // THERE
        device::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
    __syncthreads();
    z[t] = y[63 - t]; // HERE
}
