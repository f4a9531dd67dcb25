// Several steps of a heat equation in shared memory: every thread runs the same number of iterations.
// launch: grid 2, block 64
// arg x: float[128] = random
// arg steps: 5
__global__ void heat(float *x, int steps)
{
    __shared__ float s[64];
    const int t = threadIdx.x;

    s[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        const float left = t > 0 ? s[t - 1] : 0, right = t < 63 ? s[t + 1] : 0;
        const float next = 0.25f * left + 0.5f * s[t] + 0.25f * right;
        __syncthreads(); // all threads have read
        s[t] = next;
        __syncthreads(); // all threads have written
    }
    x[blockIdx.x * 64 + t] = s[t];
}
