__global__ void sum_pairs(const float *x, float *y)
{
    __shared__ __align__(8) float s[256];
    int t = threadIdx.x, first = blockIdx.x * 256;

    s[t] = x[first + t];
    s[t + 128] = x[first + t + 128];
    __syncthreads();
    y[blockIdx.x * 128 + t] = s[2 * t] + s[2 * t + 1]; // TODO: without conflicts
}
