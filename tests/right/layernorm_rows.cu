// One row per warp: mean and variance by shuffles that give every lane the sum.
// launch: grid 2, block 32x2
// arg x: float[4, 48] = random
// arg y: float[4, 48] = zeros
// arg n: 48
__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, mask);
    return value;
}

__global__ void layernorm(const float *x, float *y, int n)
{
    const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    float sum = 0, squares = 0;

    for (int i = lane; i < n; i += 32)
        sum += x[row * n + i];
    const float mean = warp_sum(sum) / n;
    for (int i = lane; i < n; i += 32) {
        const float d = x[row * n + i] - mean;
        squares += d * d;
    }
    const float scale = rsqrtf(warp_sum(squares) / n + 1e-5f);
    for (int i = lane; i < n; i += 32)
        y[row * n + i] = (x[row * n + i] - mean) * scale;
}
