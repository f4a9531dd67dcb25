// The tail is set to zero while the copies of the stage before it may still arrive there.
// topic: asynchronous copies
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
// arg n: 50
// fault: race WAW
#define COPY_IF(condition, to, from)                                                                              \
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p cp.async.ca.shared.global [%0], [%1], 4;\n}" ::"r"( \
                     (unsigned)__cvta_generic_to_shared(to)),                                                     \
                 "l"(from), "r"((int)(condition))                                                                 \
                 : "memory")

__global__ void reversed(const float *x, float *y, int n)
{
    __shared__ float s[64];
    const int t = threadIdx.x;

    COPY_IF(t < 64, &s[t], &x[t]); // THERE
    if (t >= n)
        s[t] = 0; // HERE
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    y[t] = s[63 - t];
}
