// Each thread also clears 16 bytes of its neighbour.
// topic: missing barrier
// launch: grid 1, block 64
// arg y: int[64] = zeros
// fault: race WAW
__global__ void clear(int *y)
{
    __shared__ int s[4 * 64 + 4];
    const int t = threadIdx.x;

    memset(s + 4 * t, 0, 32); // HERE
    __syncthreads();
    y[t] = s[4 * t];
}
