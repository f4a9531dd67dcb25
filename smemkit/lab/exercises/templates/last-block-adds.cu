__global__ void sum(const float *x, float *partial, unsigned *ticket, float *total)
{
    __shared__ float s[64];
    __shared__ bool last;
    int t = threadIdx.x;

    s[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    for (int stride = 32; stride > 0; stride /= 2) {
        if (t < stride)
            s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0) {
        partial[blockIdx.x] = s[0];
        last = atomicAdd(ticket, 1) == gridDim.x - 1;
        if (last) {
            float all = 0;
            for (int b = 0; b < gridDim.x; b++)
                all += partial[b];
            *total = all;
        }
    }
}
