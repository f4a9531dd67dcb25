__global__ void warp_scan(const float *x, float *y)
{
    int lane = threadIdx.x % 32;
    float sum = x[threadIdx.x];

    for (int d = 1; d < 32; d *= 2) {
        float other = __shfl_up_sync(0xffffffff, sum, d);
        if (lane >= d)
            sum += other;
    }
    y[threadIdx.x] = sum;
}
