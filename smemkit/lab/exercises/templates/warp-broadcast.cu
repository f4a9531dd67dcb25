__global__ void minus_lane_0(const float *x, float *y)
{
    float v = x[threadIdx.x];
    float first = x[threadIdx.x / 32 * 32]; // TODO: from lane 0's register

    y[threadIdx.x] = v - first;
}
