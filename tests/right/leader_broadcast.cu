// In each iteration, one thread finds a value and all threads use it, between two barriers.
// launch: grid 2, block 64
// arg x: float[3, 128] = random
// arg rows: 3
__global__ void normalise_rows(float *x, int rows)
{
    __shared__ float first;
    const int width = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;

    for (int row = 0; row < rows; row++) {
        if (threadIdx.x == 0)
            first = 1 + row;
        __syncthreads();
        x[row * width + i] /= first;
        __syncthreads();
    }
}
