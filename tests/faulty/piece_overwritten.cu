// The index of the next work item is stored before all threads have read that of the current one.
// topic: buffer reuse
// launch: grid 2, block 64
// arg y: int[320] = zeros
// arg next: int[1] = zeros
// fault: race
__global__ void fill(int *y, int *next)
{
    __shared__ int piece;

    for (int turn = 0; turn < 5; turn++) {
        if (threadIdx.x == 0)
            piece = atomicAdd(next, 1); // HERE
        __syncthreads();
        const int mine = piece; // THERE
        if (mine < 5)
            y[mine * 64 + threadIdx.x] = turn;
    }
}
