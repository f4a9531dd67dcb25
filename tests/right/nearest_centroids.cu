// A step of k-means: centroids in shared memory, sums and counts by shared atomics, then by global ones.
// launch: grid 2, block 64
// arg points: float[128] = random
// arg centroids: float[4] = iota
// arg sums: float[4] = zeros
// arg counts: int[4] = zeros
__global__ void assign(const float *points, const float *centroids, float *sums, int *counts)
{
    __shared__ float near[4], sum[4];
    __shared__ int count[4];
    const int t = threadIdx.x;

    if (t < 4) {
        near[t] = centroids[t] - 1.5f;
        sum[t] = 0;
        count[t] = 0;
    }
    __syncthreads();
    const float point = points[blockIdx.x * 64 + t];
    int best = 0;
    for (int c = 1; c < 4; c++)
        if (fabsf(point - near[c]) < fabsf(point - near[best]))
            best = c;
    atomicAdd(&sum[best], point);
    atomicAdd(&count[best], 1);
    __syncthreads();
    if (t < 4) {
        atomicAdd(&sums[t], sum[t]);
        atomicAdd(&counts[t], count[t]);
    }
}
