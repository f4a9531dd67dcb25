// The last warp waits for its lanes after every read and every write.
// topic: warp-synchronous code
// launch: grid 2, block 64
// arg x: float[128] = random
// arg sums: float[2] = zeros
// schedule: lockstep
__device__ void last_warp(volatile float *v, int t)
{
    float sum = v[t] + v[t + 32];
    for (int stride = 16; stride > 0; stride /= 2) {
        v[t] = sum;
        __syncwarp();
        if (t < stride)
            sum += v[t + stride];
        __syncwarp();
    }
    v[t] = sum;
}

__global__ void block_sums(const float *x, float *sums)
{
    __shared__ float partial[64];
    const int t = threadIdx.x;

    partial[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    if (t < 32)
        last_warp(partial, t);
    if (t == 0)
        sums[blockIdx.x] = partial[0];
}
