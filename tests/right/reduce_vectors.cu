// Two ints per load, shuffles within warps, and one atomic per warp.
// launch: grid 2, block 64
// arg x: int[1001] = iota
// arg sum: int[1] = zeros
// arg n: 1001
__global__ void sum_all(int *x, int *sum, int n)
{
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    int mine = 0;

    for (int i = first; i < n / 2; i += blockDim.x * gridDim.x) {
        int2 pair = reinterpret_cast<int2 *>(x)[i];
        mine += pair.x + pair.y;
    }
    if (first == 0 && n % 2 == 1)
        mine += x[n - 1];
    for (int mask = 16; mask > 0; mask >>= 1)
        mine += __shfl_xor_sync(0xffffffff, mine, mask);
    if ((threadIdx.x & (warpSize - 1)) == 0)
        atomicAdd(sum, mine);
}
