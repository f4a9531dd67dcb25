// C = A @ B on the tensor cores, by blocks that stay and compute one tile of C after another.
//
// The idea: there are as many blocks as multiprocessors. While the warps that multiply store a tile, the one that
// copies has asked for the first tiles of the next: no tile waits for a block to start. Sums reach C through
// shared memory: each warp stores its 16 rows there, and the TMA copies them while the next tile is multiplied.
// Tiles that are computed at the same time form a square, because they then share most of their rows of A and
// columns of B in the L2 cache. What the rung below wasted: its tensor cores were idle while a block started, and
// while its threads stored 2 bytes at a time. (Clusters, whose blocks would share copies by
// multicast, gain nothing that can be measured.) Launch: blocks of 384 threads, one per multiprocessor.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/ptx/cp_async_bulk.cuh"
#include "../../common/ptx/cp_async_bulk_tensor.cuh"
#include "../../common/ptx/mbarrier.cuh"
#include "../../common/ptx/setmaxnreg.cuh"
#include "../../common/ptx/wgmma.cuh"
#include "../../common/types.cuh"
#include "kernels.h"
#include "tiles.cuh"

constexpr int BM = 128, BN = 256, BK = 64; // of a block's tiles: rows of A, columns of B, and both along k
constexpr int MM = 64, MK = 16;            // of a wgmma: rows of A, and k
constexpr int GROUP = 128, WARP = 32;      // threads
constexpr int MULTIPLYING = BM / MM;       // warpgroups
constexpr int BLOCK = (1 + MULTIPLYING) * GROUP;
constexpr int STAGES = 3;                                          // pairs of tiles in shared memory
constexpr int PARTS = BN / COLUMNS;                                // of a row of B, or of C's tile
constexpr int WARPS = MULTIPLYING * GROUP / WARP, WARP_ROWS = 16;  // that multiply; rows of each in C's tile
constexpr int ROWS_TOGETHER = 12;                                  // of tiles that are computed at the same time
constexpr int COPYING_REGISTERS = 56, MULTIPLYING_REGISTERS = 224; // per thread; of the 168 that all begin with

template <class T>
struct ring {
    struct stage {
        T a[BM][BK], b[PARTS][BK][COLUMNS];
    } stages[STAGES];
    T c[WARPS][PARTS][WARP_ROWS][COLUMNS]; // on its way to global memory
    uint64_t full[STAGES], empty[STAGES];  // a stage's tiles have come; all warps have multiplied them
};

// The tiles of C, for a block: every gridDim.x-th. Their order fills ROWS_TOGETHER rows of tiles, column by
// column.
struct tile_order {
    int64_t matrices, down, right;

    __host__ __device__ int64_t count() const
    {
        return matrices * down * right;
    }

    __device__ int64_t matrix(int64_t tile) const
    {
        return tile / (down * right);
    }

    __device__ corner position(int64_t tile) const
    {
        const int64_t first = tile % (down * right) / (ROWS_TOGETHER * right) * ROWS_TOGETHER;
        const int64_t rows = min((int64_t)ROWS_TOGETHER, down - first), i = tile % (down * right) - first * right;

        return {(first + i % rows) * BM, i / rows * BN};
    }
};

static __device__ inline void wait(uint64_t *mbarrier, int64_t round)
{
    while (!ptx::mbarrier_try_wait_parity(mbarrier, (uint32_t)round % 2))
        ;
}

