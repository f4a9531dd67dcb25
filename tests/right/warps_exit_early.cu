// Whole warps return; the remaining ones use __syncwarp, but no barrier of the block.
// launch: grid 2, block 128
// arg x: float[2, 128] = random
// arg y: float[2, 128] = zeros
// arg warps: 3
__global__ void reverse_in_warps(const float *x, float *y, int warps)
{
    __shared__ float s[128];
    const int t = threadIdx.x, lane = t % 32;

    if (t / 32 >= warps)
        return;
    s[t] = x[blockIdx.x * 128 + t];
    __syncwarp();
    y[blockIdx.x * 128 + t] = s[t - lane + 31 - lane];
}
