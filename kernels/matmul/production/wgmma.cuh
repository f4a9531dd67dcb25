// C = A @ B on Hopper's tensor cores, for operands that the TMA can copy: what the rung `wgmma_specialized` leads
// to. One block per multiprocessor computes one tile of C after another; a warpgroup copies, two multiply.
//
// An operand may consist of several parts, whose products are added: see wgmma_split.cuh. Because tensor cores
// round towards zero, such sums are short, and ordinary additions add them (PROMOTE).
#pragma once

#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "../../common/ptx/cp_async_bulk_tensor.cuh"
#include "../../common/ptx/mbarrier.cuh"
#include "../../common/ptx/setmaxnreg.cuh"
#include "../../common/ptx/wgmma.cuh"
#include "../../common/tensor_map.cuh"
#include "kernels.h"
#include "split.cuh"

constexpr int BM = 128, BK = 64;      // of a block's tiles: rows of A, and along k
constexpr int MM = 64, MK = 16;       // of a wgmma: rows of A, and k
constexpr int PANEL = 64;             // elements in the 128 bytes of a tile's row
constexpr int GROUP = 128, WARP = 32; // threads
constexpr int MULTIPLYING = BM / MM;  // warpgroups
constexpr int BLOCK = (1 + MULTIPLYING) * GROUP;
constexpr int SHARED_BYTES = 227 << 10;                            // of a block
constexpr int TILE_ROWS_TOGETHER = 12;                             // tiles that run at the same time form a square
constexpr int COPYING_REGISTERS = 40, MULTIPLYING_REGISTERS = 232; // per thread; of the 168 that all begin with

// One step along k: tiles of PARTS parts of both operands. An operand that is contiguous along k has rows along k;
// another has rows across it, in panels.
template <class T_, int BN_, int PARTS_, bool A_ALONG_K_, bool B_ALONG_K_>
struct step_tiles {
    using T = T_;
    static constexpr int BN = BN_, PARTS = PARTS_;
    static constexpr bool A_ALONG_K = A_ALONG_K_, B_ALONG_K = B_ALONG_K_;

    T a[PARTS][BM * BK], b[PARTS][BN * BK];

    static __device__ uint64_t a_descriptor(const T *tile, int row, int k)
    {
        return ptx::wgmma_descriptor(A_ALONG_K ? &tile[row * BK + k] : &tile[row * BK + k * PANEL],
                                     A_ALONG_K ? 16 : BK * 128);
    }

    static __device__ uint64_t b_descriptor(const T *tile, int k)
    {
        return ptx::wgmma_descriptor(B_ALONG_K ? &tile[k] : &tile[k * PANEL], B_ALONG_K ? 16 : BK * 128);
    }
};

// A warp's rows of C on their way to global memory, ROW_BYTES at a time. Chunk c of row r, 16 bytes, is stored at
// c ^ r % 8.
constexpr int WARP_MM = MM / (GROUP / WARP), ROW_BYTES = 128;

struct row_buffer {
    unsigned char bytes[WARP_MM][ROW_BYTES];
};

template <class T>
struct row_packs {
    static constexpr int SIZE = 16 / (int)sizeof(T), COLUMNS = ROW_BYTES / (int)sizeof(T);
    static constexpr int LANES = COLUMNS / SIZE,
                         ROWS = WARP_MM / (WARP / LANES); // of a row; that a lane has packs of

    // the i-th row of which a lane has a pack, and the pack's first column among COLUMNS
    static __device__ int row(int i)
    {
        return i * (WARP / LANES) + threadIdx.x % WARP / LANES;
    }

    static __device__ int column()
    {
        return threadIdx.x % LANES * SIZE;
    }

    // Calls store(round, i, pack) for the packs of row(i), in rounds of COLUMNS columns. wgmma leaves each lane
    // pairs of neighbours; shared memory exchanges them for packs that are neighbours in C. All lanes of a warp
    // take part.
    template <int N, class Store>
    static __device__ void for_each(row_buffer &buffer, const float (&sum)[N], Store store)
    {
        const int lane = threadIdx.x % WARP;
        const auto chunk = [&](int r, int c) { return &buffer.bytes[r][(c ^ r % 8) * 16]; };

#pragma unroll
        for (int round = 0; round < 2 * N / COLUMNS; round++) {
            __syncwarp(); // the lanes have read the packs of the round before
#pragma unroll
            for (int group = 0; group < COLUMNS / 8; group++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int byte = (group * 8 + lane % 4 * 2) * (int)sizeof(T); // in the row
                    const float *pair = &sum[(round * COLUMNS / 8 + group) * 4 + half * 2];

                    *(pack<T, 2> *)(chunk(half * 8 + lane / 4, byte / 16) +
                                    byte % 16) = {{T(pair[0]), T(pair[1])}};
                }
            __syncwarp(); // all lanes have stored their pairs
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                store(round, i, *(const pack<T, SIZE> *)chunk(row(i), lane % LANES));
        }
    }

