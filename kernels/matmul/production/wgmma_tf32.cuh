// C = A @ B of float32 on Hopper's tensor cores in TF32: what the rung `wgmma_specialized` leads to. Meant
// for products so small that the passes of `wgmma_single` take longer than what its 16 bits gain.
//
// The idea: as there, B^T comes from registers and A from shared memory, because wgmma transposes nothing in TF32.
// Here the next pair's elements of B are loaded while the products of this one are under way.
// A warpgroup has all rows of a block's tile of C, and 128 of its columns. If the TMA cannot copy the operands,
// whose rows are no multiples of 16 bytes, threads copy their elements.
#pragma once

#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "../../common/ptx/cp_async_bulk_tensor.cuh"
#include "../../common/ptx/mbarrier.cuh"
#include "../../common/ptx/setmaxnreg.cuh"
#include "../warpgroup.cuh"
#include "kernels.h"

constexpr int DEPTH = BK<float>, MK = 8; // of a pair of tiles, and of a wgmma
constexpr int COLUMNS = 2 * MM;          // of C, of a warpgroup: two products take turns with them
constexpr int STAGES = 4;                // pairs of tiles in shared memory
constexpr int COPYING_REGISTERS = 56;    // per thread
constexpr int REGISTERS = 1 << 16;       // of a multiprocessor
constexpr int SHARED_BYTES = 228 << 10;  // of a multiprocessor; a block takes 1 KB more than it asks for

// A block's tile of C: BM rows, and COLUMNS for each of GROUPS warpgroups that multiply. BLOCKS: at once on a
// multiprocessor.
template <int BM_, int GROUPS_, int BLOCKS_>
struct tf32_tile {
    static constexpr int BM = BM_, GROUPS = GROUPS_, BN = GROUPS * COLUMNS, BLOCKS = BLOCKS_;
    static constexpr int BLOCK = (1 + GROUPS) * GROUP;
    // per thread: what all begin with, and what those that multiply have after the others have given theirs away
    static constexpr int FIRST_REGISTERS = REGISTERS / (BLOCKS * BLOCK) / 8 * 8;
    static constexpr int MULTIPLYING_REGISTERS =
        ((1 + GROUPS) * FIRST_REGISTERS - COPYING_REGISTERS) / GROUPS / 8 * 8;
    static_assert(COPYING_REGISTERS < FIRST_REGISTERS && MULTIPLYING_REGISTERS <= 256, "setmaxnreg takes these");

    struct stage {
        float a[BM][DEPTH], b[BN / DEPTH][DEPTH][DEPTH];
    } stages[STAGES];
    uint64_t full[STAGES], empty[STAGES]; // a stage's tiles have come; all warps have multiplied them
};

static __device__ inline void wait(uint64_t *mbarrier, int64_t round)
{
    while (!ptx::mbarrier_try_wait_parity(mbarrier, (uint32_t)round % 2))
        ;
}

// The warpgroup that copies.
template <bool BY_TMA, class Tile>
static __device__ void bring_tiles(Tile &shared, const operands<float> &from, const CUtensorMap &a_map,
                                   const CUtensorMap &b_map)
{
    if (BY_TMA && threadIdx.x != 0)
        return;
    for (int64_t p = 0, turn = 0; p < from.a.columns; p += DEPTH, turn++) {
        const int s = turn % STAGES;
        auto &to = shared.stages[s];

        if (turn >= STAGES)
            wait(&shared.empty[s], turn / STAGES - 1);
        if (BY_TMA) {
            ptx::mbarrier_arrive_expect_tx(&shared.full[s], sizeof to);
            ptx::cp_async_bulk_tensor_load(to.a, &a_map, (int)p, (int)from.at.row, (int)from.a_matrix,
                                           &shared.full[s]);
            for (int panel = 0; panel < Tile::BN / DEPTH; panel++)
                ptx::cp_async_bulk_tensor_load(to.b[panel], &b_map, (int)from.at.column + panel * DEPTH, (int)p,
                                               (int)from.b_matrix, &shared.full[s]);
        } else {
            store_pair(to.a, to.b, from, p);
            ptx::fence_proxy_async(); // wgmma sees the stores
            ptx::mbarrier_arrive(&shared.full[s]);
        }
    }
}

