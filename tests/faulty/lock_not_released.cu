// One exit from the critical section does not release the lock.
// topic: endless waits
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg most: int[1] = zeros
// fault: hang
__global__ void maximum(const int *x, int *most)
{
    __shared__ int lock;
    const int t = threadIdx.x;

    if (t == 0)
        lock = 0;
    __syncthreads();
    while (atomicCAS(&lock, 0, 1) != 0) // HERE
        ;
    __threadfence_block();
    if (x[t] <= *most)
        return;
    *most = x[t];
    __threadfence_block();
    atomicExch(&lock, 0);
}
