// Even and odd threads of a pair write the two halves of one word.
// launch: grid 1, block 32
// arg x: int[32] = iota
// arg y: int[16] = zeros
__global__ void pair_up(const int *x, int *y)
{
    __shared__ __align__(4) short s[32];

    s[threadIdx.x] = (short)(3 * x[threadIdx.x]);
    __syncwarp();
    if (threadIdx.x < 16) {
        const short2 two = reinterpret_cast<short2 *>(s)[threadIdx.x];
        y[threadIdx.x] = two.x * 1000 + two.y;
    }
}
