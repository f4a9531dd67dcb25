// C = A @ B^T of halves: three stages of asynchronous copies, an XOR swizzle, ldmatrix, and mma.
// launch: grid 2, block 128
// arg a: half[64, 64] = random
// arg b: half[64, 64] = random
// arg c: float[64, 64] = zeros
#include <cuda_fp16.h>

constexpr int K = 64, STEP = 32, STAGES = 3, ROWS = 64, COLUMNS = 32;

// the 16-byte chunk c of row r is stored at c ^ (r / 2 % 4): rows of 64 bytes have no bank conflicts
static __device__ unsigned chunk_address(const uint4 *tile, int row, int chunk)
{
    return (unsigned)__cvta_generic_to_shared(&tile[row * 4 + (chunk ^ row / 2 % 4)]);
}

static __device__ void load(uint4 *a_tile, uint4 *b_tile, const half *a, const half *b, int step)
{
    for (int i = threadIdx.x; i < ROWS * 4; i += 128)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(chunk_address(a_tile, i / 4, i % 4)),
                     "l"(&a[i / 4 * K + step * STEP + i % 4 * 8]));
    for (int i = threadIdx.x; i < COLUMNS * 4; i += 128)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(chunk_address(b_tile, i / 4, i % 4)),
                     "l"(&b[i / 4 * K + step * STEP + i % 4 * 8]));
}

// a warp has 16 rows and all 32 columns of the block
__global__ void matmul(const half *a, const half *b, float *c)
{
    __shared__ uint4 a_tile[STAGES][ROWS * 4], b_tile[STAGES][COLUMNS * 4];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, column = blockIdx.x * COLUMNS;
    float sum[4][4] = {};

    for (int step = 0; step < STAGES - 1; step++) {
        if (step < K / STEP)
            load(a_tile[step], b_tile[step], a, b + column * K, step);
        asm volatile("cp.async.commit_group;");
    }
    for (int step = 0; step < K / STEP; step++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads(); // the stage is complete, and all have read the one that is filled next
        if (step + STAGES - 1 < K / STEP)
            load(a_tile[(step + STAGES - 1) % STAGES], b_tile[(step + STAGES - 1) % STAGES], a, b + column * K,
                 step + STAGES - 1);
        asm volatile("cp.async.commit_group;");
        for (int k = 0; k < STEP / 16; k++) {
            const int stage = step % STAGES;
            unsigned x[4], y[2];

            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                         : "r"(chunk_address(a_tile[stage], 16 * warp + lane % 16, 2 * k + lane / 16)));
            for (int n = 0; n < 4; n++) {
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                             : "=r"(y[0]), "=r"(y[1])
                             : "r"(chunk_address(b_tile[stage], 8 * n + lane % 8, 2 * k + lane / 8 % 2)));
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                             "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3])
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
            }
        }
    }
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < 4; i++)
            c[(16 * warp + lane / 4 + i / 2 * 8) * ROWS + column + 8 * n + 2 * (lane % 4) + i % 2] = sum[n][i];
}
