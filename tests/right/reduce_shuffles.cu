// Warps reduce by shuffles, and the first warp reduces the warps' sums.
// launch: grid 4, block 256
// arg x: int[5000] = iota
// arg sums: int[4] = zeros
// arg n: 5000
__inline__ __device__ int warpReduceSum(int value)
{
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

__inline__ __device__ int blockReduceSum(int value)
{
    static __shared__ int shared[32];
    int lane = threadIdx.x % warpSize;
    int wid = threadIdx.x / warpSize;

    value = warpReduceSum(value);
    if (lane == 0)
        shared[wid] = value;
    __syncthreads();
    value = (threadIdx.x < blockDim.x / warpSize) ? shared[lane] : 0;
    if (wid == 0)
        value = warpReduceSum(value);
    return value;
}

__global__ void deviceReduceKernel(int *x, int *sums, int n)
{
    int sum = 0;

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        sum += x[i];
    sum = blockReduceSum(sum);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}