    // Stores a pack where one begins.
    static __device__ void store_whole(T *to, const pack<T, SIZE> &x)
    {
        uint4 words;

        memcpy(&words, &x, sizeof words);
        __stwb((uint4 *)to, words); // nvcc splits an assignment
    }

    // Stores a pack anywhere. `left`: how many columns C has from here on.
    static __device__ void store(T *to, int64_t left, const pack<T, SIZE> &x)
    {
#pragma unroll
        for (int e = 0; e < SIZE; e++)
            if (e < left)
                to[e] = x.element[e];
    }

    // Whether rows of n elements begin at multiples of a pack.
    static bool are_whole(const T *c, int64_t n)
    {
        return n % SIZE == 0 && (uintptr_t)c % sizeof(pack<T, SIZE>) == 0;
    }
};

template <class Step>
struct step_ring {
    static constexpr int WARPS = MULTIPLYING * GROUP / WARP; // that multiply
    static constexpr int MBARRIER_BYTES = 256,
                         STAGES =
                             (SHARED_BYTES - MBARRIER_BYTES - WARPS * (int)sizeof(row_buffer)) / (int)sizeof(Step);
    static_assert(STAGES >= 2 && 2 * STAGES * sizeof(uint64_t) <= MBARRIER_BYTES,
                  "a stage is read, another written");

    Step stages[STAGES];
    row_buffer rows[WARPS];
    uint64_t full[STAGES], empty[STAGES]; // a stage's tiles have come; all warps have multiplied them
};

// The tiles of C, in an order in which those that run at the same time share rows and columns of tiles.
struct tile_order {
    int64_t matrices, down, right;

    __host__ __device__ int64_t count() const
    {
        return matrices * down * right;
    }

    // the matrix, and the tile's row and column
    __device__ void place(int64_t tile, int &matrix, int &row, int &column) const
    {
        const int64_t of_matrix = down * right, in_matrix = tile % of_matrix;
        const int64_t first = in_matrix / (TILE_ROWS_TOGETHER * right) * TILE_ROWS_TOGETHER;
        const int64_t rows = min((int64_t)TILE_ROWS_TOGETHER, down - first), index = in_matrix - first * right;

        matrix = (int)(tile / of_matrix);
        row = (int)(first + index % rows);
        column = (int)(index / rows);
    }
};

// A product of operands that have maps. Their matrices are (parts, matrices).
struct mapped_product {
    int64_t m, n, k;
    int a_matrices, b_matrices; // 1: the same for the whole batch
    tile_order order;

    __device__ int a_matrix(int matrix) const
    {
        return a_matrices > 1 ? matrix : 0;
    }

    __device__ int b_matrix(int matrix) const
    {
        return b_matrices > 1 ? matrix : 0;
    }
};

static __device__ inline void wait(uint64_t *mbarrier, unsigned phase)
{
    while (!ptx::mbarrier_try_wait_parity(mbarrier, phase % 2))
        ;
}

