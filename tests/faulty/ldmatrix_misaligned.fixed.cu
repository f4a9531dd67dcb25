// The rows are padded to 32 bytes: ldmatrix needs rows at multiples of 16.
// topic: matrix instructions
// launch: grid 1, block 32
// arg x: int[32, 4] = random
// arg y: int[32, 4] = zeros
__global__ void padded_rows(const int *x, int4 *y)
{
    __shared__ int rows[32][8];
    const int t = threadIdx.x;
    const unsigned from = (unsigned)__cvta_generic_to_shared(rows[t]);
    int4 words;

    for (int i = 0; i < 4; i++)
        rows[t][i] = x[4 * t + i];
    __syncwarp();
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(from));
    y[t] = words;
}
