// Every thread votes, whatever its own result is.
// topic: divergent barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg y: int[64] = zeros
__global__ void clear_if_any(const int *x, int *y)
{
    const int found = x[threadIdx.x] == 7;

    if (__syncthreads_or(found))
        y[threadIdx.x] = 0;
    else
        y[threadIdx.x] = x[threadIdx.x];
}
