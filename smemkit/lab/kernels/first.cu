// First kernels: add one to every element by one block and by many; a matmul by one block, before tiles.

__global__ void add_one_by_one_thread(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] += 1; // work
}

__global__ void add_one_by_one_block(float *x, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        x[i] += 1; // work
}

__global__ void add_one_by_many_blocks(float *x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        x[i] += 1; // work
}

// One block of n × n threads: n is at most 32, because a block has at most 1024 threads.
__global__ void matmul_by_one_block(const float *a, const float *b, float *c, int n)
{
    const int row = threadIdx.y, column = threadIdx.x;
    float sum = 0;

    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}
