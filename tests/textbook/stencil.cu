#include <stdio.h>
#define RADIUS     3
#define BLOCK_SIZE 64

__constant__ int weight[2 * RADIUS + 1] = {1, 1, 1, 1, 1, 1, 1};
__device__ unsigned int blocks_done;

__global__ void stencil_1d(const int *in, int *out)
{
    __shared__ int temp[BLOCK_SIZE + 2 * RADIUS];
    int gindex = threadIdx.x + (blockIdx.x * blockDim.x) + RADIUS;
    int lindex = threadIdx.x + RADIUS;

    // Read input elements into shared memory
    temp[lindex] = in[gindex];
    if (threadIdx.x < RADIUS)
    {
        temp[lindex - RADIUS] = in[gindex - RADIUS];
        temp[lindex + BLOCK_SIZE] = in[gindex + BLOCK_SIZE];
    }

    // Make sure all threads get to this point before proceeding!
    __syncthreads();

    // Apply the stencil
    int result = 0;
    for (int offset = -RADIUS ; offset <= RADIUS ; offset++)
        result += weight[offset + RADIUS] * temp[lindex + offset];

    out[gindex - RADIUS] = result;
    if (threadIdx.x == 0) atomicInc(&blocks_done, 0xffffffffu);
}

int main()
{
    int h_weight[2 * RADIUS + 1];
    for (int &w : h_weight) w = 1;
    cudaMemcpyToSymbol(weight, h_weight, sizeof(h_weight));
    stencil_1d<<< 16, BLOCK_SIZE >>>(NULL, NULL);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
