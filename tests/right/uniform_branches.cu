// Barriers in branches that the whole block takes together.
// launch: grid 3, block 32
// arg y: int[96] = zeros
__global__ void by_block(int *y)
{
    __shared__ int s[32];
    const int t = threadIdx.x;

    if (blockIdx.x == 1)
        return;
    if (blockIdx.x == 0) {
        s[t] = t;
        __syncthreads();
    } else {
        s[t] = -t;
        __syncthreads();
        s[t] *= 2;
        __syncthreads();
    }
    y[blockIdx.x * 32 + t] = s[31 - t];
}
