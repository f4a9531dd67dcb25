// Stream compaction: a ballot gives each lane its position in the warp, one atomic per warp the warp's position.
// launch: grid 2, block 64
// arg x: int[128] = iota
// arg kept: int[128] = zeros
// arg count: int[1] = zeros
__global__ void keep_thirds(const int *x, int *kept, int *count)
{
    const int value = x[blockIdx.x * blockDim.x + threadIdx.x], lane = threadIdx.x % 32;
    const bool keep = value % 3 == 0;
    const unsigned votes = __ballot_sync(0xffffffff, keep);
    int base = 0;

    if (lane == 0)
        base = atomicAdd(count, __popc(votes));
    base = __shfl_sync(0xffffffff, base, 0);
    if (keep)
        kept[base + __popc(votes & ((1u << lane) - 1))] = value;
}
