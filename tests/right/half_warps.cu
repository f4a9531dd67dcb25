// The two halves of a warp work separately, each with its own mask.
// launch: grid 1, block 32
// arg x: int[32] = iota
// arg y: int[32] = zeros
__global__ void reverse_halves(const int *x, int *y)
{
    __shared__ int s[32];
    const int lane = threadIdx.x;
    const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;

    s[lane] = x[lane];
    __syncwarp(half);
    y[lane] = s[lane ^ 15];
    __syncwarp(half);
    s[lane] = 10 * x[lane];
    __syncwarp(half);
    y[lane] += s[lane ^ 8];
}
