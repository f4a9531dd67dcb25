// A barrier in a loop that some threads leave one iteration earlier.
// topic: divergent barrier
// launch: grid 1, block 64
// arg x: float[96] = random
// arg y: float[96] = zeros
// arg n: 96
// fault: barrier
__global__ void pair_means(const float *x, float *y, int n)
{
    __shared__ float s[64];
    const int t = threadIdx.x;

    for (int i = t; i < n; i += blockDim.x) {
        s[t] = x[i];
        __syncthreads(); // HERE
        y[i] = 0.5f * (s[t] + s[t ^ 1]);
        __syncthreads(); // ALSO
    }
}
