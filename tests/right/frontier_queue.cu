// A step of a breadth-first search: an atomic marks each neighbour once, and the block's queue collects them.
// launch: grid 2, block 32
// arg frontier: int[64] = iota
// arg level: int[256] = zeros
// arg next: int[256] = zeros
// arg count: int[1] = zeros
__global__ void expand(const int *frontier, int *level, int *next, int *count)
{
    __shared__ int queue[96];
    __shared__ int queued, first;

    if (threadIdx.x == 0)
        queued = 0;
    __syncthreads();
    const int node = frontier[blockIdx.x * blockDim.x + threadIdx.x];
    for (int edge = 1; edge <= 3; edge++) {
        const int neighbour = (node * 3 + edge * edge) % 256;
        if (atomicCAS(&level[neighbour], 0, 1) == 0)
            queue[atomicAdd(&queued, 1)] = neighbour;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        first = atomicAdd(count, queued);
    __syncthreads();
    for (int i = threadIdx.x; i < queued; i += blockDim.x)
        next[first + i] = queue[i];
}
