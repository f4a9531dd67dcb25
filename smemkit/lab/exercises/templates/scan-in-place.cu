__global__ void scan(const float *x, float *y)
{
    __shared__ float s[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;

    s[t] = x[i];
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        if (t >= d)
            s[t] += s[t - d]; // TODO: who else reads s[t] now?
        __syncthreads();
    }
    y[i] = s[t];
}
