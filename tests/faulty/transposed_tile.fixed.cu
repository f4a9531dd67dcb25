// A tile that is not square is written and read with the same shape.
// topic: out of bounds in shared memory
// launch: grid 1, block 32x8
// arg x: float[8, 32] = random
// arg y: float[32, 8] = zeros
__global__ void transpose(const float *x, float *y)
{
    __shared__ float tile[8][32];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 32 + tx;

    tile[ty][tx] = x[t];
    __syncthreads();
    y[t] = tile[t % 8][t / 8];
}
