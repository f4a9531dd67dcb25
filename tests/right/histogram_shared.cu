// Each block counts in shared memory and adds its counts to the result.
// launch: grid 3, block 64
// arg x: unsigned char[3000] = random
// arg n: 3000
// arg histogram: unsigned int[256] = zeros
__global__ void histo_kernel(unsigned char *x, long n, unsigned int *histogram)
{
    __shared__ unsigned int temp[256];

    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        temp[i] = 0;
    __syncthreads();
    for (long i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&temp[x[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        atomicAdd(&histogram[i], temp[i]);
}
