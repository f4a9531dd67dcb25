// C = A @ B on the tensor cores, with warps that only copy and warps that only multiply.
//
// The idea: a block has a warpgroup that keeps asking the TMA for tiles, and two that multiply, each its own half
// of C's tile. Two mbarriers per stage connect them: `full` counts the bytes that come, `empty` the warps that are
// done. Nobody waits for the whole block. In 16 bits a product is in flight while the next tiles are waited for;
// in TF32 and of bytes it has operands in registers, which the next one needs, and the two warpgroups overlap
// instead. The copying warps give their registers to the others: the block's tile of C is twice as large as in the
// rung below. What that one wasted: its warps waited for their products before they asked for tiles, and for the
// tiles before they multiplied. Launch: blocks of 384 threads, one block per BM x BN tile of each C.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/ptx/cp_async_bulk_tensor.cuh"
#include "../../common/ptx/mbarrier.cuh"
#include "../../common/ptx/setmaxnreg.cuh"
#include "kernels.h"
#include "../warpgroup.cuh"

constexpr int BM = 128, BN = 256; // of a block's tiles: rows of A, columns of B
constexpr int MULTIPLYING = 2;    // warpgroups
constexpr int BLOCK = (1 + MULTIPLYING) * GROUP;
constexpr int STAGES = 4;                                          // pairs of tiles in shared memory
constexpr int COPYING_REGISTERS = 56, MULTIPLYING_REGISTERS = 224; // per thread; of the 168 that all begin with

template <class T>
struct specialized_ring {
    struct stage {
        T a[BM][BK<T>], b[BN / BK<T>][BK<T>][BK<T>];
    } stages[STAGES];
    uint64_t full[STAGES], empty[STAGES]; // a stage's tiles have come; all warps have multiplied them
};

static __device__ inline void wait(uint64_t *mbarrier, int64_t round)
{
    while (!ptx::mbarrier_try_wait_parity(mbarrier, (uint32_t)round % 2))
        ;
}

// The warpgroup that copies. BY_TMA: otherwise rows are no multiples of 16 bytes, and its threads copy elements.
template <bool BY_TMA, class T>
static __device__ void bring_tiles(specialized_ring<T> &shared, const operands<T> &from, const CUtensorMap &a_map,
                                   const CUtensorMap &b_map)
{
    if (BY_TMA && threadIdx.x != 0)
        return;
    for (int64_t p = 0, turn = 0; p < from.a.columns; p += BK<T>, turn++) {
        const int s = turn % STAGES;
        auto &to = shared.stages[s];

        if (turn >= STAGES)
            wait(&shared.empty[s], turn / STAGES - 1);
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
static __device__ void multiply_tiles(Part &part, specialized_ring<T> &shared, int row, int column, int64_t k)
{
    for (int64_t p = 0, turn = 0; p < k; p += BK<T>, turn++) {
        const int s = turn % STAGES, done = (turn + STAGES - Part::PENDING) % STAGES;
        auto &of = shared.stages[s];

        wait(&shared.full[s], turn / STAGES);
        part.multiply(&of.a[row], &of.b[column / BK<T>], turn > 0);
        ptx::wgmma_wait_group<Part::PENDING>(); // this warp's products of the stage `done` are complete
        __syncwarp();                           // and its lanes have read their own operands from it
        if (turn >= Part::PENDING && threadIdx.x % WARP == 0)
            ptx::mbarrier_arrive(&shared.empty[done]);
    }
    ptx::wgmma_wait_group<0>();
    part.fence();
    if (k == 0)
        part = {};
}

template <class T, class C, bool BY_TMA>
__global__ void __launch_bounds__(BLOCK, 1)
    matmul_wgmma_specialized(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                             tensor<T> a, tensor<T> b, C *c, int64_t first_batch, corner first)
{
    extern __shared__ __align__(1024) unsigned char bytes[];
    specialized_ring<T> &shared = *(specialized_ring<T> *)bytes;

    const int64_t batch = first_batch + blockIdx.z, m = a.rows, n = b.columns;
    const operands<T> from = {a, b, a.matrices > 1 ? batch : 0, b.matrices > 1 ? batch : 0,
                              block_tile_origin(first, BM, BN)};
    const int group = threadIdx.x / GROUP;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            ptx::mbarrier_init(&shared.full[s], BY_TMA ? 1 : GROUP);
            ptx::mbarrier_init(&shared.empty[s], MULTIPLYING * GROUP / WARP);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (group == 0) {
        ptx::setmaxnreg_dec<COPYING_REGISTERS>();
        bring_tiles<BY_TMA>(shared, from, a_map, b_map);
    } else {
        ptx::setmaxnreg_inc<MULTIPLYING_REGISTERS>();
        using part_type = part_of<T, BM / MULTIPLYING, BN>;
        constexpr int DOWN = BM / part_type::ROWS; // parts
        const int row = (group - 1) % DOWN * part_type::ROWS, column = (group - 1) / DOWN * part_type::COLUMNS;
        part_type part;

        multiply_tiles(part, shared, row, column, a.columns);
        store_sums(c + batch * m * n, part, {from.at.row + row, from.at.column + column}, m, n);
    }
}

template <class T, class C>
[[nodiscard]] static cudaError_t launch(const matmul_args *args, cudaStream_t stream)
{
    mapped_operands<T> of;

    if (cudaError_t error = map_operands(&of, args, BM))
        return error;
    const auto kernel = of.by_tma ? matmul_wgmma_specialized<T, C, true> : matmul_wgmma_specialized<T, C, false>;
    constexpr int BYTES = sizeof(specialized_ring<T>);

    if (cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES))
        return error;
    return cover(args->batches, args->m, args->n, BM, BN, [&](dim3 grid, int64_t batch, corner first) {
        kernel<<<grid, BLOCK, BYTES, stream>>>(of.a_map, of.b_map, of.a, of.b, (C *)args->c, batch, first);
        return cudaGetLastError();
    });
}

cudaError_t launch_matmul_wgmma_specialized(const matmul_args *args, cudaStream_t stream)
{
    return with_element_types(
        args, [&](auto in, auto out) { return launch<decltype(in), decltype(out)>(args, stream); });
}