// The warpgroup that copies, for one tile of C. `turn`: counts pairs of tiles. BY_TMA: otherwise rows are no
// multiples of 16 bytes, and its threads copy elements.
template <bool BY_TMA, class T>
static __device__ void bring_tiles(ring<T> &shared, int64_t &turn, const operands<T> &from,
                                   const CUtensorMap &a_map, const CUtensorMap &b_map)
{
    if (BY_TMA && threadIdx.x != 0)
        return;
    for (int64_t p = 0; p < from.a.columns; p += BK, turn++) {
        const int s = turn % STAGES;
        auto &to = shared.stages[s];

        if (turn >= STAGES)
            wait(&shared.empty[s], turn / STAGES - 1);
        if (BY_TMA) {
            ptx::mbarrier_arrive_expect_tx(&shared.full[s], sizeof to);
            ptx::cp_async_bulk_tensor_load(to.a, &a_map, (int)p, (int)from.at.row, (int)from.a_matrix,
                                           &shared.full[s]);
            for (int part = 0; part < PARTS; part++)
                ptx::cp_async_bulk_tensor_load(to.b[part], &b_map, (int)from.at.column + part * COLUMNS, (int)p,
                                               (int)from.b_matrix, &shared.full[s]);
        } else {
            store_pair(to.a, to.b, from, p);
            ptx::fence_proxy_async(); // wgmma sees the stores
            ptx::mbarrier_arrive(&shared.full[s]);
        }
    }
}

// A warpgroup that multiplies: rows [row, row + MM) of the block's tile of A by the tile of B.
template <class T>
static __device__ void multiply_tiles(float (&sum)[BN / 2], ring<T> &shared, int64_t &turn, int row, int64_t k)
{
    for (int64_t p = 0; p < k; p += BK, turn++) {
        const int s = turn % STAGES, before = (turn + STAGES - 1) % STAGES;
        auto &of = shared.stages[s];

        wait(&shared.full[s], turn / STAGES);
        ptx::wgmma_fence();
#pragma unroll
        for (int q = 0; q < BK; q += MK)
            ptx::wgmma_mma_async<false, true>(sum, ptx::wgmma_descriptor(&of.a[row][q]),
                                              ptx::wgmma_descriptor(of.b[0][q], sizeof of.b[0]), p > 0 || q > 0,
                                              T());
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<1>(); // this warp's products of the stage before are complete
        if (p > 0 && threadIdx.x % WARP == 0)
            ptx::mbarrier_arrive(&shared.empty[before]);
    }
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_fence_accumulators(sum);
    if (k > 0 && threadIdx.x % WARP == 0)
        ptx::mbarrier_arrive(&shared.empty[(turn - 1) % STAGES]);
    if (k == 0)
        for (float &element : sum)
            element = 0;
}

// Element e of a thread's sums: its row and column in the warp's rows of C's tile.
static __device__ inline corner position_of(int e)
{
    const int lane = threadIdx.x % WARP;

    return {lane / 4 + e / 2 % 2 * 8, e / 4 * 8 + lane % 4 * 2 + e % 2};
}

// c: (m, n); `at`: of the warp's rows
template <class T>
static __device__ void store_elements(T *c, const float (&sum)[BN / 2], corner at, int64_t m, int64_t n)
{
#pragma unroll
    for (int e = 0; e < BN / 2; e++) {
        const corner in = position_of(e);
        const int64_t y = at.row + in.row, x = at.column + in.column;

        if (y < m && x < n)
            c[y * n + x] = T(sum[e]);
    }
}

// The same by the TMA, while the warp goes on.
template <class T>
static __device__ void store_by_tma(T (&rows)[PARTS][WARP_ROWS][COLUMNS], const float (&sum)[BN / 2],
                                    const CUtensorMap &c_map, int64_t matrix, corner at)
{
    struct alignas(4) pair {
        T first, second;
    };
    const bool copies = threadIdx.x % WARP == 0;

    if (copies)
        ptx::cp_async_bulk_wait_group_read<0>();
    __syncwarp(); // the copy of the tile before has read the rows
#pragma unroll
    for (int e = 0; e < BN / 2; e += 2) {
        const corner in = position_of(e);
        const int row = (int)in.row, column = (int)in.column;

        *(pair *)&rows[column / COLUMNS][row][column % COLUMNS ^ row % 8 * 8] = {T(sum[e]), T(sum[e + 1])};
    }
    ptx::fence_proxy_async(); // the TMA sees the stores
    __syncwarp();             // of all lanes
    if (!copies)
        return;
    for (int part = 0; part < PARTS; part++)
        ptx::cp_async_bulk_tensor_store(&c_map, (int)at.column + part * COLUMNS, (int)at.row, (int)matrix,
                                        rows[part]);
    ptx::cp_async_bulk_commit_group();
}

