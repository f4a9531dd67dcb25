// The last block's threads divide the partial sums among them, with a fence before and after the counter.
// launch: grid 5, block 32
// arg x: int[160] = iota
// arg partial: int[5] = zeros
// arg tickets: unsigned int[1] = zeros
// arg total: int[1] = zeros
__global__ void sum(const int *x, int *partial, unsigned *tickets, int *total)
{
    __shared__ bool last;
    int mine = __reduce_add_sync(0xffffffff, x[blockIdx.x * 32 + threadIdx.x]);

    if (threadIdx.x == 0) {
        partial[blockIdx.x] = mine;
        __threadfence();
        last = atomicAdd(tickets, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last) {
        mine = threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0;
        mine = __reduce_add_sync(0xffffffff, mine);
        if (threadIdx.x == 0) {
            *total = mine;
            *tickets = 0; // for the next launch
        }
    }
}
