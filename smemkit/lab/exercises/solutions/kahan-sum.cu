__global__ void row_sums(const float *x, float *sums, int n)
{
    const float *row = x + threadIdx.x * n;
    float sum = 0, lost = 0;

    for (int k = 0; k < n; k++) {
        float y = row[k] - lost;
        float t = sum + y;
        lost = (t - sum) - y;
        sum = t;
    }
    sums[threadIdx.x] = sum;
}
