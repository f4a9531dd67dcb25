// The branches meet at one barrier.
// topic: divergent barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg y: int[64] = zeros
__global__ void split_roles(const int *x, int *y)
{
    __shared__ int s[64];
    const int t = threadIdx.x;

    if (t < 32) {
        s[t] = x[t];
    } else {
        s[t] = 2 * x[t];
    }
    __syncthreads();
    y[t] = s[63 - t];
}
