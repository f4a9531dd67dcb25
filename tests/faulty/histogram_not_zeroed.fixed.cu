// The block's histogram starts from zero.
// topic: uninitialised shared memory
// launch: grid 2, block 64
// arg x: int[1024] = iota
// arg histogram: int[16] = zeros
// arg n: 1024
__global__ void count(const int *x, int *histogram, int n)
{
    __shared__ int bins[16];

    if (threadIdx.x < 16)
        bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[x[i] % 16], 1);
    __syncthreads();
    if (threadIdx.x < 16)
        atomicAdd(&histogram[threadIdx.x], bins[threadIdx.x]);
}
