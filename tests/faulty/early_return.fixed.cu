// Threads past the end of the array stay until the last barrier.
// topic: divergent barrier
// launch: grid 2, block 128
// arg x: float[200] = random
// arg sums: float[2] = zeros
// arg n: 200
__global__ void block_sums(const float *x, float *sums, int n)
{
    __shared__ float partial[128];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;

    partial[t] = i < n ? x[i] : 0;
    __syncthreads();
    if (t == 0) {
        float sum = 0;
        for (int j = 0; j < 128 && blockIdx.x * 128 + j < n; j++)
            sum += partial[j];
        sums[blockIdx.x] = sum;
    }
}
