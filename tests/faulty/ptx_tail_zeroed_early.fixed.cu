// The tail is set to zero once the copies of the stage are complete.
// topic: asynchronous copies
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
// arg n: 50
#define COPY_IF(condition, to, from)                                                                              \
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p cp.async.ca.shared.global [%0], [%1], 4;\n}" ::"r"( \
                     (unsigned)__cvta_generic_to_shared(to)),                                                     \
                 "l"(from), "r"((int)(condition))                                                                 \
                 : "memory")

__global__ void reversed(const float *x, float *y, int n)
{
    __shared__ float s[64];
    const int t = threadIdx.x;

    COPY_IF(t < n, &s[t], &x[t]);
    if (t >= n)
        s[t] = 0;
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    y[t] = s[63 - t];
}
