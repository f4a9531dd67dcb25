// Each thread clears its own 16 bytes.
// topic: missing barrier
// launch: grid 1, block 64
// arg y: int[64] = zeros
__global__ void clear(int *y)
{
    __shared__ int s[4 * 64 + 4];
    const int t = threadIdx.x;

    memset(s + 4 * t, 0, 16);
    __syncthreads();
    y[t] = s[4 * t];
}
