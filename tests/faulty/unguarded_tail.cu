// The grid has more threads than the array has elements, and there is no bounds check.
// topic: out of bounds in global memory
// launch: grid 2, block 64
// arg x: float[100] = random
// arg y: float[100] = zeros
// arg n: 100
// fault: out_of_bounds
__global__ void scale(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    y[i] = 2 * x[i]; // HERE
}
