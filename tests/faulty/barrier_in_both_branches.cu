// Each branch has its own barrier: the threads wait for each other at two different lines.
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
