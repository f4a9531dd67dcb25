// Integer division by zero gives an undefined value on a GPU. Here it ends the launch, on processors that trap it.
#include "fault.h"

// EXPECT cudaErrorLaunchFailure: integer division by zero in kernel divide, block (0, 0, 3), thread (9, 0, 0)
__global__ void divide(int *out, int by)
{
    out[threadIdx.x] = 1000 / (blockIdx.z == 3 ? (int)threadIdx.x - by : 1);
}

int main()
{
    Array<int> out(32);
    divide<<<dim3(1, 1, 4), 32>>>(out.device, 9);
    report();
    return verdict();
}
