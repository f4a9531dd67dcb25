// Threads past the end of the array return before the barrier at which the others wait.
// topic: divergent barrier
// launch: grid 2, block 128
// arg x: float[200] = random
// arg sums: float[2] = zeros
// arg n: 200
// fault: barrier
__global__ void block_sums(const float *x, float *sums, int n)
{
    __shared__ float partial[128];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;

    if (i >= n)
        return;
    partial[t] = x[i];
    __syncthreads(); // HERE
    if (t == 0) {
        float sum = 0;
        for (int j = 0; j < 128 && blockIdx.x * 128 + j < n; j++)
            sum += partial[j];
        sums[blockIdx.x] = sum;
    }
}
