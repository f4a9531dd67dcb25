// The last column reads its right neighbour past the tile's row: that is the next row's first element.
// topic: out of bounds in shared memory
// launch: grid 1, block 16x4
// arg x: float[4, 17] = random
// arg y: float[4, 16] = zeros
// fault: out_of_bounds
__global__ void gradient(const float *x, float *y)
{
    __shared__ float tile[4][16];
    const int tx = threadIdx.x, ty = threadIdx.y;

    tile[ty][tx] = x[ty * 17 + tx];
    __syncthreads();
    y[ty * 16 + tx] = tile[ty][tx + 1] - tile[ty][tx]; // HERE
}
