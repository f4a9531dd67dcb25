// Grid-wide barriers: what all blocks wrote before one is seen by all blocks after it.
#include "check.h"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// ping-pong: each block takes the neighbour's number of the round before, and adds one
__global__ void rounds(int *a, int *b, int n)
{
    cg::grid_group grid = cg::this_grid();
    for (int round = 0; round < n; round++) {
        if (threadIdx.x == 0)
            b[blockIdx.x] = a[(blockIdx.x + 1) % gridDim.x] + 1;
        grid.sync();
        int *swapped = a;
        a = b, b = swapped;
    }
}

__global__ void leaves_early(int *a)
{
    if (blockIdx.x == 1)
        return;
    cg::this_grid().sync();
    *a = 1;
}

int main()
{
    for (int blocks : {1, 2, 7, 40}) {
        Array<int> a(blocks), b(blocks);
        int n = 11;
        for (int i = 0; i < blocks; i++)
            a[i] = i * i;
        a.upload();
        void *arguments[] = {&a.device, &b.device, &n};
        ERROR(cudaLaunchCooperativeKernel(rounds, dim3(blocks), dim3(33), arguments), cudaSuccess);
        RUNS();
        b.download();
        for (int i = 0; i < blocks; i++) {
            const int from = (i + 11) % blocks;
            EQUAL_AT(i, b[i], from * from + 11);
        }
    }
    Array<int> one(1);
    void *none[] = {&one.device};
    ERROR(cudaLaunchCooperativeKernel(leaves_early, dim3(100000), dim3(1), none),
          cudaErrorCooperativeLaunchTooLarge);
    cudaGetLastError();
#ifdef SMEMKIT_HERE                     // a GPU waits for ever
    leaves_early<<<2, 1>>>(one.device); // not cooperative
    ERROR(cudaGetLastError(), cudaErrorLaunchFailure);
#endif
    return verdict();
}
