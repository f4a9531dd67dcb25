__global__ void minus_lane_0(const float *x, float *y)
{
    float v = x[threadIdx.x];
    float first = __shfl_sync(0xffffffff, v, 0);

    y[threadIdx.x] = v - first;
}
