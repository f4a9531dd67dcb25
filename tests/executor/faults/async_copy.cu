// Asynchronous copies that the hardware does not support: of other sizes, or at other alignments.
#include "fault.h"

#include <cuda_pipeline.h>

// EXPECT cudaErrorLaunchFailure: asynchronous copy of 2 bytes, not 4, 8 or 16, at @A in kernel too_small, block
// (0, 0, 0), thread (0, 0, 0)*
__global__ void too_small(const short *in)
{
    __shared__ short items[32];
    __pipeline_memcpy_async(&items[threadIdx.x], &in[threadIdx.x], sizeof(short)); // A
}

// EXPECT cudaErrorLaunchFailure: asynchronous copy of 16 bytes to an address that is not a multiple of 16 at @B in
// kernel askew*
__global__ void askew(const float *in)
{
    __shared__ float items[64];
    __pipeline_memcpy_async(&items[1], &in[4], 16); // B
}

// EXPECT cudaErrorLaunchFailure: asynchronous copy of 8 bytes from an address that is not a multiple of 8 at @C in
// kernel askew_source*
__global__ void askew_source(const float *in)
{
    __shared__ float items[64];
    __pipeline_memcpy_async(&items[2], &in[1], 8); // C
}

// EXPECT cudaErrorLaunchFailure: asynchronous copy of 8 bytes with 12 of them zero at @D in kernel too_many_zeros*
__global__ void too_many_zeros(const float *in)
{
    __shared__ float items[64];
    __pipeline_memcpy_async(&items[0], &in[0], 8, 12); // D
}

// EXPECT cudaErrorIllegalAddress: illegal access: address *: a null pointer in kernel from_nowhere*
__global__ void from_nowhere()
{
    __shared__ int items[32];
    __pipeline_memcpy_async(&items[threadIdx.x], (int *)nullptr + threadIdx.x, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
}

int main()
{
    Array<float> in(64);
    too_small<<<1, 32>>>((const short *)in.device);
    report();
    askew<<<1, 32>>>(in.device);
    report();
    askew_source<<<1, 32>>>(in.device);
    report();
    too_many_zeros<<<1, 32>>>(in.device);
    report();
    from_nowhere<<<2, 32>>>();
    report();
    return verdict();
}
