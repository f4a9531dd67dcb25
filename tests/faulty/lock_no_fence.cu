// A spin lock without fences: the next owner need not see what the last one wrote.
// topic: fences and flags
// launch: grid 4, block 32
// arg balance: int[1] = zeros
// arg lock: int[1] = zeros
// fault: race
__global__ void deposit(int *balance, int *lock)
{
    if (threadIdx.x != 0)
        return;
    while (atomicCAS(lock, 0, 1) != 0)
        ;
    *balance += 10; // HERE
    atomicExch(lock, 0);
}
