// A __syncwarp orders memory, and a shuffle exchanges registers.
// topic: warp-synchronous code
// launch: grid 1, block 32
// arg x: float[32] = random
// arg y: float[32] = zeros
__global__ void rotate_and_add(const float *x, float *y)
{
    __shared__ float s[32];
    const int lane = threadIdx.x;
    float value = x[lane];

    s[lane] = value;
    value += __shfl_down_sync(0xffffffff, value, 1);
    __syncwarp();
    y[lane] = value + s[(lane + 5) % 32];
}
