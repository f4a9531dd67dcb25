__global__ void rotate(const float *x, float *y)
{
    __shared__ float s[128];
    int t = threadIdx.x, first = blockIdx.x * 128;

    s[t] = x[first + t];
    __syncthreads();
    y[first + t] = s[(t + 1) % 128];
}
