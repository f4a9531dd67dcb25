// Threads past the end of the array store zero in their slot of the reduction.
// topic: uninitialised shared memory
// launch: grid 2, block 64
// arg x: float[100] = random
// arg sums: float[2] = zeros
// arg n: 100
__global__ void block_sums(const float *x, float *sums, int n)
{
    __shared__ float partial[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;

    partial[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int stride = 32; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] += partial[t + stride];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = partial[0];
}
