// An element's index is its row times the width plus its column.
// topic: out of bounds in global memory
// launch: grid 1, block 16x4
// arg x: float[4, 16] = random
// arg y: float[4, 16] = zeros
// arg width: 16
__global__ void negate(const float *x, float *y, int width)
{
    const int column = threadIdx.x, row = threadIdx.y;

    const float value = x[row * width + column];
    y[row * width + column] = -value;
}
