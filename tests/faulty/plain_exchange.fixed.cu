// The slot is taken and released with atomics.
// topic: atomics and plain accesses
// launch: grid 1, block 64
// arg winners: int[64] = zeros
__global__ void take_turns(int *winners)
{
    __shared__ int slot;

    if (threadIdx.x == 0)
        slot = 0;
    __syncthreads();
    if (atomicCAS(&slot, 0, 1) == 0) {
        winners[threadIdx.x] = 1;
        atomicExch(&slot, 0);
    }
}
