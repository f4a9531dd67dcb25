__global__ void three_arrays(const float *x, float *y, int n)
{
    extern __shared__ char chars[]; // TODO: which array should be the first?
    int *ints = (int *)(chars + n);
    float *floats = (float *)(ints + n);
    int t = threadIdx.x, other = n - 1 - t;

    ints[t] = 2 * t;
    floats[t] = x[t];
    chars[t] = t % 7;
    __syncthreads();
    y[t] = ints[other] + floats[other] + chars[other];
}
