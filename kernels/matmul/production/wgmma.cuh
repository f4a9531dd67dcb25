// C = A @ B on Hopper's tensor cores, whose operands lie in shared memory: see tma.cuh.
//
// An operand may consist of several parts, whose products are added: see wgmma_split.cuh. Because tensor cores
// round towards zero, such sums are short, and ordinary additions add them (PROMOTE).
#pragma once

#include "../../common/ptx/wgmma.cuh"
#include "tma.cuh"

constexpr int MM = 64, MK = 16; // of a wgmma: rows of A, and k
static_assert(BM == MULTIPLYING * MM && WARP_MM * GROUP == MM * WARP, "a warpgroup has the rows of a wgmma");

template <class Step>
static __device__ uint64_t a_descriptor(const typename Step::T *tile, int row, int k)
{
    return ptx::wgmma_descriptor(Step::A_ALONG_K ? &tile[row * Step::BK + k]
                                                 : &tile[row * Step::BK + k * Step::PANEL],
                                 Step::A_ALONG_K ? 16 : Step::BK * ROW_BYTES);
}

template <class Step>
static __device__ uint64_t b_descriptor(const typename Step::T *tile, int k)
{
    return ptx::wgmma_descriptor(Step::B_ALONG_K ? &tile[k] : &tile[k * Step::PANEL],
                                 Step::B_ALONG_K ? 16 : Step::BK * ROW_BYTES);
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
            for (int k = 0; k < Step::BK; k += MK)
                ptx::wgmma_mma_async<!Step::A_ALONG_K, !Step::B_ALONG_K>(
                    d, a_descriptor<Step>(of.a[part], row, k), b_descriptor<Step>(of.b[order - part], k),
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
    ptx::wgmma_fence_registers(sum);
}

// sum + rest += x, with what the addition to `sum` rounds off in `rest` (Knuth, "The Art of Computer Programming",
// volume 2, 4.2.2)
static __device__ inline void add_exactly(float &sum, float &rest, float x)
{
    const float both = sum + x, added = both - sum;

    rest += (sum - (both - added)) + (x - added);
    sum = both;
}

// Those that multiply: `count` steps from `turn` on. multiply(stage, i) starts the products of the i-th, as one
// group; each stage is released when they are complete.
template <class Step, class Multiply>
static __device__ void multiply_steps(step_ring<Step> &ring, unsigned &turn, int64_t count, Multiply multiply)
{
    constexpr int STAGES = step_ring<Step>::STAGES;

    for (int64_t i = 0; i < count; i++, turn++) {
        const unsigned s = turn % STAGES;

        wait(&ring.full[s], turn / STAGES);
        ptx::wgmma_fence();
        multiply(ring.stages[s], i);
        ptx::wgmma_wait_group<1>(); // the step before is complete
        if (i > 0)
            release_stage(ring, turn - 1);
    }
    ptx::wgmma_wait_group<0>();
    release_stage(ring, turn - 1);
}

// sum = the products of all steps, of as many columns as there are sums
template <bool PROMOTE, class Step, int N>
static __device__ void sum_along_k(float (&sum)[N], step_ring<Step> &ring, int64_t length, int row, unsigned &turn)
{
    constexpr int STAGES = step_ring<Step>::STAGES;

    if constexpr (!PROMOTE) {
        multiply_steps(ring, turn, ceil_div(length, Step::BK),
                       [&](const Step &of, int64_t i) { multiply_step<Step::PARTS - 1, 0>(sum, of, row, i > 0); });
        ptx::wgmma_fence_registers(sum);
    } else if constexpr (Step::PARTS > 2) { // few numbers are to be added as exactly as in float32
        float rest[N], part[N];

#pragma unroll
        for (int e = 0; e < N; e++)
            sum[e] = rest[e] = 0;
        for (int k = 0; k < length; k += Step::BK, turn++) {
            const unsigned s = turn % STAGES;

            wait(&ring.full[s], turn / STAGES);
            sum_step<Step::PARTS - 1, 1>(part, ring.stages[s], row);
#pragma unroll
            for (int e = 0; e < N; e++)
                rest[e] += part[e];
            sum_step<0, 0>(part, ring.stages[s], row);
            release_stage(ring, turn);
#pragma unroll
            for (int e = 0; e < N; e++)
                add_exactly(sum[e], rest[e], part[e]);
        }
#pragma unroll
        for (int e = 0; e < N; e++)
            sum[e] += rest[e];
    } else {
        float part[N];

#pragma unroll
        for (int e = 0; e < N; e++)
            sum[e] = 0;
        for (int k = 0; k < length; k += Step::BK, turn++) {
            const unsigned s = turn % STAGES;

            wait(&ring.full[s], turn / STAGES);
            sum_step<Step::PARTS - 1, 0>(part, ring.stages[s], row);
            release_stage(ring, turn);
#pragma unroll
            for (int e = 0; e < N; e++)
                sum[e] += part[e];
        }
    }
}

// A warpgroup that multiplies: rows [row, row + MM) of each of the tiles of C that takes(matrix, tile's row,
// tile's column). store(buffer, sum, matrix, y, x): of a warp's rows, the first of which is y.
template <class Step, bool PROMOTE, class Takes, class Store>
static __device__ void multiply_tiles(step_ring<Step> &ring, const mapped_product &p, int row, Takes takes,
                                      Store store)
{
    const int warp = threadIdx.x / WARP - GROUP / WARP; // of those that multiply
    unsigned turn = 0;

    for (int64_t tile = blockIdx.x; tile < p.order.count(); tile += gridDim.x) {
        const tile_position at = p.order.position<Step::THIN>(tile);
        float sums[Step::BN / 2]; // of tiles of any width: several arrays would take too many registers

        if (takes(at.matrix, at.row, at.column))
            with_columns<Step>(p.order, at.thin, [&](auto columns) {
                constexpr int COLUMNS = decltype(columns)::value;
                float(&sum)[COLUMNS / 2] = *(float(*)[COLUMNS / 2]) sums;

                sum_along_k<PROMOTE>(sum, ring, p.k, row, turn);
                store(ring.rows[warp], sum, at.matrix, (int64_t)at.row * BM + warp * WARP_MM,
                      (int64_t)at.column * COLUMNS);
            });
    }
}

// Stores a warp's rows of a tile, whose first element is (y, x).
template <class T, class Sum, int N>
static __device__ void store_rows(row_buffer &buffer, const plain_product<T> &p, const Sum (&sum)[N], int matrix,
                                  int64_t y, int64_t x)
{
    using packs = row_packs<T>;
    const int64_t n = p.mapped.n, first_row = y + packs::row(0);
    const int left = (int)min(n - x, (int64_t)2 * N) - packs::column(); // of the tile's columns
    const int rows = (int)min(p.mapped.m - first_row, (int64_t)WARP_MM);
    T *const c = &p.c[(matrix * p.mapped.m + first_row) * n + x + packs::column()];

    packs::for_each_round(buffer, sum, [&](int round) {
        const int right = round * packs::COLUMNS;
        const auto store = [&](int i, const auto &pack, auto whole_packs) {
            const int down = packs::row(i) - packs::row(0);

            if (down >= rows || right >= left)
                return;
            if constexpr (decltype(whole_packs)::value)
                packs::store_whole(&c[down * n + right], pack);
            else
                packs::store(&c[down * n + right], left - right, pack);
        };

        if (p.whole_packs)
            packs::read(buffer, [&](int i, const auto &pack) { store(i, pack, std::true_type()); });
        else // one after another: unrolled, these stores would be half of the kernel
            packs::template read<1>(buffer, [&](int i, const auto &pack) { store(i, pack, std::false_type()); });
    });
}

// All of a block's work, with wgmma.
template <class Step, bool PROMOTE, class Takes, class Store>
static __device__ void multiply(step_ring<Step> &ring, const mapped_product &p, const CUtensorMap &a_map,
                                const CUtensorMap &b_map, Takes takes, Store store)
{
    share_work(
        ring, [&] { bring_tiles(ring, p, a_map, b_map, takes); },
        [&] { multiply_tiles<Step, PROMOTE>(ring, p, (threadIdx.x / GROUP - 1) * MM, takes, store); });
}
