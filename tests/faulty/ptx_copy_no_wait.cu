// The threads meet at a barrier, but none waits for the group of its asynchronous copy.
// topic: asynchronous copies
// launch: grid 2, block 64
// arg x: float[128] = random
// arg y: float[128] = zeros
// fault: race RAW
__global__ void reverse_blocks(const float *x, float *y)
{
    __shared__ float s[64];
    const int t = threadIdx.x, first = blockIdx.x * 64;
    const unsigned to = (unsigned)__cvta_generic_to_shared(&s[t]);

    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(&x[first + t])); // THERE
    asm volatile("cp.async.commit_group;");
    __syncthreads();
    y[first + t] = s[63 - t]; // HERE
}
