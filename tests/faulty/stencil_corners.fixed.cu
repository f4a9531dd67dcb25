// A 2-D halo is loaded including its corners.
// topic: uninitialised shared memory
// launch: grid 1, block 8x8
// arg x: float[10, 10] = random
// arg y: float[8, 8] = zeros
__global__ void box_blur(const float *x, float *y)
{
    __shared__ float s[10][10];
    const int tx = threadIdx.x, ty = threadIdx.y;

    s[ty + 1][tx + 1] = x[(ty + 1) * 10 + tx + 1];
    if (ty == 0) {
        s[0][tx + 1] = x[tx + 1];
        s[9][tx + 1] = x[90 + tx + 1];
        s[tx + 1][0] = x[(tx + 1) * 10];
        s[tx + 1][9] = x[(tx + 1) * 10 + 9];
        if (tx < 4)
            s[tx / 2 * 9][tx % 2 * 9] = x[tx / 2 * 90 + tx % 2 * 9];
    }
    __syncthreads();

    float sum = 0;
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++)
            sum += s[ty + j][tx + i];
    y[ty * 8 + tx] = sum / 9;
}
