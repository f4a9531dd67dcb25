// The slot is taken with an atomic, but released with a plain store while others try to take it.
// topic: atomics and plain accesses
// launch: grid 1, block 64
// arg winners: int[64] = zeros
// fault: race
__global__ void take_turns(int *winners)
{
    __shared__ int slot;

    if (threadIdx.x == 0)
        slot = 0;
    __syncthreads();
    if (atomicCAS(&slot, 0, 1) == 0) { // HERE
        winners[threadIdx.x] = 1;
        slot = 0; // THERE
    }
}
