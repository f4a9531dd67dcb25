// A warp loads rows that the other warp has stored, without a barrier in between.
// topic: matrix instructions
// launch: grid 1, block 64
// arg x: int[64] = random
// arg y: int[64, 4] = zeros
// fault: race RAW
__global__ void rows_of_the_other_warp(const int4 *x, int4 *y)
{
    __shared__ int4 rows[64];
    const int t = threadIdx.x;
    const unsigned from = (unsigned)__cvta_generic_to_shared(&rows[t ^ 32]);
    int4 words;

    rows[t] = x[t / 4];                                                             // THERE
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" // HERE
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(from));
    y[t] = words;
}
