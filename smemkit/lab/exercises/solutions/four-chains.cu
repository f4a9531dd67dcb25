__global__ void row_sums(const float *x, float *sums, int n)
{
    const float *row = x + threadIdx.x * n;
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;

    for (int k = 0; k < n; k += 4) {
        s0 += row[k];
        s1 += row[k + 1];
        s2 += row[k + 2];
        s3 += row[k + 3];
    }
    sums[threadIdx.x] = (s0 + s1) + (s2 + s3);
}
