// Each block writes its own elements, and the last block also the final one.
// topic: between blocks
// launch: grid 2, block 64
// arg x: float[129] = random
// arg y: float[129] = zeros
__global__ void copy_with_end(const float *x, float *y)
{
    const int t = threadIdx.x, first = blockIdx.x * 64;

    y[first + t] = x[first + t];
    if (t == 0 && blockIdx.x == gridDim.x - 1)
        y[first + 64] = x[first + 64];
}
