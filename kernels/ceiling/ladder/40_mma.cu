// Multiplies on the tensor cores: the ceiling of every matmul in float16, bfloat16 and TF32.
//
// The idea: a block repeatedly adds the product of the same two tiles to its accumulators. Operands stay in shared
// memory and accumulators in registers, so that only the tensor cores limit the speed. On Hopper only the
// warpgroup's instruction, wgmma, reaches their peak; elsewhere it is the warp's, mma.sync.
// Operands should be random: zeros need less power, so that the clock stays higher.
// Launch: `blocks` of 256 threads; a round is (128, K) @ (256, K)^T, where K elements are 128 bytes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../../common/ptx/mma.cuh"
#include "../../common/ptx/wgmma.cuh"
#include "kernels.h"

constexpr int M = CEILING_M, N = CEILING_N, ROW = 128, PIECES = ROW / 16, STEPS = ROW / 32;
static_assert(M == 2 * 64 && N == 256 && CEILING_BLOCK == 256, "two groups of four warps");

struct tiles {
    uint4 a[M][PIECES], b[N][PIECES];
};

// x: the rows of a, then those of b; chunk c of row r is stored at c ^ r % 8, see wgmma.cuh
static __device__ void load(tiles &shared, const uint4 *x)
{
    for (int i = threadIdx.x; i < (M + N) * PIECES; i += CEILING_BLOCK) {
        const int row = i / PIECES, piece = i % PIECES ^ row % 8;

        (row < M ? shared.a[row] : shared.b[row - M])[piece] = x[i];
    }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// a warpgroup has 64 rows
template <class T>
static __device__ void multiply(const tiles &shared, float *out, int64_t rounds)
{
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const uint64_t a = ptx::wgmma_descriptor(shared.a[64 * group]), b = ptx::wgmma_descriptor(shared.b);
    float sums[128] = {};

    ptx::fence_proxy_async();
    __syncthreads(); // the tensor cores may read what all threads have stored
    for (int64_t round = 0; round < rounds; round++) {
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < STEPS; step++)
            ptx::wgmma_mma_async(sums, a + 2 * step, b + 2 * step, T()); // 32 bytes on
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<1>();
    }
    ptx::wgmma_wait_group<0>();

    const int row = 64 * group + 16 * warp + lane / 4, column = 2 * (lane % 4);
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[(row + 8 * (i / 2)) * N + column + 8 * n + i % 2] = sums[4 * n + i];
}

#else

static __device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], __half)
{
    ptx::mma_m16n8k16_f32_f16(sum, a, b, sum);
}

static __device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], __nv_bfloat16)
{
    ptx::mma_m16n8k16_f32_bf16(sum, a, b, sum);
}

static __device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], float) // TF32
{
    ptx::mma_m16n8k8_f32_tf32(sum, a, b, sum);
}

// this lane's word of a row's 32 bytes: its offset; the second one is 16 bytes further
static __device__ uint2 fragment(const uint4 (*tile)[PIECES], int row, int step)
{
    const int lane = threadIdx.x % 32, r = row + lane / 4;
    const uint4 *pieces = tile[r];

    return {((const uint32_t *)&pieces[2 * step ^ r % 8])[lane % 4],
            ((const uint32_t *)&pieces[(2 * step + 1) ^ r % 8])[lane % 4]};
}

// a warp has 64 rows and 64 columns
template <class T>
static __device__ void multiply(const tiles &shared, float *out, int64_t rounds)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = 64 * (warp / 4), column = 64 * (warp % 4);
    float sums[4][8][4] = {};

    __syncthreads(); // all tiles are stored
    for (int64_t round = 0; round < rounds; round++) {
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            uint32_t a[4][4], b[8][2];

#pragma unroll
            for (int m = 0; m < 4; m++) {
                const uint2 up = fragment(shared.a, row + 16 * m, step);
                const uint2 down = fragment(shared.a, row + 16 * m + 8, step);

                a[m][0] = up.x, a[m][1] = down.x, a[m][2] = up.y, a[m][3] = down.y;
            }
#pragma unroll
            for (int n = 0; n < 8; n++) {
                const uint2 both = fragment(shared.b, column + 8 * n, step);

                b[n][0] = both.x, b[n][1] = both.y;
            }
#pragma unroll
            for (int m = 0; m < 4; m++)
#pragma unroll
                for (int n = 0; n < 8; n++)
                    multiply_add(sums[m][n], a[m], b[n], T());
        }
    }
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                out[(row + 16 * m + lane / 4 + 8 * (i / 2)) * N + column + 8 * n + 2 * (lane % 4) + i % 2] =
                    sums[m][n][i];
}

#endif

template <class T>
__global__ __launch_bounds__(CEILING_BLOCK) void ceiling_mma(const uint4 *x, float *out, int64_t rounds)
{
    __shared__ __align__(1024) tiles shared;

    load(shared, x);
    multiply<T>(shared, out + (int64_t)blockIdx.x * M * N, rounds);
}

template <class T>
static cudaError_t launch(const ceiling_args *args, cudaStream_t stream)
{
    ceiling_mma<T><<<(unsigned)args->blocks, CEILING_BLOCK, 0, stream>>>((const uint4 *)args->x,
                                                                         (float *)args->out, args->rounds);
    return cudaGetLastError();
}

cudaError_t launch_ceiling_mma(const ceiling_args *args, cudaStream_t stream)
{
    switch (args->dtype) {
    case FLOAT16:
        return launch<__half>(args, stream);
    case BFLOAT16:
        return launch<__nv_bfloat16>(args, stream);
    case FLOAT32:
        return launch<float>(args, stream);
    default:
        return cudaErrorInvalidValue;
    }
}
