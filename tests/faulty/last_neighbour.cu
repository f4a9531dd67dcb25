// The guard includes the last element, which has no right neighbour.
// topic: out of bounds in global memory
// launch: grid 2, block 64
// arg x: float[128] = random
// arg y: float[128] = zeros
// arg n: 128
// fault: out_of_bounds
__global__ void forward_difference(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        y[i] = x[i + 1] - x[i]; // HERE
}
