// Each branch has a barrier of its own: the threads wait at two places for each other.
// topic: divergent barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg y: int[64] = zeros
// fault: barrier
__global__ void split_roles(const int *x, int *y)
{
    __shared__ int s[64];
    const int t = threadIdx.x;

    if (t < 32) {
        s[t] = x[t];
        __syncthreads(); // HERE
    } else {
        s[t] = 2 * x[t];
        __syncthreads(); // THERE
    }
    y[t] = s[63 - t];
}
