// A bitonic sort of a block's keys, with a barrier after each step.
// launch: grid 2, block 128
// arg keys: int[256] = random
__global__ void bitonic_sort(int *keys)
{
    __shared__ int s[128];
    const unsigned t = threadIdx.x;

    s[t] = keys[blockIdx.x * 128 + t];
    __syncthreads();
    for (unsigned k = 2; k <= 128; k <<= 1) {
        for (unsigned j = k >> 1; j > 0; j >>= 1) {
            const unsigned partner = t ^ j;
            if (partner > t && (s[t] > s[partner]) == ((t & k) == 0)) {
                const int kept = s[t];
                s[t] = s[partner];
                s[partner] = kept;
            }
            __syncthreads();
        }
    }
    keys[blockIdx.x * 128 + t] = s[t];
}
