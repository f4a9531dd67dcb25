// The named barrier is given the threads of all warps that arrive at it.
// topic: named barriers
// launch: grid 1, block 64
// arg x: int[48] = iota
// arg y: int[48] = zeros
__global__ void reverse(const int *x, int *y)
{
    __shared__ int s[48];
    const int t = threadIdx.x;

    if (t < 48)
        s[t] = x[t];
    asm volatile("bar.sync 1, 64;" ::: "memory");
    if (t < 48)
        y[t] = s[47 - t];
}
