// The grid's width is used as the row pitch, but the matrix is narrower: the last rows are past its end.
// topic: out of bounds in global memory
// launch: grid 2x2, block 8x8
// arg x: float[16, 15] = random
// arg width: 15
// arg height: 16
// fault: out_of_bounds
__global__ void scale(float *x, int width, int height)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;

    if (column < width && row < height)
        x[row * (gridDim.x * blockDim.x) + column] *= 2; // HERE
}