// A warpgroup that multiplies COLUMNS of the tile, from `column` on. ptxas lets no first operands be prepared
// while products are under way: it would wait for each of them (C7513, CUDA 13.0). Loads into other registers may
// go on.
template <class Tile>
static __device__ void multiply_tiles(turned_part<float, Tile::BM> &part, Tile &shared, int column, int64_t k)
{
    fragment_pairs loaded[DEPTH / MK];
    const auto load = [&](int64_t turn) {
        wait(&shared.full[turn % STAGES], turn / STAGES);
#pragma unroll
        for (int i = 0; i < DEPTH / MK; i++)
            loaded[i].load(&shared.stages[turn % STAGES].b[column / DEPTH], i * MK);
    };
    const int64_t pairs = ceil_div(k, DEPTH);

    load(0);
    for (int64_t turn = 0; turn < pairs; turn++) {
        uint32_t words[DEPTH / MK][COLUMNS / MM][4];

        for (auto &of_products : loaded)
            of_products.fence(); // they are not ordered before
#pragma unroll
        for (int i = 0; i < DEPTH / MK; i++)
            loaded[i].order(words[i]);
        part.multiply_loaded(words, shared.stages[turn % STAGES].a, turn > 0);
        if (turn + 1 < pairs)
            load(turn + 1);
        ptx::wgmma_wait_group<0>(); // the warp's products with this stage are complete,
        __syncwarp();               // and its lanes have loaded their elements of it
        if (threadIdx.x % WARP == 0)
            ptx::mbarrier_arrive(&shared.empty[turn % STAGES]);
    }
    part.fence();
}

template <class Tile, bool BY_TMA>
__global__ void __launch_bounds__(Tile::BLOCK, Tile::BLOCKS)
    matmul_wgmma_tf32(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                      tensor<float> a, tensor<float> b, float *c, int64_t first_batch, corner first)
{
    extern __shared__ __align__(1024) unsigned char bytes[];
    Tile &shared = *(Tile *)bytes;

    const int64_t batch = first_batch + blockIdx.z, m = a.rows, n = b.columns;
    const operands<float> from = {a, b, a.matrices > 1 ? batch : 0, b.matrices > 1 ? batch : 0,
                                  block_tile_origin(first, Tile::BM, Tile::BN)};
    const int group = threadIdx.x / GROUP;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            ptx::mbarrier_init(&shared.full[s], BY_TMA ? 1 : GROUP);
            ptx::mbarrier_init(&shared.empty[s], Tile::GROUPS * GROUP / WARP);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads(); // the mbarriers are initialised before they are used
    pdl_wait();
    if (group == 0) {
        ptx::setmaxnreg_dec<COPYING_REGISTERS>();
        bring_tiles<BY_TMA>(shared, from, a_map, b_map);
    } else {
        ptx::setmaxnreg_inc<Tile::MULTIPLYING_REGISTERS>();
        const int column = (group - 1) * COLUMNS;
        turned_part<float, Tile::BM> part;

        multiply_tiles(part, shared, column, a.columns);
        store_sums(c + batch * m * n, part, {from.at.row, from.at.column + column}, m, n);
    }
}

template <class Tile>
[[nodiscard]] static cudaError_t launch_tf32(const matmul_args *args, cudaStream_t stream)
{
    mapped_operands<float> of;

    if (cudaError_t error = map_operands(&of, args, Tile::BM))
        return error;
    static_assert(Tile::BLOCKS * (sizeof(Tile) + (1 << 10)) <= SHARED_BYTES, "so many blocks at once");
    const auto start = [&](auto by_tma) {
        constexpr auto KERNEL = matmul_wgmma_tf32<Tile, decltype(by_tma)::value>;

        if (cudaError_t error = allow_shared_bytes<KERNEL>(sizeof(Tile)))
            return error;
        return cover(args->batches, args->m, args->n, Tile::BM, Tile::BN,
                     [&](dim3 grid, int64_t batch, corner first) {
                         return launch<KERNEL>(grid, Tile::BLOCK, sizeof(Tile), stream, of.a_map, of.b_map, of.a,
                                               of.b, (float *)args->c, batch, first);
                     });
    };
    return of.by_tma ? start(std::true_type()) : start(std::false_type());
}
