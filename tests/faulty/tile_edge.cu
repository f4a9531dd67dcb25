// The last thread reads one element past the end of the tile.
// topic: out of bounds in shared memory
// launch: grid 2, block 64
// arg x: float[129] = random
// arg y: float[128] = zeros
// fault: out_of_bounds
__global__ void differences(const float *x, float *y)
{
    __shared__ float s[64];
    const int t = threadIdx.x, first = blockIdx.x * 64;

    s[t] = x[first + t];
    __syncthreads();
    y[first + t] = s[t + 1] - s[t]; // HERE
}
