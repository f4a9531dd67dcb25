// One thread finds out that its block is the last, and the others read that result before it is written.
// topic: missing barrier
// launch: grid 4, block 64
// arg x: float[4, 64] = random
// arg partial: float[4, 64] = zeros
// arg result: float[64] = zeros
// fault: race
__device__ unsigned tickets;

__global__ void column_sums(const float *x, float *partial, float *result)
{
    __shared__ bool last;
    const int t = threadIdx.x;

    if (t == 0)
        last = false;
    partial[blockIdx.x * 64 + t] = 2 * x[blockIdx.x * 64 + t]; // ALSO
    __syncthreads();
    if (t == 0) {
        __threadfence();
        last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1; // THERE
    }
    if (last) { // HERE
        __threadfence();
        float total = 0;
        for (int b = 0; b < gridDim.x; b++)
            total += partial[b * 64 + t]; // ALSO
        result[t] = total;
    }
}
