// What a block reads after its barrier, it has written itself.
// topic: between blocks
// launch: grid 2, block 64
// arg x: float[128] = random
// arg y: float[128] = zeros
// arg z: float[128] = zeros
__global__ void square_and_reverse(const float *x, float *y, float *z)
{
    const int i = blockIdx.x * 64 + threadIdx.x;

    y[i] = x[i] * x[i];
    __syncthreads();
    z[i] = y[blockIdx.x * 64 + 63 - threadIdx.x];
}
