// Fences order the message and the flag that announces it.
// topic: fences and flags
// launch: grid 2, block 32
// arg message: int[1] = zeros
// arg flag: int[1] = zeros
// arg y: int[1] = zeros
__global__ void send(int *message, int *flag, int *y)
{
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x == 0) {
        *message = 42;
        __threadfence();
        atomicExch(flag, 1);
    } else {
        while (atomicAdd(flag, 0) == 0)
            ;
        __threadfence();
        *y = *message;
    }
}
