// One thread per block adds to a plain sum under a lock, with fences inside.
// launch: grid 8, block 32
// arg x: int[256] = iota
// arg total: int[1] = zeros
// arg mutex: int[1] = zeros
__global__ void locked_sum(const int *x, int *total, int *mutex)
{
    const int sum = __reduce_add_sync(0xffffffff, x[blockIdx.x * 32 + threadIdx.x]);

    if (threadIdx.x == 0) {
        while (atomicCAS(mutex, 0, 1) != 0)
            ;
        __threadfence();
        *total += sum;
        __threadfence();
        atomicExch(mutex, 0);
    }
}
