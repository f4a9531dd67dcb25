// The last warp relies on running in lockstep: volatile does not order accesses of different lanes.
// topic: warp-synchronous code
// launch: grid 2, block 64
// arg x: float[128] = random
// arg sums: float[2] = zeros
// schedule: lockstep
// fault: race RAW warp-synchronous
__device__ void last_warp(volatile float *v, int t)
{
    v[t] += v[t + 32]; // THERE
    v[t] += v[t + 16]; // HERE
    v[t] += v[t + 8];  // ALSO
    v[t] += v[t + 4];  // ALSO
    v[t] += v[t + 2];  // ALSO
    v[t] += v[t + 1];  // ALSO
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
