// Lanes read what the leader wrote before a __syncwarp.
// topic: warp-synchronous code
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg y: int[64] = zeros
__global__ void offset_by_votes(const int *x, int *y)
{
    __shared__ int base[2];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    if (lane == 0)
        base[warp] = 100 * x[threadIdx.x];
    const unsigned odd = __ballot_sync(0xffffffff, x[threadIdx.x] & 1);
    __syncwarp();
    y[threadIdx.x] = base[warp] + __popc(odd);
}
