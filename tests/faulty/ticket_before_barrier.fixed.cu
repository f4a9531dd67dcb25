// The block's counter is incremented after all threads of the block have written their partial results.
// topic: fences and flags
// launch: grid 4, block 64
// arg x: float[4, 64] = random
// arg partial: float[4, 64] = zeros
// arg result: float[64] = zeros
__device__ unsigned tickets;

__global__ void column_sums(const float *x, float *partial, float *result)
{
    __shared__ bool last;
    const int t = threadIdx.x;

    partial[blockIdx.x * 64 + t] = 2 * x[blockIdx.x * 64 + t];
    __syncthreads();
    if (t == 0) {
        __threadfence();
        last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
        float total = 0;
        for (int b = 0; b < gridDim.x; b++)
            total += partial[b * 64 + t];
        result[t] = total;
    }
}
