// The number of bytes before the floats is rounded up to a multiple of four.
// topic: misaligned accesses
// launch: grid 1, block 30, shared 160
// arg x: float[30] = random
// arg y: float[30] = zeros
__global__ void positive_mirror(const float *x, float *y)
{
    extern __shared__ __align__(16) char flags[];
    float *values = (float *)(flags + (blockDim.x + 3) / 4 * 4);
    const int t = threadIdx.x, mirror = blockDim.x - 1 - t;

    flags[t] = x[t] > 0.5f;
    values[t] = x[t];
    __syncthreads();
    y[t] = flags[mirror] ? values[mirror] : 0;
}
