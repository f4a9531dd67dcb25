__global__ void sum_below(const int *a, int *sums, int steps)
{
    int sum = 0;

    for (int k = 0; k < steps; k++) {
        int v = a[k * 32 + threadIdx.x];
        if (v < 50) // TODO: without a branch
            sum += v;
    }
    sums[threadIdx.x] = sum;
}
