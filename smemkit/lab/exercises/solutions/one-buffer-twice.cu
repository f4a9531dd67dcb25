__device__ void reverse(const float *x, float *y, float *s)
{
    for (int i = threadIdx.x; i < 4096; i += 256)
        s[i] = x[blockIdx.x * 4096 + i];
    __syncthreads();
    for (int i = threadIdx.x; i < 4096; i += 256)
        y[blockIdx.x * 4096 + i] = s[4095 - i];
}

__global__ void reverse_two(const float *x, const float *y, float *out_x, float *out_y)
{
    __shared__ float s[4096];

    reverse(x, out_x, s);
    __syncthreads(); // all have read x
    reverse(y, out_y, s);
}
