// A float4 at an address that is not a multiple of 16. The report must not name a null pointer, whatever the
// processor says.
#include "fault.h"

// EXPECT cudaError*Address: *misaligned* in kernel store, block (0, 0, 0), thread (0, 0, 0)
__global__ void store(float *out)
{
    *(float4 *)(out + 1) = make_float4(1, 2, 3, 4);
}

int main()
{
    Array<float> out(100);
    store<<<1, 1>>>(out.device);
    report();
    return verdict();
}
