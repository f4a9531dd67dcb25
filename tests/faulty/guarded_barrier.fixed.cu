// The barrier is outside the bounds checks.
// topic: divergent barrier
// launch: grid 2, block 64
// arg x: float[100] = random
// arg y: float[100] = zeros
// arg n: 100
__global__ void neighbour_mean(const float *x, float *y, int n)
{
    __shared__ float s[64];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;

    if (i < n)
        s[t] = x[i];
    __syncthreads();
    if (i < n)
        y[i] = 0.5f * (s[t] + s[t ^ 1]);
}
