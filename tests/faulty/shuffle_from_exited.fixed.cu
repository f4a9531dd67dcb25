// Threads past the end contribute 0 to the shuffles.
// topic: shuffles
// launch: grid 1, block 64
// arg x: float[50] = random
// arg sums: float[2] = zeros
// arg n: int = 50
__global__ void sums_of_warps(const float *x, float *sums, int n)
{
    const int t = threadIdx.x;

    float s = t < n ? x[t] : 0;
    for (int d = 16; d > 0; d /= 2)
        s += __shfl_down_sync(0xffffffff, s, d);
    if (t % 32 == 0)
        sums[t / 32] = s;
}
