// A pointer that was never set.
#include "fault.h"

// EXPECT cudaErrorIllegalAddress: illegal write: *null pointer in kernel write, block (0, 5, 0), thread (0, 1, 2)
__global__ void write(int *out)
{
    if (blockIdx.y == 5 && threadIdx.y == 1 && threadIdx.z == 2)
        out[3] = 1;
}

// EXPECT cudaErrorIllegalAddress: illegal access: *null pointer in kernel read, block (0, 0, 0), thread (0, 0, 0)
__global__ void read(const int *in, int *out)
{
    *out = in[threadIdx.x];
}

int main()
{
    Array<int> out(1);
    int *volatile nothing = nullptr; // volatile: no compiler can see that it is null
    write<<<dim3(1, 6), dim3(1, 2, 3)>>>(nothing);
    report();
    read<<<1, 1>>>(nothing, out.device);
    report();
    return verdict();
}
