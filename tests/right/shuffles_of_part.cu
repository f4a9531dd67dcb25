// Half a warp shuffles with its own mask; where the source is outside its group, a lane gets its own value.
// launch: grid 1, block 48
// arg x: float[48] = random
// arg y: float[48] = zeros
__global__ void scan_in_halves(const float *x, float *y)
{
    const int t = threadIdx.x, lane = t % 16;
    const unsigned half = 0xffffu << t % 32 / 16 * 16;
    float sum = x[t];

    for (int d = 1; d < 16; d *= 2) {
        const float before = __shfl_up_sync(half, sum, d, 16);
        if (lane >= d)
            sum += before;
    }
    y[t] = sum;
}
