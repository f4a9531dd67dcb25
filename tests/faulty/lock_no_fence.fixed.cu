// A spin lock with a fence after it is taken and before it is released.
// topic: fences and flags
// launch: grid 4, block 32
// arg balance: int[1] = zeros
// arg lock: int[1] = zeros
__global__ void deposit(int *balance, int *lock)
{
    if (threadIdx.x != 0)
        return;
    while (atomicCAS(lock, 0, 1) != 0)
        ;
    __threadfence();
    *balance += 10;
    __threadfence();
    atomicExch(lock, 0);
}
