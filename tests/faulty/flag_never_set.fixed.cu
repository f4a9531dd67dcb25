// Block 1 waits for a flag that block 0 sets.
// topic: endless waits
// launch: grid 2, block 32
// arg x: int[32] = iota
// arg flag: int[1] = zeros
__global__ void wait_for_sum(const int *x, int *flag)
{
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < 32; i++)
            sum += x[i];
        if (sum > 0)
            atomicExch(flag, 1);
    } else {
        while (atomicAdd(flag, 0) == 0)
            ;
    }
}
