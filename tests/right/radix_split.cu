// One bit of a radix sort: a voting barrier counts the zeros, and ballots give the positions.
// launch: grid 1, block 64
// arg keys: unsigned int[64] = iota
// arg y: unsigned int[64] = zeros
__global__ void split(const unsigned *keys, unsigned *y)
{
    __shared__ int zeros_before[2];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const unsigned key = keys[t] * 37 % 64;
    const bool zero = (key & 1) == 0;
    const unsigned votes = __ballot_sync(0xffffffff, zero);

    if (lane == 0)
        zeros_before[warp] = __popc(votes);
    const int zeros = __syncthreads_count(zero);
    int place = (warp ? zeros_before[0] : 0) + __popc(votes & ((1u << lane) - 1));
    if (!zero)
        place = zeros + t - place;
    y[place] = key;
}
