// C = A @ B on the tensor cores, by blocks that stay and compute one tile of C after another.
//
// The idea: there are as many blocks as multiprocessors. While the warps that multiply store a tile, the one that
// copies has asked for the first tiles of the next: no tile waits for a block to start. Sums in 16 bits reach C
// through shared memory: each warp stores its 16 rows there, and the TMA copies them while the next tile is
// multiplied. (Products in TF32 and of bytes leave each lane neighbours of C, which it stores itself, in whole
// sectors.)
// Tiles that are computed at the same time form a square, because they then share most of their rows of A and
// columns of B in the L2 cache. What the rung below wasted: its tensor cores were idle while a block started, and
// while its threads stored 4 bytes at a time. (Clusters, whose blocks share copies by multicast,
// gain something only where rows begin amid sectors of 32 bytes: see production/tma.cuh.) Launch: blocks of 384
// threads, one per multiprocessor.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/ptx/cp_async_bulk.cuh"
#include "../../common/ptx/cp_async_bulk_tensor.cuh"
#include "../../common/ptx/mbarrier.cuh"
#include "../../common/ptx/setmaxnreg.cuh"
#include "kernels.h"
#include "../warpgroup.cuh"

constexpr int BM = 128, BN = 256; // of a block's tiles: rows of A, columns of B
constexpr int MULTIPLYING = 2;    // warpgroups
constexpr int BLOCK = (1 + MULTIPLYING) * GROUP;
constexpr int WARPS = MULTIPLYING * GROUP / WARP, WARP_ROWS = 16;  // that multiply; rows of each in C's tile
constexpr int ROWS_TOGETHER = 12;                                  // of tiles that are computed at the same time
constexpr int COPYING_REGISTERS = 56, MULTIPLYING_REGISTERS = 224; // per thread; of the 168 that all begin with

template <class T>
using part_type = part_of<T, BM / MULTIPLYING, BN>;

// Sums in 16 bits leave through shared memory: a warp's rows of C's tile, in panels of 128 bytes.
template <class T>
struct persistent_rows {
    T panels[BN / BK<T>][WARP_ROWS][BK<T>];
};
struct no_buffer {
};

template <class T>
struct persistent_ring {
    static constexpr bool BUFFERS = sizeof(T) == 2;
    static constexpr int STAGES = BUFFERS ? 3 : 4; // pairs of tiles in shared memory

    struct stage {
        T a[BM][BK<T>], b[BN / BK<T>][BK<T>][BK<T>];
    } stages[STAGES];
    std::conditional_t<BUFFERS, persistent_rows<T>, no_buffer> c[WARPS];
    uint64_t full[STAGES], empty[STAGES]; // a stage's tiles have come; all warps have multiplied them
};

