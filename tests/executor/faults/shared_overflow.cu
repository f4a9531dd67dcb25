// Accesses outside shared arrays: past the end of a static array, before it and in the padding after it; past the
// dynamic array, and into one that the launch did not request.
#include "fault.h"

// EXPECT cudaErrorIllegalAddress: illegal write: 0 bytes past the end of the shared variable tile of 256 bytes in
// kernel past_static, block (0, 0, 0), thread (64, 0, 0)
__global__ void past_static(int *out)
{
    __shared__ int tile[64];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x / 2];
}

// EXPECT cudaErrorIllegalAddress: illegal access: 12000 bytes past the end of the shared variable tile of 4096
// bytes in kernel far, block (0, 0, 0), thread (0, 0, 0)
__global__ void far(int *out, int n)
{
    __shared__ int tile[32][32];
    __shared__ int other[32];
    tile[threadIdx.y][threadIdx.x] = 1;
    other[threadIdx.x] = 2;
    out[threadIdx.x] = other[threadIdx.x] + (&tile[0][0])[1024 + n];
}

// EXPECT cudaErrorIllegalAddress: illegal write: 4 bytes before the shared variable tile of 256 bytes in kernel
// before, block (0, 0, 0)
__global__ void before(int *out, int n)
{
    __shared__ int tile[64];
    tile[(int)threadIdx.x - n] = threadIdx.x;
    out[threadIdx.x] = tile[0];
}

// EXPECT cudaErrorIllegalAddress: illegal write: 0 bytes past the end of the shared variable small of 6 bytes in
// kernel into_slack, block (1, 0, 0)
__global__ void into_slack(int *out, int n)
{
    __shared__ short small[3];
    small[blockIdx.x == 1 && threadIdx.x == 1 ? n : 0] = 7;
    out[threadIdx.x] = small[0];
}

// EXPECT cudaErrorIllegalAddress: illegal write: 0 bytes past the end of the shared variable table of 64 bytes in
// kernel of_a_file, block (0, 0, 0), thread (16, 0, 0)
__shared__ float table[16];
__global__ void of_a_file(int *out)
{
    table[threadIdx.x] = 1;
    out[threadIdx.x] = (int)table[0];
}

// EXPECT cudaErrorIllegalAddress: illegal write: 0 bytes past the end of the dynamic shared memory of 1024 bytes
// in kernel past, block (0, 0, 0), thread (255, 0, 0)
// EXPECT cudaErrorIllegalAddress: illegal write: 0 bytes past the end of the dynamic shared memory of 0 bytes in
// kernel past, block (0, 0, 0), thread (0, 0, 0)
// EXPECT cudaErrorIllegalAddress: illegal write: 0 bytes past the end of the dynamic shared memory of 1000 bytes
// in kernel past, block (0, 0, 0)
__global__ void past(int n)
{
    extern __shared__ int items[];
    items[threadIdx.x + n] = threadIdx.x;
}

// EXPECT cudaErrorLaunchFailure: too much static shared memory: 65536 bytes with second, at most 49152
// are allowed; use dynamic shared memory in kernel too_much, block (0, 0, 0), thread (0, 0, 0)
__global__ void too_much(int *out)
{
    __shared__ float first[8192];
    __shared__ float second[8192];
    first[threadIdx.x] = second[threadIdx.x] = 1;
    out[threadIdx.x] = (int)first[0];
}

int main()
{
    Array<int> out(128);
    past_static<<<1, 128>>>(out.device);
    report();
    far<<<1, dim3(32, 32)>>>(out.device, 3000);
    report();
    before<<<1, 1>>>(out.device, 1);
    report();
    into_slack<<<2, 32>>>(out.device, 3);
    report();
    of_a_file<<<1, 32>>>(out.device);
    report();
    past<<<1, 256, 1024>>>(1);
    report();
    past<<<1, 256>>>(0);
    report();
    past<<<1, 250, 1000>>>(1);
    report();
    too_much<<<1, 32>>>(out.device);
    report();
    return verdict();
}
