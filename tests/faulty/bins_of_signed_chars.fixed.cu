// Bytes are read as unsigned chars.
// topic: out of bounds in shared memory
// launch: grid 1, block 64
// arg x: unsigned char[256] = iota
// arg histogram: int[256] = zeros
__global__ void count(const unsigned char *x, int *histogram)
{
    __shared__ int bins[256];

    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        bins[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
        const unsigned char byte = x[i];
        atomicAdd(&bins[byte], 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        histogram[i] = bins[i];
}
