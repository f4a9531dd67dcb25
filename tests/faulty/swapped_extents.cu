// Row and column are swapped in the index, which is wrong for a matrix that is not square.
// topic: out of bounds in global memory
// launch: grid 1, block 16x4
// arg x: float[4, 16] = random
// arg y: float[4, 16] = zeros
// arg width: 16
// fault: out_of_bounds
__global__ void negate(const float *x, float *y, int width)
{
    const int column = threadIdx.x, row = threadIdx.y;

    const float value = x[column * width + row]; // HERE
    y[row * width + column] = -value;
}
