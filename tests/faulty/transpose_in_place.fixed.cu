// One thread of each pair swaps the two elements.
// topic: in place
// launch: grid 2x2, block 8x8
// arg m: float[16, 16] = random
// arg n: 16
__global__ void transpose(float *m, int n)
{
    const int column = blockIdx.x * 8 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;

    if (row < column) {
        const float above = m[row * n + column], below = m[column * n + row];
        m[row * n + column] = below;
        m[column * n + row] = above;
    }
}
