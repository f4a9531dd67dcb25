// The tile includes the neighbour of the last thread.
// topic: out of bounds in shared memory
// launch: grid 2, block 64
// arg x: float[129] = random
// arg y: float[128] = zeros
__global__ void differences(const float *x, float *y)
{
    __shared__ float s[64 + 1];
    const int t = threadIdx.x, first = blockIdx.x * 64;

    s[t] = x[first + t];
    if (t == 0)
        s[64] = x[first + 64];
    __syncthreads();
    y[first + t] = s[t + 1] - s[t];
}
