// __syncthreads between writes and reads of different warps.
// topic: missing barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
__global__ void reverse(int *x)
{
    __shared__ int s[64];
    const int t = threadIdx.x;

    s[t] = x[t];
    __syncthreads();
    x[t] = s[63 - t];
}
