// A row is filled through a pointer, up to its end.
// topic: out of bounds in shared memory
// launch: grid 1, block 64
// arg y: float[64] = zeros
__device__ void fill(float *row, int n, float value)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        row[i] = value;
}

__global__ void two_rows(float *y)
{
    __shared__ float first[48];
    __shared__ float second[64];

    fill(second, 64, 2.0f);
    __syncthreads();
    fill(first, 48, 1.0f);
    __syncthreads();
    y[threadIdx.x] = first[threadIdx.x % 48] + second[threadIdx.x];
}
