// The integer mean of an empty group divides by zero.
// topic: traps
// launch: grid 1, block 32
// arg sums: int[32] = iota
// arg counts: int[32] = iota
// arg means: int[32] = zeros
// fault: trap
__global__ void group_means(const int *sums, const int *counts, int *means)
{
    const int group = threadIdx.x;

    means[group] = sums[group] / counts[group]; // HERE
}
