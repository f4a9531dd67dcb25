// The named barrier of two warps expects three.
// topic: named barriers
// launch: grid 1, block 96
// arg x: int[96] = iota
// arg y: int[96] = zeros
// fault: barrier
__global__ void reverse_first_two_warps(const int *x, int *y)
{
    __shared__ int s[64];
    const int t = threadIdx.x;

    if (t < 64) {
        s[t] = x[t];
        asm volatile("bar.sync 1, 96;" ::: "memory"); // HERE
        y[t] = s[63 - t];
    } else {
        y[t] = x[t];
    }
}
