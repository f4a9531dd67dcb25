// The output index lacks the block's index: all blocks write the same sums.
// topic: between blocks
// launch: grid 4, block 32
// arg x: int[128] = iota
// arg sums: int[4] = zeros
// fault: race WAW
__global__ void block_sums(const int *x, int *sums)
{
    __shared__ int s[32];
    const int t = threadIdx.x;

    s[t] = x[blockIdx.x * 32 + t];
    __syncthreads();
    if (t == 0) {
        int sum = 0;
        for (int i = 0; i < 32; i++)
            sum += s[i];
        sums[0] = sum; // HERE
    }
}
