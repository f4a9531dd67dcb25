// The last block may see the counter before the partial sums: no fence orders them.
// topic: fences and flags
// launch: grid 8, block 64
// arg x: float[512] = random
// arg partial: float[8] = zeros
// arg result: float[1] = zeros
// fault: race RAW
__device__ unsigned tickets;

__global__ void sum(const float *x, volatile float *partial, float *result)
{
    __shared__ float s[64];
    __shared__ bool last;
    const int t = threadIdx.x;

    s[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    for (int stride = 32; stride > 0; stride /= 2) {
        if (t < stride)
            s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0) {
        partial[blockIdx.x] = s[0]; // THERE
        last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        float total = 0;
        for (int b = 0; b < gridDim.x; b++)
            total += partial[b]; // HERE
        *result = total;
    }
}
