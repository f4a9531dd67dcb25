// A stage is filled again by cp.async while other warps still read it.
// topic: asynchronous copies
// launch: grid 1, block 64
// arg x: float[256] = random
// arg y: float[256] = zeros
// fault: race WAR
__device__ __forceinline__ void copy_4_bytes(float *to, const float *from)
{
    const unsigned shared = (unsigned)__cvta_generic_to_shared(to);

    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(from) : "memory"); // HERE
}

template <int PENDING> __device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// each stage is reversed
__global__ void reverse_stages(const float *x, float *y)
{
    __shared__ float s[2][64];
    const int t = threadIdx.x;

    copy_4_bytes(&s[0][t], &x[t]);
    asm volatile("cp.async.commit_group;");
    for (int i = 0; i < 4; i++) {
        if (i < 3)
            copy_4_bytes(&s[(i + 1) % 2][t], &x[64 * (i + 1) + t]);
        asm volatile("cp.async.commit_group;");
        wait_for_copies<1>();
        __syncthreads();
        y[64 * i + t] = s[i % 2][63 - t]; // THERE
    }
}
