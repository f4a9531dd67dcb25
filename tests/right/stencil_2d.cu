// Conway's game of life on a torus: an 8 x 8 block fills a 10 x 10 tile, including halo and corners.
// launch: grid 3x2, block 8x8
// arg now: int[16, 24] = random
// arg next: int[16, 24] = zeros
// arg rows: 16
// arg columns: 24
__global__ void life(const int *now, int *next, int rows, int columns)
{
    __shared__ int s[10][10];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int top = blockIdx.y * 8, left = blockIdx.x * 8;

    for (int i = ty * 8 + tx; i < 100; i += 64) {
        const int row = (top + i / 10 - 1 + rows) % rows, column = (left + i % 10 - 1 + columns) % columns;
        s[i / 10][i % 10] = now[row * columns + column] & 1;
    }
    __syncthreads();
    int living = -s[ty + 1][tx + 1];
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 3; x++)
            living += s[ty + y][tx + x];
    next[(top + ty) * columns + left + tx] = living == 3 || (living == 2 && s[ty + 1][tx + 1]);
}
