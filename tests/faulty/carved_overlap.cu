// Shared memory is divided into two arrays, and the second begins inside the first.
// topic: dynamic shared memory
// launch: grid 1, block 64, shared 512
// arg x: float[64] = random
// arg y: float[64] = zeros
// fault: race WAW
__global__ void permute(const float *x, float *y)
{
    extern __shared__ float values[];
    const int t = threadIdx.x;
    int *order = (int *)&values[blockDim.x / 2];

    values[t] = x[t];              // THERE
    order[t] = blockDim.x - 1 - t; // HERE
    __syncthreads();
    y[t] = values[order[t] & 63];
}
