// When a reduction returns, no thread still reads its buffer.
// topic: buffer reuse
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
__device__ float block_sum(float value, float *partial)
{
    const int t = threadIdx.x;

    partial[t] = value;
    __syncthreads();
    for (int stride = 32; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] += partial[t + stride];
        __syncthreads();
    }
    const float sum = partial[0];
    __syncthreads();
    return sum;
}

__global__ void standardise(const float *x, float *y)
{
    __shared__ float partial[64];
    const float value = x[threadIdx.x];
    const float mean = block_sum(value, partial) / 64;
    const float variance = block_sum((value - mean) * (value - mean), partial) / 64;

    y[threadIdx.x] = (value - mean) * rsqrtf(variance + 1e-5f);
}
