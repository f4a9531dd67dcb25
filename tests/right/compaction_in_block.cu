// Stream compaction: kept elements are gathered in shared memory, so that each block needs one global atomic.
// launch: grid 3, block 64
// arg x: int[192] = iota
// arg kept: int[192] = zeros
// arg count: int[1] = zeros
__global__ void keep_odd(const int *x, int *kept, int *count)
{
    __shared__ int gathered[64];
    __shared__ int n, base;
    const int t = threadIdx.x, value = x[blockIdx.x * 64 + t];

    if (t == 0)
        n = 0;
    __syncthreads();
    if (value & 1)
        gathered[atomicAdd(&n, 1)] = value;
    __syncthreads();
    if (t == 0)
        base = atomicAdd(count, n);
    __syncthreads();
    if (t < n)
        kept[base + t] = gathered[t];
}
