// Both threads of a pair swap the same two elements.
// topic: in place
// launch: grid 2x2, block 8x8
// arg m: float[16, 16] = random
// arg n: 16
// fault: race
__global__ void transpose(float *m, int n)
{
    const int column = blockIdx.x * 8 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;

    const float above = m[row * n + column], below = m[column * n + row]; // THERE
    m[row * n + column] = below;                                          // HERE
    m[column * n + row] = above;                                          // ALSO
}
