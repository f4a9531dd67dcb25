// A loop over a warp's own 32 slots, with a __syncwarp between its steps.
// topic: warp-synchronous code
// launch: grid 1, block 32
// arg x: int[32] = iota
// arg sum: int[1] = zeros
__global__ void warp_sum(const int *x, int *sum)
{
    __shared__ int s[32];
    const int lane = threadIdx.x;

    s[lane] = x[lane];
    __syncwarp();
    for (int stride = 16; stride > 0; stride /= 2) {
        if (lane < stride)
            s[lane] += s[lane + stride];
        __syncwarp();
    }
    if (lane == 0)
        *sum = s[0];
}
