// One buffer holds floats first and ints later; a barrier separates the two uses.
// launch: grid 2, block 64
// arg x: float[128] = random
// arg y: float[128] = zeros
__global__ void reverse_then_rank(const float *x, float *y)
{
    __shared__ union {
        float values[64];
        int ranks[64];
    } memory;
    const int t = threadIdx.x, first = blockIdx.x * 64;
    int rank = 0;

    memory.values[t] = x[first + t];
    __syncthreads();
    const float mine = memory.values[63 - t];
    for (int i = 0; i < 64; i++)
        rank += memory.values[i] < mine;
    __syncthreads();
    memory.ranks[t] = rank;
    __syncthreads();
    y[first + t] = mine + memory.ranks[63 - t];
}
