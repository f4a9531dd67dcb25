// Two pairs of warps use the same named barrier: a warp of the other pair may release a warp too early.
// topic: named barriers
// launch: grid 1, block 128
// arg x: int[128] = iota
// arg y: int[128] = zeros
// fault: race RAW barrier
__global__ void swap_in_pairs(const int *x, int *y)
{
    __shared__ int s[128];
    const int t = threadIdx.x, pair = t / 32 % 2; // warps 0 and 2, warps 1 and 3

    s[t] = x[t];                                                   // THERE
    asm volatile("bar.sync %0, %1;" ::"r"(1), "r"(64) : "memory"); // ALSO
    y[t] = s[(t + 64) % 128] + pair;                               // HERE
}
