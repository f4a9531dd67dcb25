// Shared memory beyond the 48 KB that a static array may have, and what it leaves to L1.

// Reverses n integers within a block, through a dynamic array of which the launch gives the size.
__global__ void reverse_dynamic(int *x, int n)
{
    extern __shared__ int copy[];

    for (int i = threadIdx.x; i < n; i += blockDim.x)
        copy[i] = x[i];
    __syncthreads(); // all of x is copied before any of it is overwritten
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        x[i] = copy[n - 1 - i];
}

// Each block reads its own table repeatedly: it stays in L1 if shared memory leaves enough of it.
__global__ void reuse(const float *table, float *sums, int n, int rounds)
{
    extern __shared__ float unused[];
    const float *mine = table + (long long)blockIdx.x * n;
    float sum = 0;

    for (int round = 0; round < rounds; round++)
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            sum += mine[i]; // measured
    if (sum < 0)
        unused[threadIdx.x] = sum;
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
