// Rows of a tile are written four floats at a time and read column by column.
// launch: grid 1, block 4x16
// arg x: float[16, 16] = random
// arg y: float[16, 16] = zeros
__global__ void transpose(const float *x, float *y)
{
    __shared__ __align__(16) float tile[16][16 + 4];
    const int quad = 4 * threadIdx.x, row = threadIdx.y;

    *reinterpret_cast<float4 *>(&tile[row][quad]) = *reinterpret_cast<const float4 *>(&x[row * 16 + quad]);
    __syncthreads();
    float4 v = make_float4(tile[quad][row], tile[quad + 1][row], tile[quad + 2][row], tile[quad + 3][row]);
    reinterpret_cast<float4 *>(y)[row * 4 + threadIdx.x] = v;
}
