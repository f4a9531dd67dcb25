// Every thread waits for its own asynchronous copy, then all meet at a barrier.
// topic: asynchronous copies
// launch: grid 2, block 64
// arg x: float[128] = random
// arg y: float[128] = zeros
__global__ void reverse_blocks(const float *x, float *y)
{
    __shared__ float s[64];
    const int t = threadIdx.x, first = blockIdx.x * 64;
    const unsigned to = (unsigned)__cvta_generic_to_shared(&s[t]);

    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(&x[first + t]));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    y[first + t] = s[63 - t];
}
