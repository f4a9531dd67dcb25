// A barrier in a branch that splits every warp.
// topic: divergent barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
// fault: barrier
__global__ void rotate_even(int *x)
{
    __shared__ int s[64];
    const int t = threadIdx.x;

    if (t % 2 == 0) {
        s[t] = x[t];
        __syncthreads(); // HERE
        x[t] = s[(t + 2) % 64];
    }
}
