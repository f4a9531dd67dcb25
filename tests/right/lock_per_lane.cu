// Every lane of a warp takes the lock in turn: the same branch takes and releases it.
// launch: grid 2, block 48
// arg order: int[97] = zeros
// arg mutex: int[1] = zeros
__global__ void queue_up(int *order, int *mutex)
{
    bool done = false;

    while (!done) {
        if (atomicCAS(mutex, 0, 1) == 0) {
            __threadfence();
            order[1 + order[0]++] = blockIdx.x * blockDim.x + threadIdx.x;
            __threadfence();
            atomicExch(mutex, 0);
            done = true;
        }
    }
}
