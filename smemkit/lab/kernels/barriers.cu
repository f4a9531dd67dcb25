// Four mistakes with barriers, and the right version of each. Blocks of 64 threads.
#include <cooperative_groups.h>

// ---- no barrier ----

__global__ void missing_wrong(int *x)
{
    __shared__ int copy[64];

    copy[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = copy[63 - threadIdx.x];
}

__global__ void missing_right(int *x)
{
    __shared__ int copy[64];

    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads(); // all of copy is written before any of it is read
    x[threadIdx.x] = copy[63 - threadIdx.x];
}

// ---- a barrier in a branch that not all threads take ----

__global__ void branch_wrong(int *x)
{
    __shared__ int copy[64];

    copy[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 32) {
        __syncthreads();
        x[threadIdx.x] = copy[63 - threadIdx.x];
    }
}

__global__ void branch_right(int *x)
{
    __shared__ int copy[64];

    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads(); // outside of the branch, where all threads meet
    if (threadIdx.x < 32)
        x[threadIdx.x] = copy[63 - threadIdx.x];
}

// ---- a barrier in a loop whose length depends on the thread ----

__global__ void loop_wrong(int *x)
{
    __shared__ int sum;

    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    for (int i = 0; i < (int)threadIdx.x % 4; i++) {
        atomicAdd(&sum, 1);
        __syncthreads();
    }
    x[threadIdx.x] = sum;
}

__global__ void loop_right(int *x)
{
    __shared__ int sum;

    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    for (int i = 0; i < 4; i++) { // as many rounds for all threads
        if (i < (int)threadIdx.x % 4)
            atomicAdd(&sum, 1);
        __syncthreads();
    }
    x[threadIdx.x] = sum;
}

// ---- a barrier that is meant for all blocks ----

__global__ void blocks_wrong(int *x, int *sums)
{
    const int first = blockIdx.x * blockDim.x;

    if (threadIdx.x == 0)
        for (int i = 0; i < (int)blockDim.x; i++)
            sums[blockIdx.x] += x[first + i];
    __syncthreads(); // waits for this block only
    if (threadIdx.x == 0)
        x[first] = sums[(blockIdx.x + 1) % gridDim.x];
}

__global__ void blocks_grid_barrier(int *x, int *sums)
{
    const int first = blockIdx.x * blockDim.x;

    if (threadIdx.x == 0)
        for (int i = 0; i < (int)blockDim.x; i++)
            sums[blockIdx.x] += x[first + i];
    cooperative_groups::this_grid().sync(); // of a cooperative launch: all blocks are resident
    if (threadIdx.x == 0)
        x[first] = sums[(blockIdx.x + 1) % gridDim.x];
}

// The first of two launches; the second one begins when all blocks of the first have ended.
__global__ void blocks_first_launch(const int *x, int *sums)
{
    if (threadIdx.x == 0)
        for (int i = 0; i < (int)blockDim.x; i++)
            sums[blockIdx.x] += x[blockIdx.x * blockDim.x + i];
}

__global__ void blocks_second_launch(int *x, const int *sums)
{
    if (threadIdx.x == 0)
        x[blockIdx.x * blockDim.x] = sums[(blockIdx.x + 1) % gridDim.x];
}
