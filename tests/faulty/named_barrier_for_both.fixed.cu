// Each group of warps has its own named barrier.
// topic: named barriers
// launch: grid 1, block 160
// arg x: int[160] = iota
// arg y: int[160] = zeros
__global__ void reverse_two_parts(const int *x, int *y)
{
    __shared__ int s[160];
    const int t = threadIdx.x;

    s[t] = x[t];
    if (t < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        y[t] = s[63 - t];
    } else {
        asm volatile("bar.sync 2, 96;" ::: "memory");
        y[t] = s[223 - t];
    }
}
