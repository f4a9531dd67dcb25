// Two groups of warps, of two and of three warps, use one named barrier.
// topic: named barriers
// launch: grid 1, block 160
// arg x: int[160] = iota
// arg y: int[160] = zeros
// fault: barrier
__global__ void reverse_two_parts(const int *x, int *y)
{
    __shared__ int s[160];
    const int t = threadIdx.x;

    s[t] = x[t];
    if (t < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory"); // THERE
        y[t] = s[63 - t];
    } else {
        asm volatile("bar.sync 1, 96;" ::: "memory"); // HERE
        y[t] = s[223 - t];
    }
}
