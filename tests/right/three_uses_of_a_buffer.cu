// Sum, mean and variance through the same array, with barriers between the uses.
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
__device__ float block_sum(float value)
{
    __shared__ float partial[64];

    partial[threadIdx.x] = value;
    for (int stride = 32; stride > 0; stride /= 2) {
        __syncthreads();
        if (threadIdx.x < stride)
            partial[threadIdx.x] += partial[threadIdx.x + stride];
    }
    __syncthreads();
    const float sum = partial[0];
    __syncthreads(); // all threads have read the sum before any writes
    return sum;
}

__global__ void standardise(const float *x, float *y)
{
    const float value = x[threadIdx.x], mean = block_sum(value) / 64;
    const float variance = block_sum((value - mean) * (value - mean)) / 64;

    y[threadIdx.x] = (value - mean) / sqrtf(variance) + 0 * block_sum(1);
}
