// Rows are `width` elements apart.
// topic: out of bounds in global memory
// launch: grid 2x2, block 8x8
// arg x: float[16, 15] = random
// arg width: 15
// arg height: 16
__global__ void scale(float *x, int width, int height)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;

    if (column < width && row < height)
        x[row * width + column] *= 2;
}
