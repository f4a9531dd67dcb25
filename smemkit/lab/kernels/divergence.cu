// Branches within a warp and between warps.

// Each thread adds the elements below 50 of its own column.
__global__ void branch(const int *a, int *sums, int columns, int rows)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;

    for (int row = 0; row < rows; row++)
        if (a[row * columns + column] < 50)
            sum += a[row * columns + column]; // measured
    sums[column] = sum;
}

__global__ void branchless(const int *a, int *sums, int columns, int rows)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;

    for (int row = 0; row < rows; row++) {
        const int value = a[row * columns + column]; // measured
        sum += (value < 50) * value;
    }
    sums[column] = sum;
}

// Two long paths, of which a thread takes one: by its lane's parity, or by its warp's.
__device__ void two_paths(bool first, float *out, int steps)
{
    __shared__ float memory[1024];
    volatile float *mine = &memory[threadIdx.x];

    *mine = 1;
    if (first)
        for (int step = 0; step < steps; step++)
            *mine = *mine * 3 + 1; // measured
    else
        for (int step = 0; step < steps; step++)
            *mine = *mine * 5 - 1; // measured
    out[blockIdx.x * blockDim.x + threadIdx.x] = *mine;
}

__global__ void paths_by_lane(float *out, int steps)
{
    two_paths(threadIdx.x % 2 == 0, out, steps);
}
__global__ void paths_by_warp(float *out, int steps)
{
    two_paths(threadIdx.x / 32 % 2 == 0, out, steps);
}
