// A thread whose value has converged breaks out of the loop, and the others wait at the loop's barrier.
// topic: divergent barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg turns: int[1] = zeros
// fault: barrier
__global__ void collatz_turns(const int *x, int *turns)
{
    __shared__ int longest;
    int value = x[threadIdx.x] + 1;

    if (threadIdx.x == 0)
        longest = 0;
    for (int turn = 0;; turn++) {
        if (value == 1)
            break;
        value = value % 2 ? 3 * value + 1 : value / 2;
        __syncthreads(); // HERE
        if (threadIdx.x == 0)
            longest = turn + 1;
    }
    if (threadIdx.x == 0)
        *turns = longest;
}
