// Every thread runs the same number of iterations of the loop with the barriers.
// topic: divergent barrier
// launch: grid 1, block 64
// arg x: float[96] = random
// arg y: float[96] = zeros
// arg n: 96
__global__ void pair_means(const float *x, float *y, int n)
{
    __shared__ float s[64];
    const int t = threadIdx.x;

    for (int first = 0; first < n; first += blockDim.x) {
        const int i = first + t;
        if (i < n)
            s[t] = x[i];
        __syncthreads();
        if (i < n)
            y[i] = 0.5f * (s[t] + s[t ^ 1]);
        __syncthreads();
    }
}
