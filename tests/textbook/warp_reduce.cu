#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <numeric>
#include <vector>

namespace cg = cooperative_groups;

__inline__ __device__ float warpReduceSum(float val)
{
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
        val += __shfl_down_sync(0xffffffff, val, offset);
    return val;
}

__inline__ __device__ float blockReduceSum(float val)
{
    static __shared__ float shared[32];  // Shared mem for 32 partial sums
    int lane = threadIdx.x % warpSize;
    int wid = threadIdx.x / warpSize;

    val = warpReduceSum(val);  // Each warp performs partial reduction
    if (lane == 0) shared[wid] = val;
    cg::this_thread_block().sync();
    val = (threadIdx.x < blockDim.x / warpSize) ? shared[lane] : 0;
    if (wid == 0) val = warpReduceSum(val);  // Final reduce within first warp
    return val;
}

__global__ void deviceReduceKernel(const half *in, float *out, int N)
{
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += blockDim.x * gridDim.x)
        sum += __half2float(in[i]);
    sum = blockReduceSum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

void deviceReduce(half *in, float *out, int N)
{
    std::vector<float> partial(32);
    int threads = 512, blocks = std::min((N + threads - 1) / threads, 1024);
    deviceReduceKernel<<<blocks, threads>>>(in, out, N);
    *out = std::accumulate(partial.begin(), partial.end(), 0.f);
}