template <class T, bool BY_TMA>
__global__ void __launch_bounds__(BLOCK, 1)
    matmul_persistent(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                      const __grid_constant__ CUtensorMap c_map, tensor<T> a, tensor<T> b, T *c, tile_order order)
{
    extern __shared__ __align__(1024) unsigned char bytes[];
    ring<T> &shared = *(ring<T> *)bytes;

    const int64_t m = a.rows, n = b.columns;
    const int group = threadIdx.x / GROUP,
              warp = threadIdx.x / WARP - GROUP / WARP; // warp: of those that multiply
    int64_t turn = 0;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            ptx::mbarrier_init(&shared.full[s], BY_TMA ? 1 : GROUP);
            ptx::mbarrier_init(&shared.empty[s], WARPS);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (group == 0) {
        ptx::setmaxnreg_dec<COPYING_REGISTERS>();
        for (int64_t tile = blockIdx.x; tile < order.count(); tile += gridDim.x) {
            const int64_t matrix = order.matrix(tile);

            bring_tiles<BY_TMA>(
                shared, turn,
                operands<T>{a, b, a.matrices > 1 ? matrix : 0, b.matrices > 1 ? matrix : 0, order.position(tile)},
                a_map, b_map);
        }
    } else {
        ptx::setmaxnreg_inc<MULTIPLYING_REGISTERS>();
        for (int64_t tile = blockIdx.x; tile < order.count(); tile += gridDim.x) {
            const int64_t matrix = order.matrix(tile);
            corner at = order.position(tile);
            float sum[BN / 2];

            multiply_tiles(sum, shared, turn, (group - 1) * MM, a.columns);
            at.row += warp * WARP_ROWS;
            if (BY_TMA)
                store_by_tma(shared.c[warp], sum, c_map, matrix, at);
            else
                store_elements(c + matrix * m * n, sum, at, m, n);
        }
        if (BY_TMA && threadIdx.x % WARP == 0)
            ptx::cp_async_bulk_wait_group_read<0>(); // the block's shared memory is there until it has been read
    }
}

template <class T>
[[nodiscard]] static cudaError_t launch(const matmul_args *args, cudaStream_t stream)
{
    const tensor<T> c = {(const T *)args->c, args->batches, args->m, args->n, args->m * args->n, args->n};
    const tile_order order = {args->batches, ceil_div(args->m, BM), ceil_div(args->n, BN)};
    const unsigned grid = (unsigned)std::min<int64_t>(order.count(), args->multiprocessors);
    mapped_operands<T> of;
    CUtensorMap c_map = {};

    if (cudaError_t error = map_operands(&of, args, BM, BK))
        return error;
    const bool by_tma = of.by_tma && has_tensor_map(c);
    const auto kernel = by_tma ? matmul_persistent<T, true> : matmul_persistent<T, false>;
    constexpr int BYTES = sizeof(ring<T>);

    if (by_tma)
        if (cudaError_t error = make_tensor_map(&c_map, c, WARP_ROWS))
            return error;
    if (cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES))
        return error;
    kernel<<<grid, BLOCK, BYTES, stream>>>(of.a_map, of.b_map, c_map, of.a, of.b, (T *)args->c, order);
    return cudaGetLastError();
}

cudaError_t launch_matmul_persistent(const matmul_args *args, cudaStream_t stream)
{
    return args->dtype == FLOAT16 ? launch<__half>(args, stream) : launch<__nv_bfloat16>(args, stream);
}
