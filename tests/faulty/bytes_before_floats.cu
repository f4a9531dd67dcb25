// Shared memory is divided into bytes and floats; the number of bytes is not a multiple of four.
// topic: misaligned accesses
// launch: grid 1, block 30, shared 160
// arg x: float[30] = random
// arg y: float[30] = zeros
// fault: misaligned
__global__ void positive_mirror(const float *x, float *y)
{
    extern __shared__ __align__(16) char flags[];
    float *values = (float *)(flags + blockDim.x);
    const int t = threadIdx.x, mirror = blockDim.x - 1 - t;

    flags[t] = x[t] > 0.5f;
    values[t] = x[t]; // HERE
    __syncthreads();
    y[t] = flags[mirror] ? values[mirror] : 0; // ALSO
}
