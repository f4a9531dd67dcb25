__global__ void gray(const float *x, float *y)
{
    __shared__ float s[768];
    int t = threadIdx.x;

    for (int k = t; k < 768; k += 256)
        s[k] = x[blockIdx.x * 768 + k];
    __syncthreads();
    y[blockIdx.x * 256 + t] = 2 * s[3 * t] + 5 * s[3 * t + 1] + s[3 * t + 2];
}
