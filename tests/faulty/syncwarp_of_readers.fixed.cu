// All lanes take part in the __syncwarp, those that wrote and those that read.
// topic: warp-synchronous code
// launch: grid 1, block 32
// arg x: float[32] = random
// arg y: float[16] = zeros
__global__ void fold(const float *x, float *y)
{
    __shared__ float s[32];
    const int lane = threadIdx.x;

    s[lane] = x[lane];
    __syncwarp();
    if (lane < 16) {
        y[lane] = s[lane] + s[lane + 16];
    }
}
