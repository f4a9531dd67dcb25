// A bounds check excludes the surplus threads of the last block.
// topic: out of bounds in global memory
// launch: grid 2, block 64
// arg x: float[100] = random
// arg y: float[100] = zeros
// arg n: 100
__global__ void scale(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        y[i] = 2 * x[i];
}
