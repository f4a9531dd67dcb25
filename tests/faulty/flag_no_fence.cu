// A block sets a flag after its message, without a fence that orders the two.
// topic: fences and flags
// launch: grid 2, block 32
// arg message: int[1] = zeros
// arg flag: int[1] = zeros
// arg y: int[1] = zeros
// fault: race RAW
__global__ void send(int *message, int *flag, int *y)
{
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x == 0) {
        *message = 42; // THERE
        atomicExch(flag, 1);
    } else {
        while (atomicAdd(flag, 0) == 0)
            ;
        *y = *message; // HERE
    }
}
