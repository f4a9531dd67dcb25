// The block meets at a barrier before a warp loads what the other one has stored.
// topic: matrix instructions
// launch: grid 1, block 64
// arg x: int[64] = random
// arg y: int[64, 4] = zeros
__global__ void rows_of_the_other_warp(const int4 *x, int4 *y)
{
    __shared__ int4 rows[64];
    const int t = threadIdx.x;
    const unsigned from = (unsigned)__cvta_generic_to_shared(&rows[t ^ 32]);
    int4 words;

    rows[t] = x[t / 4];
    __syncthreads();
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(from));
    y[t] = words;
}
