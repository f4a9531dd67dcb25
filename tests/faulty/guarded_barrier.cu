// The barrier is inside the bounds check: the last block's threads past the end never arrive.
// topic: divergent barrier
// launch: grid 2, block 64
// arg x: float[100] = random
// arg y: float[100] = zeros
// arg n: 100
// fault: barrier
__global__ void neighbour_mean(const float *x, float *y, int n)
{
    __shared__ float s[64];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;

    if (i < n) {
        s[t] = x[i];
        __syncthreads(); // HERE
        y[i] = 0.5f * (s[t] + s[t ^ 1]);
    }
}