// The tiles of C, for a block: every gridDim.x-th. Their order fills ROWS_TOGETHER rows of tiles, column by
// column.
struct persistent_order {
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
static __device__ void bring_tiles(persistent_ring<T> &shared, int64_t &turn, const operands<T> &from,
                                   const CUtensorMap &a_map, const CUtensorMap &b_map)
{
    if (BY_TMA && threadIdx.x != 0)
        return;
    for (int64_t p = 0; p < from.a.columns; p += BK<T>, turn++) {
        const int s = turn % persistent_ring<T>::STAGES;
        auto &to = shared.stages[s];

        if (turn >= persistent_ring<T>::STAGES)
            wait(&shared.empty[s], turn / persistent_ring<T>::STAGES - 1);
        if (BY_TMA) {
            ptx::mbarrier_arrive_expect_tx(&shared.full[s], sizeof to);
            ptx::cp_async_bulk_tensor_load(to.a, &a_map, (int)p, (int)from.at.row, (int)from.a_matrix,
                                           &shared.full[s]);
            for (int panel = 0; panel < BN / BK<T>; panel++)
                ptx::cp_async_bulk_tensor_load(to.b[panel], &b_map, (int)from.at.column + panel * BK<T>, (int)p,
                                               (int)from.b_matrix, &shared.full[s]);
        } else {
            store_pair(to.a, to.b, from, p);
            ptx::fence_proxy_async(); // wgmma sees the stores
            ptx::mbarrier_arrive(&shared.full[s]);
        }
    }
}

// A warpgroup that multiplies: its part of C's tile begins at (row, column).
template <class T, class Part>
static __device__ void multiply_tiles(Part &part, persistent_ring<T> &shared, int64_t &turn, int row, int column,
                                      int64_t k)
{
    constexpr int STAGES = persistent_ring<T>::STAGES;
    const auto release = [&](int64_t of) {
        __syncwarp(); // the warp's lanes have read their own operands
        if (threadIdx.x % WARP == 0)
            ptx::mbarrier_arrive(&shared.empty[of % STAGES]);
    };

    for (int64_t p = 0; p < k; p += BK<T>, turn++) {
        const int s = turn % STAGES;
        auto &of = shared.stages[s];

        wait(&shared.full[s], turn / STAGES);
        part.multiply(&of.a[row], &of.b[column / BK<T>], p > 0);
        ptx::wgmma_wait_group<Part::PENDING>(); // this warp's products of the stage before are complete
        if (p >= Part::PENDING * BK<T>)
            release(turn - Part::PENDING);
    }
    ptx::wgmma_wait_group<0>();
    part.fence();
    if (Part::PENDING > 0 && k > 0)
        release(turn - 1);
    if (k == 0)
        part = {};
}

// Stores a warp's rows of a part by the TMA, while the warp goes on.
template <class T, class Part>
static __device__ void store_by_tma(persistent_rows<T> &rows, const Part &part, const CUtensorMap &c_map,
                                    int64_t matrix, corner at)
{
    const bool copies = threadIdx.x % WARP == 0;

    if (copies)
        ptx::cp_async_bulk_wait_group_read<0>();
    __syncwarp(); // the copy of the tile before has read the rows
    part.for_each([&](int row, int column, const float(&sums)[2]) {
        const int r = row % WARP_ROWS;
        T *const to = &rows.panels[column / BK<T>][r][column % BK<T> ^ r % 8 * 8];

        *(neighbours<T, 2> *)to = {T(sums[0]), T(sums[1])};
    });
    ptx::fence_proxy_async(); // the TMA sees the stores
    __syncwarp();             // of all lanes
    if (!copies)
        return;
    for (int panel = 0; panel < BN / BK<T>; panel++)
        ptx::cp_async_bulk_tensor_store(&c_map, (int)at.column + panel * BK<T>, (int)at.row, (int)matrix,
                                        rows.panels[panel]);
    ptx::cp_async_bulk_commit_group();
}

template <class T, class C, bool BY_TMA>
__global__ void __launch_bounds__(BLOCK, 1)
    matmul_persistent(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                      const __grid_constant__ CUtensorMap c_map, tensor<T> a, tensor<T> b, C *c,
                      persistent_order order)
{
    constexpr bool STORES_BY_TMA = BY_TMA && persistent_ring<T>::BUFFERS;
    extern __shared__ __align__(1024) unsigned char bytes[];
    persistent_ring<T> &shared = *(persistent_ring<T> *)bytes;

    const int64_t m = a.rows, n = b.columns;
    const int group = threadIdx.x / GROUP;
    int64_t turn = 0;

    if (threadIdx.x == 0) {
        for (int s = 0; s < persistent_ring<T>::STAGES; s++) {
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
        constexpr int ROWS = part_type<T>::ROWS, DOWN = BM / ROWS; // parts
        const int row = (group - 1) % DOWN * ROWS, column = (group - 1) / DOWN * part_type<T>::COLUMNS;

        for (int64_t tile = blockIdx.x; tile < order.count(); tile += gridDim.x) {
            const int64_t matrix = order.matrix(tile);
            corner at = order.position(tile);
            part_type<T> part;

            multiply_tiles(part, shared, turn, row, column, a.columns);
            at = {at.row + row, at.column + column};
            if constexpr (STORES_BY_TMA) {
                const int warp = warp_of_group();

                at.row += warp * WARP_ROWS;
                store_by_tma(shared.c[(group - 1) * GROUP / WARP + warp], part, c_map, matrix, at);
            } else
                store_sums(c + matrix * m * n, part, at, m, n);
        }
        if (STORES_BY_TMA && threadIdx.x % WARP == 0)
            ptx::cp_async_bulk_wait_group_read<0>(); // the block's shared memory is there until it has been read
    }
}

template <class T, class C>
[[nodiscard]] static cudaError_t launch(const matmul_args *args, cudaStream_t stream)
{
    const tensor<C> c = {(const C *)args->c, args->batches, args->m, args->n, args->m * args->n, args->n};
    const persistent_order order = {args->batches, ceil_div(args->m, BM), ceil_div(args->n, BN)};
    const unsigned grid = (unsigned)std::min<int64_t>(order.count(), args->multiprocessors);
    constexpr int BYTES = sizeof(persistent_ring<T>);
    mapped_operands<T> of;
    CUtensorMap c_map = {};

    if (cudaError_t error = map_operands(&of, args, BM))
        return error;
    bool by_tma = of.by_tma;
    if constexpr (persistent_ring<T>::BUFFERS) {
        by_tma = by_tma && has_tensor_map(c);
        if (by_tma)
            if (cudaError_t error = make_tensor_map(&c_map, c, WARP_ROWS))
                return error;
    }
    const auto kernel = by_tma ? matmul_persistent<T, C, true> : matmul_persistent<T, C, false>;

    if (cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES))
        return error;
    kernel<<<grid, BLOCK, BYTES, stream>>>(of.a_map, of.b_map, c_map, of.a, of.b, (C *)args->c, order);
    return cudaGetLastError();
}

cudaError_t launch_matmul_persistent(const matmul_args *args, cudaStream_t stream)
{
    return with_element_types(
        args, [&](auto in, auto out) { return launch<decltype(in), decltype(out)>(args, stream); });
}
