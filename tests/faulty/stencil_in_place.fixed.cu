// A stencil with a separate output.
// topic: in place
// launch: grid 2, block 64
// arg x: float[130] = random
// arg y: float[130] = zeros
__global__ void smooth(float *x, float *y)
{
    __shared__ float s[64 + 2];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t + 1;

    s[t + 1] = x[i];
    if (t == 0)
        s[0] = x[i - 1];
    if (t == 63)
        s[65] = x[i + 1];
    __syncthreads();
    y[i] = (s[t] + s[t + 1] + s[t + 2]) / 3;
}
