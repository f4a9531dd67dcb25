// A tile that is not square is read with its number of rows and columns swapped.
// topic: out of bounds in shared memory
// launch: grid 1, block 32x8
// arg x: float[8, 32] = random
// arg y: float[32, 8] = zeros
// fault: out_of_bounds
__global__ void transpose(const float *x, float *y)
{
    __shared__ float tile[8][32];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 32 + tx;

    tile[ty][tx] = x[t];
    __syncthreads();
    y[tx * 8 + ty] = tile[tx][ty]; // HERE
}
