// C = A @ B^T and its transpose, of halves: mma's fragments leave through shared memory by stmatrix, which also
// transposes, and from there in rows of 16 bytes per thread.
// launch: grid 2, block 128
// arg a: half[64, 32] = random
// arg b: half[64, 32] = random
// arg c: half[64, 64] = zeros
// arg c_transposed: half[64, 64] = zeros
#include <cuda_fp16.h>

constexpr int K = 32, N = 64, ROWS = 64, COLUMNS = 32;

static __device__ unsigned shared_address(const void *pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

static __device__ unsigned pack(float first, float second)
{
    const half2 both = __floats2half2_rn(first, second);
    return reinterpret_cast<const unsigned &>(both);
}

// a warp has 16 rows and all 32 columns of the block
__global__ void matmul(const half *a, const half *b, half *c, half *c_transposed)
{
    // the 16-byte chunk h of row r is at h ^ (r / 2 % 4) in rows of four, at h ^ (r % 8) in rows of eight
    __shared__ uint4 tile[ROWS][COLUMNS / 8], transposed[COLUMNS][ROWS / 8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4 * 2;
    const int first = blockIdx.x * COLUMNS;
    unsigned x[K / 16][4], words[COLUMNS / 8][2]; // of A; of C's 8 x 8 matrices, of the upper 8 rows and the lower

    for (int k = 0; k < K / 16; k++)
        for (int i = 0; i < 4; i++)
            x[k][i] = *(const unsigned *)&a[(16 * warp + row + i % 2 * 8) * K + 16 * k + pair + i / 2 * 8];
    for (int n = 0; n < COLUMNS / 8; n++) {
        float sum[4] = {};
        for (int k = 0; k < K / 16; k++) {
            const unsigned *y = (const unsigned *)&b[(first + 8 * n + row) * K + 16 * k + pair];
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                         "{%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                         : "r"(x[k][0]), "r"(x[k][1]), "r"(x[k][2]), "r"(x[k][3]), "r"(y[0]), "r"(y[4]));
        }
        words[n][0] = pack(sum[0], sum[1]);
        words[n][1] = pack(sum[2], sum[3]);
    }
    for (int n = 0; n < COLUMNS / 8; n += 2) { // lane l has row l % 8 of the matrix l / 8
        const int r = 16 * warp + lane % 16, h = n + lane / 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         shared_address(&tile[r][h ^ r / 2 % 4])),
                     "r"(words[n][0]), "r"(words[n][1]), "r"(words[n + 1][0]), "r"(words[n + 1][1])
                     : "memory");
    }
    for (int n = 0; n < COLUMNS / 8; n++) {
        const int r = 8 * n + lane % 8, h = 2 * warp + lane / 8 % 2;
        asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
                         shared_address(&transposed[r][h ^ r % 8])),
                     "r"(words[n][0]), "r"(words[n][1])
                     : "memory");
    }
    __syncthreads();
    for (int i = threadIdx.x; i < ROWS * COLUMNS / 8; i += blockDim.x) {
        const int r = i / 4, h = i % 4;
        *(uint4 *)&c[r * N + first + 8 * h] = tile[r][h ^ r / 2 % 4];
    }
    for (int i = threadIdx.x; i < COLUMNS * ROWS / 8; i += blockDim.x) {
        const int r = i / 8, h = i % 8;
        *(uint4 *)&c_transposed[(first + r) * N + 8 * h] = transposed[r][h ^ r % 8];
    }
}
