// Flags are written as bytes and read as words of four; a ballot makes one word of bits per warp.
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg words: unsigned int[18] = zeros
__global__ void pack(const int *x, unsigned *words)
{
    __shared__ __align__(4) unsigned char flags[64];
    const int t = threadIdx.x;
    const bool flag = x[t] % 5 == 0;

    flags[t] = flag;
    const unsigned bits = __ballot_sync(0xffffffff, flag);
    if (t % 32 == 0)
        words[16 + t / 32] = bits;
    __syncthreads();
    if (t < 16)
        words[t] = reinterpret_cast<unsigned *>(flags)[t];
}
