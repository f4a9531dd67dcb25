// A voting barrier after || is skipped by threads for which the left operand is true.
// topic: divergent barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg y: int[64] = zeros
// fault: barrier
__global__ void clear_if_any(const int *x, int *y)
{
    const int found = x[threadIdx.x] == 7;

    if (found || __syncthreads_or(found)) // HERE
        y[threadIdx.x] = 0;
    else
        y[threadIdx.x] = x[threadIdx.x];
}
