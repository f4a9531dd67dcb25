// The wait leaves one group outstanding, that of the row which is summed.
// topic: asynchronous copies
// launch: grid 1, block 64
// arg x: float[4, 64] = random
// arg y: float[64] = zeros
// arg steps: 4
// fault: race RAW
__global__ void sum_of_mirrored(const float *x, float *y, int steps)
{
    __shared__ float s[64];
    const int t = threadIdx.x;
    const unsigned to = (unsigned)__cvta_generic_to_shared(&s[t]);
    float sum = 0;

    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n\t" // THERE
                     "cp.async.commit_group;" ::"r"(to),
                     "l"(&x[step * 64 + t]));
        asm volatile("cp.async.wait_group %0;" ::"n"(1) : "memory");
        __syncthreads();
        sum += s[63 - t]; // HERE
        __syncthreads();
    }
    y[t] = sum;
}
