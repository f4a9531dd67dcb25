// The last warp step of a sum: the mask names the lanes with a value, and the shuffles' width is their number.
// topic: shuffles
// launch: grid 1, block 256
// arg x: float[256] = random
// arg sum: float[1] = zeros
__global__ void sum_of_block(const float *x, float *sum)
{
    __shared__ float partial[8];
    const int t = threadIdx.x;
    float s = x[t];

    for (int d = 16; d > 0; d /= 2)
        s += __shfl_down_sync(0xffffffff, s, d);
    if (t % 32 == 0)
        partial[t / 32] = s;
    __syncthreads();
    if (t < 8) {
        s = partial[t];
        for (int d = 16; d > 0; d /= 2)
            s += __shfl_down_sync(0x000000ff, s, d, 8);
        if (t == 0)
            *sum = s;
    }
}
