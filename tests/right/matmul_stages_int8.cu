// C = A @ B^T of bytes: three stages of asynchronous copies, an XOR swizzle, ldmatrix, and mma.
// launch: grid 2x2, block 128
// arg a: int8[128, 512] = random
// arg b: int8[64, 512] = random
// arg c: int[128, 64] = zeros
// arg steps: 4
#include <cstdint>

constexpr int STAGES = 3, ROWS = 64, COLUMNS = 32, CHUNKS = 8; // a step is 8 chunks of 16 bytes, 16 elements each

// the chunk c of row r is stored at c ^ (r % 8): eight rows of one chunk lie in different banks
static __device__ unsigned chunk_address(const uint4 *tile, int row, int chunk)
{
    return (unsigned)__cvta_generic_to_shared(&tile[row * CHUNKS + (chunk ^ row % 8)]);
}

static __device__ void load(uint4 *tile, int rows, const uint4 *matrix, int pitch, int step)
{
    for (int i = threadIdx.x; i < rows * CHUNKS; i += blockDim.x) {
        const int row = i / CHUNKS, chunk = i % CHUNKS;

        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(chunk_address(tile, row, chunk)),
                     "l"(&matrix[row * pitch + step * CHUNKS + chunk])
                     : "memory");
    }
}

static __device__ void multiply(int *sum, const unsigned *x, const unsigned *y)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}

// a warp has 16 rows and all 32 columns of its block
__global__ void matmul(const int8_t *a, const int8_t *b, int *c, int steps)
{
    __shared__ uint4 a_tile[STAGES][ROWS * CHUNKS], b_tile[STAGES][COLUMNS * CHUNKS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pitch = steps * CHUNKS;
    const int row = blockIdx.y * ROWS, column = blockIdx.x * COLUMNS, width = gridDim.x * COLUMNS;
    const uint4 *a_rows = (const uint4 *)a + row * pitch, *b_rows = (const uint4 *)b + column * pitch;
    int sum[4][4] = {};

    for (int step = 0; step < STAGES - 1; step++) {
        if (step < steps) {
            load(a_tile[step], ROWS, a_rows, pitch, step);
            load(b_tile[step], COLUMNS, b_rows, pitch, step);
        }
        asm volatile("cp.async.commit_group;");
    }
    for (int step = 0; step < steps; step++) {
        const int stage = step % STAGES, next = step + STAGES - 1;

        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads(); // the stage is complete, and all have read the one that is filled next
        if (next < steps) {
            load(a_tile[next % STAGES], ROWS, a_rows, pitch, next);
            load(b_tile[next % STAGES], COLUMNS, b_rows, pitch, next);
        }
        asm volatile("cp.async.commit_group;");
        for (int k = 0; k < CHUNKS; k += 2) {
            unsigned x[4], y[2];

            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                         : "r"(chunk_address(a_tile[stage], 16 * warp + lane % 16, k + lane / 16))
                         : "memory");
            for (int n = 0; n < 4; n++) {
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                             : "=r"(y[0]), "=r"(y[1])
                             : "r"(chunk_address(b_tile[stage], 8 * n + lane % 8, k + lane / 8 % 2))
                             : "memory");
                multiply(sum[n], x, y);
            }
        }
    }
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < 4; i++)
            c[(row + 16 * warp + lane / 4 + i / 2 * 8) * width + column + 8 * n + 2 * (lane % 4) + i % 2] =
                sum[n][i];
}
