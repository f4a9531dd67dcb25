// Only the lanes that read take part in the __syncwarp; those that wrote do not.
// topic: warp-synchronous code
// launch: grid 1, block 32
// arg x: float[32] = random
// arg y: float[16] = zeros
// fault: race RAW warp-synchronous
__global__ void fold(const float *x, float *y)
{
    __shared__ float s[32];
    const int lane = threadIdx.x;

    s[lane] = x[lane]; // THERE
    if (lane < 16) {
        __syncwarp(0x0000ffff);
        y[lane] = s[lane] + s[lane + 16]; // HERE
    }
}
