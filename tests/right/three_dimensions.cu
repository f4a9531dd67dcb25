// Three-dimensional blocks, grids and arrays; planes are exchanged through shared memory.
// launch: grid 2x1x2, block 4x4x4
// arg x: float[8, 4, 8] = random
// arg y: float[8, 4, 8] = zeros
__global__ void mirror_planes(const float *x, float *y)
{
    __shared__ float s[4][4][4];
    const int column = blockIdx.x * 4 + threadIdx.x, row = threadIdx.y, plane = blockIdx.z * 4 + threadIdx.z;

    s[threadIdx.z][threadIdx.y][threadIdx.x] = x[(plane * 4 + row) * 8 + column];
    __syncthreads();
    y[(plane * 4 + row) * 8 + column] = s[3 - threadIdx.z][threadIdx.x][threadIdx.y];
}
