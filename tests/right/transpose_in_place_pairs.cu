// Blocks below the diagonal do nothing; those above it swap two tiles.
// launch: grid 3x3, block 8x8
// arg m: float[24, 24] = random
__global__ void transpose_square(float *m)
{
    __shared__ float upper[8][9], lower[8][9];
    const int tx = threadIdx.x, ty = threadIdx.y, n = gridDim.x * 8;

    if (blockIdx.y > blockIdx.x)
        return;
    float *mine = m + blockIdx.y * 8 * n + blockIdx.x * 8, *mirrored = m + blockIdx.x * 8 * n + blockIdx.y * 8;
    upper[ty][tx] = mine[ty * n + tx];
    lower[ty][tx] = mirrored[ty * n + tx];
    __syncthreads();
    mine[ty * n + tx] = lower[tx][ty];
    if (mine != mirrored)
        mirrored[ty * n + tx] = upper[tx][ty];
}
