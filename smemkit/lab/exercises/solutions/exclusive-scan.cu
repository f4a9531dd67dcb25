__global__ void scan(const float *x, float *y)
{
    __shared__ float s[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;

    s[t] = x[i];
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        float other = t >= d ? s[t - d] : 0;
        __syncthreads();
        s[t] += other;
        __syncthreads();
    }
    y[i] = t > 0 ? s[t - 1] : 0;
}
