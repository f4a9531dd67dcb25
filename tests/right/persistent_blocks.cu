// Blocks take work items from a counter until none is left; the item's index goes through shared memory.
// launch: grid 2, block 32
// arg x: int[320] = iota
// arg y: int[320] = zeros
// arg next: int[1] = zeros
// arg pieces: 10
__global__ void squares(const int *x, int *y, int *next, int pieces)
{
    __shared__ int piece;

    while (true) {
        if (threadIdx.x == 0)
            piece = atomicAdd(next, 1);
        __syncthreads();
        const int mine = piece;
        __syncthreads(); // all threads have read it before it is overwritten
        if (mine >= pieces)
            return;
        y[mine * 32 + threadIdx.x] = x[mine * 32 + threadIdx.x] * x[mine * 32 + threadIdx.x];
    }
}
