// The sum is read through the read-only cache, which does not see that this kernel writes it.
// topic: non-coherent loads
// launch: grid 2, block 64
// arg x: float[130] = random
// fault: race RAW
// each block sums its part, then all threads add the sum to their elements
__global__ void add_block_sum(float *x)
{
    const int t = threadIdx.x;

    if (t == 0) {
        float sum = 0;
        for (int i = 0; i < 64; i++)
            sum += x[64 * blockIdx.x + i];
        x[128 + blockIdx.x] = sum; // THERE
    }
    __syncthreads();
    x[64 * blockIdx.x + t] += __ldg(&x[128 + blockIdx.x]); // HERE
}