// The thread that copies: all steps of those tiles of C that takes(matrix, tile's row, tile's column).
template <class Step, class Takes>
static __device__ void bring_tiles(step_ring<Step> &ring, const mapped_product &p, const CUtensorMap &a_map,
                                   const CUtensorMap &b_map, Takes takes)
{
    constexpr int STAGES = step_ring<Step>::STAGES;
    unsigned turn = 0;

    for (int64_t tile = blockIdx.x; tile < p.order.count(); tile += gridDim.x) {
        int matrix, row, column;

        p.order.place(tile, matrix, row, column);
        if (!takes(matrix, row, column))
            continue;
        for (int k = 0; k < p.k; k += BK, turn++) {
            const unsigned s = turn % STAGES;
            Step &to = ring.stages[s];

            if (turn >= STAGES)
                wait(&ring.empty[s], turn / STAGES - 1);
            ptx::mbarrier_arrive_expect_tx(&ring.full[s], sizeof to);
            for (int part = 0; part < Step::PARTS; part++) {
                const int a_z = part * p.a_matrices + p.a_matrix(matrix);
                const int b_z = part * p.b_matrices + p.b_matrix(matrix);

                if (Step::A_ALONG_K)
                    ptx::cp_async_bulk_tensor_load(to.a[part], &a_map, k, row * BM, a_z, &ring.full[s]);
                else
                    for (int panel = 0; panel < BM / PANEL; panel++)
                        ptx::cp_async_bulk_tensor_load(&to.a[part][panel * PANEL * BK], &a_map,
                                                       row * BM + panel * PANEL, k, a_z, &ring.full[s]);
                if (Step::B_ALONG_K)
                    ptx::cp_async_bulk_tensor_load(to.b[part], &b_map, k, column * Step::BN, b_z, &ring.full[s]);
                else
                    for (int panel = 0; panel < Step::BN / PANEL; panel++)
                        ptx::cp_async_bulk_tensor_load(&to.b[part][panel * PANEL * BK], &b_map,
                                                       column * Step::BN + panel * PANEL, k, b_z, &ring.full[s]);
            }
        }
    }
}

// d (+)= the products of a step's parts whose numbers add up to FIRST down to LAST: the smaller ones first.
template <int FIRST, int LAST, class Step, int N>
static __device__ void multiply_step(float (&d)[N], const Step &of, int row, bool add)
{
#pragma unroll
    for (int order = FIRST; order >= LAST; order--)
#pragma unroll
        for (int part = 0; part <= order; part++)
#pragma unroll
            for (int k = 0; k < BK; k += MK)
                ptx::wgmma_mma_async<!Step::A_ALONG_K, !Step::B_ALONG_K>(
                    d, Step::a_descriptor(of.a[part], row, k), Step::b_descriptor(of.b[order - part], k),
                    add || order < FIRST || part > 0 || k > 0, typename Step::T());
    ptx::wgmma_commit_group();
}

// sum = the same products of one step
template <int FIRST, int LAST, class Step, int N>
static __device__ void sum_step(float (&sum)[N], const Step &of, int row)
{
    ptx::wgmma_fence();
    multiply_step<FIRST, LAST>(sum, of, row, false);
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_fence_accumulators(sum);
}

// sum + rest += x, with what the addition to `sum` rounds off in `rest` (Knuth, "The Art of Computer Programming",
// volume 2, 4.2.2)
static __device__ inline void add_exactly(float &sum, float &rest, float x)
{
    const float both = sum + x, added = both - sum;

    rest += (sum - (both - added)) + (x - added);
    sum = both;
}

// A warpgroup that multiplies: rows [row, row + MM) of each of those tiles. store(buffer, sum, matrix, y, x): of a
// warp's rows, the first of which is y.
template <class Step, bool PROMOTE, class Takes, class Store>
static __device__ void multiply_tiles(step_ring<Step> &ring, const mapped_product &p, int row, Takes takes,
                                      Store store)
{
    constexpr int STAGES = step_ring<Step>::STAGES, N = Step::BN / 2;
    const int warp = threadIdx.x / WARP - GROUP / WARP; // of those that multiply
    unsigned turn = 0;

    const auto release = [&](unsigned s) {
        if (threadIdx.x % WARP == 0)
            ptx::mbarrier_arrive(&ring.empty[s]);
    };

    for (int64_t tile = blockIdx.x; tile < p.order.count(); tile += gridDim.x) {
        int matrix, tile_row, tile_column;
        float sum[N];

        p.order.place(tile, matrix, tile_row, tile_column);
        if (!takes(matrix, tile_row, tile_column))
            continue;
        if constexpr (PROMOTE && Step::PARTS > 2) { // few numbers are to be added as exactly as in float32
            float rest[N], part[N];

#pragma unroll
            for (int e = 0; e < N; e++)
                sum[e] = rest[e] = 0;
            for (int k = 0; k < p.k; k += BK, turn++) {
                const unsigned s = turn % STAGES;

                wait(&ring.full[s], turn / STAGES);
                sum_step<Step::PARTS - 1, 1>(part, ring.stages[s], row);
#pragma unroll
                for (int e = 0; e < N; e++)
                    rest[e] += part[e];
                sum_step<0, 0>(part, ring.stages[s], row);
                release(s);
#pragma unroll
                for (int e = 0; e < N; e++)
                    add_exactly(sum[e], rest[e], part[e]);
            }
#pragma unroll
            for (int e = 0; e < N; e++)
                sum[e] += rest[e];
        } else if constexpr (PROMOTE) {
            float part[N];

#pragma unroll
            for (int e = 0; e < N; e++)
                sum[e] = 0;
            for (int k = 0; k < p.k; k += BK, turn++) {
                const unsigned s = turn % STAGES;

                wait(&ring.full[s], turn / STAGES);
                sum_step<Step::PARTS - 1, 0>(part, ring.stages[s], row);
                release(s);
#pragma unroll
                for (int e = 0; e < N; e++)
                    sum[e] += part[e];
            }
        } else {
            for (int k = 0; k < p.k; k += BK, turn++) {
                const unsigned s = turn % STAGES;

                wait(&ring.full[s], turn / STAGES);
                ptx::wgmma_fence();
                multiply_step<Step::PARTS - 1, 0>(sum, ring.stages[s], row, k > 0);
                ptx::wgmma_wait_group<1>(); // the step before is complete
                if (k > 0)
                    release((turn - 1) % STAGES);
            }
            ptx::wgmma_wait_group<0>();
            ptx::wgmma_fence_accumulators(sum);
            release((turn - 1) % STAGES);
        }
        store(ring.rows[warp], sum, matrix, (int64_t)tile_row * BM + warp * WARP_MM,
              (int64_t)tile_column * Step::BN);
    }
}

