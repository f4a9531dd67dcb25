// A bitonic sort with a barrier after each step.
// topic: missing barrier
// launch: grid 1, block 128
// arg keys: int[128] = random
__global__ void bitonic_sort(int *keys)
{
    __shared__ int s[128];
    const int t = threadIdx.x;

    s[t] = keys[t];
    __syncthreads();
    for (int size = 2; size <= 128; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            const int partner = t ^ stride;
            if (partner > t) {
                const int mine = s[t], other = s[partner];
                if ((mine > other) == ((t & size) == 0)) {
                    s[t] = other;
                    s[partner] = mine;
                }
            }
            __syncthreads();
        }
    }
    keys[t] = s[t];
}
