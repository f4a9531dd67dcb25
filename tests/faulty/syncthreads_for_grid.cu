// __syncthreads is used as a grid-wide barrier: the other block may not have written yet.
// topic: between blocks
// launch: grid 2, block 64
// arg x: float[128] = random
// arg y: float[128] = zeros
// arg z: float[128] = zeros
// fault: race RAW
__global__ void square_and_reverse(const float *x, float *y, float *z)
{
    const int i = blockIdx.x * 64 + threadIdx.x;

    y[i] = x[i] * x[i]; // THERE
    __syncthreads();
    z[i] = y[127 - i]; // HERE
}
