__global__ void row_sums(const float *x, float *sums, int n)
{
    extern __shared__ float s[];

    for (int i = 0; i < n; i++)
        s[i] = x[blockIdx.x * n + i];
    for (int half = n / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            s[i] += s[i + half];
    sums[blockIdx.x] = s[0];
}
