__global__ void row_sums(const float *x, float *sums, int n)
{
    const float *row = x + threadIdx.x * n;
    float sum = 0;

    for (int k = 0; k < n; k++)
        sum += row[k]; // TODO: keep what is rounded off
    sums[threadIdx.x] = sum;
}
