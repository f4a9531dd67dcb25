// At the ends of the array the halo is read, but never written.
// topic: uninitialised shared memory
// launch: grid 2, block 64
// arg x: float[128] = random
// arg y: float[128] = zeros
// arg n: 128
// fault: uninitialised
__global__ void three_point(const float *x, float *y, int n)
{
    __shared__ float s[64 + 2];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;

    s[t + 1] = x[i];
    if (t == 0 && i > 0)
        s[0] = x[i - 1];
    if (t == 63 && i + 1 < n)
        s[65] = x[i + 1];
    __syncthreads();
    y[i] = s[t] + s[t + 1] + s[t + 2]; // HERE
}
