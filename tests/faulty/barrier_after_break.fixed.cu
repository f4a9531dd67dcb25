// All threads leave the loop in the same iteration, when all values have converged.
// topic: divergent barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg turns: int[1] = zeros
__global__ void collatz_turns(const int *x, int *turns)
{
    __shared__ int longest;
    int value = x[threadIdx.x] + 1;

    if (threadIdx.x == 0)
        longest = 0;
    for (int turn = 0;; turn++) {
        if (!__syncthreads_or(value != 1))
            break;
        if (value != 1)
            value = value % 2 ? 3 * value + 1 : value / 2;
        if (threadIdx.x == 0)
            longest = turn + 1;
    }
    if (threadIdx.x == 0)
        *turns = longest;
}
