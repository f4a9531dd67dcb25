// The tile is one column wider than the block, for the right neighbour.
// topic: out of bounds in shared memory
// launch: grid 1, block 16x4
// arg x: float[4, 17] = random
// arg y: float[4, 16] = zeros
__global__ void gradient(const float *x, float *y)
{
    __shared__ float tile[4][17];
    const int tx = threadIdx.x, ty = threadIdx.y;

    tile[ty][tx] = x[ty * 17 + tx];
    if (tx == 0)
        tile[ty][16] = x[ty * 17 + 16];
    __syncthreads();
    y[ty * 16 + tx] = tile[ty][tx + 1] - tile[ty][tx];
}
