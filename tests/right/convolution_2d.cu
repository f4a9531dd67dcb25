// A 2-D convolution: the block is as large as the tile with its halo, and only the inner threads compute.
// launch: grid 3x2, block 8x8
// arg in: float[11, 16] = random
// arg out: float[11, 16] = zeros
// arg width: 16
// arg height: 11
#define FILTER_RADIUS 1
#define IN_TILE_DIM   8
#define OUT_TILE_DIM  (IN_TILE_DIM - 2 * FILTER_RADIUS)
__constant__ float F_c[3][3] = {{1, 2, 1}, {2, 4, 2}, {1, 2, 1}};

__global__ void convolve(float *in, float *out, int width, int height)
{
    int col = blockIdx.x * OUT_TILE_DIM + threadIdx.x - FILTER_RADIUS;
    int row = blockIdx.y * OUT_TILE_DIM + threadIdx.y - FILTER_RADIUS;
    __shared__ float in_s[IN_TILE_DIM][IN_TILE_DIM];

    if (row >= 0 && row < height && col >= 0 && col < width)
        in_s[threadIdx.y][threadIdx.x] = in[row * width + col];
    else
        in_s[threadIdx.y][threadIdx.x] = 0.0f;
    __syncthreads();
    int tileCol = threadIdx.x - FILTER_RADIUS, tileRow = threadIdx.y - FILTER_RADIUS;
    if (row >= 0 && row < height && col >= 0 && col < width)
        if (tileCol >= 0 && tileCol < OUT_TILE_DIM && tileRow >= 0 && tileRow < OUT_TILE_DIM) {
            float sum = 0.0f;
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++)
                    sum += F_c[i][j] * in_s[tileRow + i][tileCol + j];
            out[row * width + col] = sum;
        }
}
