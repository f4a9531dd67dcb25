// Shared memory is divided into two arrays, and the second begins where the first ends.
// topic: dynamic shared memory
// launch: grid 1, block 64, shared 512
// arg x: float[64] = random
// arg y: float[64] = zeros
__global__ void permute(const float *x, float *y)
{
    extern __shared__ float values[];
    const int t = threadIdx.x;
    int *order = (int *)&values[blockDim.x];

    values[t] = x[t];
    order[t] = blockDim.x - 1 - t;
    __syncthreads();
    y[t] = values[order[t] & 63];
}
