__global__ void row_sums(const float *x, float *sums, int n)
{
    extern __shared__ float s[]; // n floats
    float sum = 0;

    for (int i = 0; i < n; i++)
        sum += x[blockIdx.x * n + i]; // TODO: pairwise
    sums[blockIdx.x] = sum;
}
