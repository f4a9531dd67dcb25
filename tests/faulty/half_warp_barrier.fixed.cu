// The branches end before the barrier.
// topic: divergent barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
__global__ void rotate_even(int *x)
{
    __shared__ int s[64];
    const int t = threadIdx.x;

    if (t % 2 == 0)
        s[t] = x[t];
    __syncthreads();
    if (t % 2 == 0)
        x[t] = s[(t + 2) % 64];
}
