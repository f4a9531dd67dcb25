// Padding against bank conflicts misaligns three of four rows for float4.
// topic: misaligned accesses
// launch: grid 1, block 8x32
// arg x: float[32, 32] = random
// arg y: float[32, 32] = zeros
// fault: misaligned
__global__ void transpose(const float *x, float *y)
{
    __shared__ __align__(16) float tile[32][32 + 1];
    const int quad = 4 * threadIdx.x, row = threadIdx.y;

    *(float4 *)&tile[row][quad] = *(const float4 *)&x[row * 32 + quad]; // HERE
    __syncthreads();
    for (int j = 0; j < 4; j++)
        y[row * 32 + quad + j] = tile[quad + j][row];
}
