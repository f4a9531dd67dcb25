// Lanes with the same key find each other by a match; the lowest of them counts for all.
// launch: grid 1, block 64
// arg keys: int[64] = iota
// arg histogram: int[8] = zeros
__global__ void count(const int *keys, int *histogram)
{
    const int key = keys[threadIdx.x] * 5 % 8, lane = threadIdx.x & 31;
    const unsigned peers = __match_any_sync(0xffffffff, key);

    if (__ffs(peers) - 1 == lane)
        atomicAdd(&histogram[key], __popc(peers));
}
