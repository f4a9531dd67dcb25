__global__ void even_and_odd(const float *x, float *y)
{
    __shared__ float s[256];
    int t = threadIdx.x;

    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    if (t < 128)
        s[2 * t] = 2 * s[2 * t] + 1;
    else {
        float v = s[2 * (t - 128) + 1];
        s[2 * (t - 128) + 1] = v * v;
    }
    __syncthreads();
    y[blockIdx.x * 256 + t] = s[t];
}
