// Odd and even pairs of neighbours are swapped alternately; the sort ends when a voting barrier counts no swap.
// launch: grid 1, block 32
// arg keys: int[64] = random
// arg rounds: int[1] = zeros
__global__ void odd_even_sort(int *keys, int *rounds)
{
    __shared__ int s[64];
    const int t = threadIdx.x;
    int turns = 0, exchanged = 1;

    s[t] = keys[t];
    s[t + 32] = keys[t + 32];
    __syncthreads();
    while (exchanged) {
        exchanged = 0;
        for (int odd = 0; odd < 2; odd++) {
            const int left = 2 * t + odd;
            if (left + 1 < 64 && s[left] > s[left + 1]) {
                const int kept = s[left];
                s[left] = s[left + 1];
                s[left + 1] = kept;
                exchanged = 1;
            }
            __syncthreads();
        }
        exchanged = __syncthreads_count(exchanged);
        turns++;
    }
    keys[t] = s[t];
    keys[t + 32] = s[t + 32];
    if (t == 0)
        *rounds = turns;
}
