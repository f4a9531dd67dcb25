// Threads past the end return before the others shuffle.
// topic: shuffles
// launch: grid 1, block 64
// arg x: float[50] = random
// arg sums: float[2] = zeros
// arg n: int = 50
// fault: shuffle
__global__ void sums_of_warps(const float *x, float *sums, int n)
{
    const int t = threadIdx.x;

    if (t >= n)
        return;
    float s = x[t];
    for (int d = 16; d > 0; d /= 2)
        s += __shfl_down_sync(0xffffffff, s, d); // HERE
    if (t % 32 == 0)
        sums[t / 32] = s;
}