template <class Ring>
static __device__ void init_ring(Ring &ring)
{
    if (threadIdx.x == 0) {
        for (int s = 0; s < Ring::STAGES; s++) {
            ptx::mbarrier_init(&ring.full[s], 1);
            ptx::mbarrier_init(&ring.empty[s], Ring::WARPS);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads(); // the mbarriers are initialised before they are used
}

// All of a block's work.
template <class Step, bool PROMOTE, class Takes, class Store>
static __device__ void multiply(step_ring<Step> &ring, const mapped_product &p, const CUtensorMap &a_map,
                                const CUtensorMap &b_map, Takes takes, Store store)
{
    const int group = threadIdx.x / GROUP;

    init_ring(ring);
    if (group == 0) {
        ptx::setmaxnreg_dec<COPYING_REGISTERS>();
        if (threadIdx.x == 0)
            bring_tiles(ring, p, a_map, b_map, takes);
    } else {
        ptx::setmaxnreg_inc<MULTIPLYING_REGISTERS>();
        multiply_tiles<Step, PROMOTE>(ring, p, (group - 1) * MM, takes, store);
    }
}

// The map of an operand's parts. `sides`: of a tile.
template <class Bits, class T>
[[nodiscard]] static cudaError_t map_parts(CUtensorMap *map, const split_operand<T> &x, int parts, int sides)
{
    const bool bfloats = std::is_same_v<T, float> && std::is_same_v<Bits, __nv_bfloat16>;
    const tensor<Bits> all = {(const Bits *)(bfloats ? x.bfloats : x.parts),
                              parts * x.matrices,
                              x.rows,
                              x.columns,
                              x.rows * x.pitch,
                              x.pitch};

    return make_tensor_map(map, all, x.sides_are_rows ? sides : BK);
}

static mapped_product mapped_product_of(const matmul_args *args, int64_t a_matrices, int64_t b_matrices,
                                        int columns)
{
    return {args->m,         args->n,         args->k,
            (int)a_matrices, (int)b_matrices, {args->batches, ceil_div(args->m, BM), ceil_div(args->n, columns)}};
}

template <bool A_ALONG_K_, bool B_ALONG_K_>
struct layouts {
    static constexpr bool A_ALONG_K = A_ALONG_K_, B_ALONG_K = B_ALONG_K_;
};

// Calls f with the operands' layouts as a type.
template <class F>
[[nodiscard]] static cudaError_t with_layouts(bool a_along_k, bool b_along_k, F f)
{
    return a_along_k   ? b_along_k ? f(layouts<true, true>()) : f(layouts<true, false>())
             : b_along_k ? f(layouts<false, true>())
                       : f(layouts<false, false>());
}

template <auto KERNEL, class... Arguments>
[[nodiscard]] static cudaError_t launch_on_multiprocessors(const matmul_args *args, const mapped_product &p,
                                                           cudaStream_t stream, const Arguments &...arguments)
{
    if (cudaError_t error = allow_shared_bytes<KERNEL>(SHARED_BYTES))
        return error;
    return launch<KERNEL>((unsigned)std::min<int64_t>(p.order.count(), args->multiprocessors), BLOCK, SHARED_BYTES,
                          stream, arguments...);
}
