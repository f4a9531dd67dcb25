// A sum in one launch: partial sums, a fence, a counter, and the last block to increment it adds them up.
// launch: grid 6, block 64
// arg x: float[384] = random
// arg partial: float[6] = zeros
// arg total: float[1] = zeros
__device__ unsigned int count = 0;
__shared__ bool isLastBlockDone;

__device__ float block_sum(const float *x, float *s)
{
    s[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride)
            s[threadIdx.x] += s[threadIdx.x + stride];
        __syncthreads();
    }
    return s[0];
}

__global__ void sum(const float *x, volatile float *partial, float *total)
{
    __shared__ float s[64];
    float mine = block_sum(x, s);

    if (threadIdx.x == 0) {
        partial[blockIdx.x] = mine;
        __threadfence();
        unsigned int value = atomicInc(&count, gridDim.x);
        isLastBlockDone = (value == (gridDim.x - 1));
    }
    __syncthreads();
    if (isLastBlockDone && threadIdx.x == 0) {
        float all = 0;
        for (unsigned int b = 0; b < gridDim.x; b++)
            all += partial[b];
        *total = all;
        count = 0;
    }
}
