// C = A @ B of float32 on Hopper's tensor cores in TF32: what the rung `wgmma_specialized` leads to, for products
// so small that the passes of `wgmma_single` would take longer than what its 16 bits gain.
//
// The idea: as there, B^T comes from registers and A from shared memory, because wgmma transposes nothing in TF32.
// Here the next pair's elements of B are loaded into other registers while the products of this one are under way.
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

// A block's tile of C: BM rows, and COLUMNS for each of GROUPS warpgroups that multiply. BLOCKS: at once on a
// multiprocessor.
template <int BM_, int GROUPS_, int BLOCKS_>
struct tf32_tile {
    static constexpr int BM = BM_, GROUPS = GROUPS_, BN = GROUPS * COLUMNS, BLOCKS = BLOCKS_;
    static constexpr int BLOCK = (1 + GROUPS) * GROUP;
    static constexpr int EACH =
        REGISTERS / (BLOCKS * GROUP); // registers for a thread of each warpgroup of a block
    static constexpr int MULTIPLYING_REGISTERS = (EACH - COPYING_REGISTERS) / GROUPS / 8 * 8;

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

// A warpgroup's sums, and the elements of B that it has loaded for two pairs of tiles.
template <int BM>
struct tf32_part : turned_part<float, BM> {
    uint32_t words[2][DEPTH / MK][COLUMNS / MM][4];

    // Starts the products of a pair of tiles, while those of the pair before may be under way. (With
    // wgmma_fence_registers, ptxas would wait for those.)
    template <int TURN>
    __device__ void start(const float (*a)[DEPTH], const float (*b)[DEPTH][DEPTH], bool add)
    {
#pragma unroll
        for (int i = 0; i < DEPTH / MK; i++)
            load_fragments(words[TURN][i], b, i * MK);
        this->multiply_loaded(words[TURN], a, add);
    }
};

// A warpgroup that multiplies COLUMNS of the tile, from `column` on.
template <class Tile>
static __device__ void multiply_tiles(tf32_part<Tile::BM> &part, Tile &shared, int column, int64_t k)
{
    const auto release = [&](int64_t turn) { // all products of the warp with this stage are complete
        if (threadIdx.x % WARP == 0)
            ptx::mbarrier_arrive(&shared.empty[turn % STAGES]);
    };
    const auto multiply = [&](auto which, int64_t turn) {
        auto &of = shared.stages[turn % STAGES];

        wait(&shared.full[turn % STAGES], turn / STAGES);
        part.template start<decltype(which)::value>(of.a, &of.b[column / DEPTH], turn > 0);
        ptx::wgmma_wait_group<1>(); // those of the pair before are complete
        __syncwarp();               // and all lanes have loaded their elements of it
        if (turn > 0)
            release(turn - 1);
    };
    const int64_t pairs = ceil_div(k, DEPTH);

    for (int64_t turn = 0; turn < pairs; turn += 2) {
        multiply(std::integral_constant<int, 0>(), turn);
        if (turn + 1 < pairs)
            multiply(std::integral_constant<int, 1>(), turn + 1);
    }
    ptx::wgmma_wait_group<0>();
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
        tf32_part<Tile::BM> part;

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
