// C = A @ B of float64 on Hopper's tensor cores: mma multiplies what warps load from the tiles that the TMA brings
// (tma.cuh).
//
// The idea: eight warps multiply 64 sides of one operand by 16 or 32 of the other each, and wait for nobody but
// the copies, for which they ask before they need them. mma wants its operands in registers that follow each
// other: of the first operand those of two sides, of the second two elements along k. What lanes load, without
// bank conflicts and without moving registers:
// - One operand is contiguous along k: it is the second, and one instruction loads both elements. If it is A, the
//   sums are those of the transpose of C.
// - None is: lanes load elements 2t and 2t + 1 along k of both, one by one.
// - Both are: elements t and t + 4, one by one, of sides that are two apart.
// If the last tiles would leave three quarters of the multiprocessors idle, four blocks share each of them: each
// loads the whole tiles of A and B, and multiplies a quarter. Launch: blocks of 384 threads, one per
// multiprocessor.
#pragma once

#include "../../common/ptx/mma.cuh"
#include "tma.cuh"

constexpr int FIRST = 16, SECOND = 8, DMMA_K = 8; // of an mma: sides of both operands, and k
constexpr int WARPS = MULTIPLYING * GROUP / WARP; // that multiply
constexpr int WARP_FIRST = 64;                    // sides of the first operand, of a warp

// Which elements are those of mma, for a pair of layouts. Lane 4 i + t has those of side i at t and t + 4 along k.
template <bool FIRST_ALONG_K, bool SECOND_ALONG_K>
struct fragments {
    static constexpr bool BOTH_ALONG_K = FIRST_ALONG_K && SECOND_ALONG_K;
    static_assert(!FIRST_ALONG_K || SECOND_ALONG_K, "the second operand is the one along k");

    // The side, among eight, that is mma's side i. Across k a half-warp loads from two chunks of four rows, whose
    // numbers are even or odd. Along k it loads from two chunks of four rows, too, or eight lanes load four chunks
    // of two rows: rows that share no bank differ in bit 1 or 2, or in bit 2.
    template <bool ALONG_K>
    static __device__ int side(int i)
    {
        return BOTH_ALONG_K ? i % 4 * 2 + i / 4 : ALONG_K ? i % 2 * 4 + i / 2 : i;
    }

    // The elements of the lane's side, among eight from `first` on, that mma has at t and t + 4, from k on.
    template <class Step, bool ALONG_K>
    static __device__ double2 load(const double *tile, int first, int k)
    {
        constexpr int ROW = Step::PANEL, V = 2; // elements of a row, and of a chunk
        const int lane = threadIdx.x % WARP, s = first + side<ALONG_K>(lane / 4), t = lane % 4;
        const auto chunk = [](int r, int c) { return r * ROW + (c ^ r % 8) * V; };

        if (BOTH_ALONG_K)
            return make_double2(tile[chunk(s, (k + t) / V) + t % V], tile[chunk(s, (k + t + 4) / V) + t % V]);
        if (ALONG_K)
            return *(const double2 *)&tile[chunk(s, k / V + t)];
        const double *const column = &tile[s / ROW * ROW * Step::BK + s % V];
        const int r = k + 2 * t;

        return make_double2(column[chunk(r, s % ROW / V)], column[chunk(r + 1, s % ROW / V)]);
    }
};

// The roles of a step's operands.
template <class Step>
struct roles {
    static constexpr bool SWAPPED = Step::A_ALONG_K && !Step::B_ALONG_K; // B is the first operand
    static constexpr bool FIRST_ALONG_K = SWAPPED ? Step::B_ALONG_K : Step::A_ALONG_K;
    static constexpr bool SECOND_ALONG_K = SWAPPED ? Step::A_ALONG_K : Step::B_ALONG_K;
    static constexpr int FIRST_SIDES = SWAPPED ? Step::BN : BM, SECOND_SIDES = SWAPPED ? BM : Step::BN;
    static constexpr int DOWN = FIRST_SIDES / WARP_FIRST, RIGHT = WARPS / DOWN; // warps
    static constexpr int WARP_SECOND = SECOND_SIDES / RIGHT;                    // sides of a warp
    static constexpr bool HAS_QUARTERS = WARP_SECOND / SECOND % 4 == 0; // a warp stores sums of two mmas at once
    using fragments = ::fragments<FIRST_ALONG_K, SECOND_ALONG_K>;
};

// A warp's sums, of each pair of an mma's sides, in a tile, or in a quarter of one.
template <class Step, bool QUARTER>
struct warp_sums {
    using R = roles<Step>;
    static constexpr int PARTS = QUARTER ? 2 : 1; // of both sides
    static constexpr int FRAGMENTS = WARP_FIRST / FIRST / PARTS, N = R::WARP_SECOND / SECOND / PARTS;

    struct fragment { // of the first operand, for an mma
        double2 upper, lower;
    };

    double sum[FRAGMENTS][N][4];

    static __device__ fragment load_first(const Step &of, int first, int i, int k)
    {
        using F = typename R::fragments;
        const double *tile = R::SWAPPED ? of.b[0] : of.a[0];

        first += i * FIRST;
        return {F::template load<Step, R::FIRST_ALONG_K>(tile, first, k),
                F::template load<Step, R::FIRST_ALONG_K>(tile, first + FIRST / 2, k)};
    }

    static __device__ void load_second(double2 (&to)[N], const Step &of, int second, int k)
    {
        const double *tile = R::SWAPPED ? of.a[0] : of.b[0];

#pragma unroll
        for (int j = 0; j < N; j++)
            to[j] = R::fragments::template load<Step, R::SECOND_ALONG_K>(tile, second + j * SECOND, k);
    }

    // Adds the products of `length` elements along k, of the sides from `first` and `second` on. While one mma
    // runs the operands of the next are loaded, also those of the next stage, for which the warp has asked an mma
    // before: a warp that waits leaves the tensor core idle.
    __device__ void add(step_ring<Step> &ring, int first, int second, int length, unsigned &turn)
    {
        constexpr int STAGES = step_ring<Step>::STAGES, MMAS = Step::BK / DMMA_K;
        static_assert(MMAS % 2 == 0 && FRAGMENTS % 2 == 0, "a step ends with the registers that it began with");
        fragment left[2];
        double2 right[2][N];

        wait(&ring.full[turn % STAGES], turn / STAGES);
        load_second(right[0], ring.stages[turn % STAGES], second, 0);
        left[0] = load_first(ring.stages[turn % STAGES], first, 0, 0);
        for (int done = 0; done < length; done += Step::BK, turn++) {
            const Step &of = ring.stages[turn % STAGES];
            const unsigned s = (turn + 1) % STAGES, phase = (turn + 1) / STAGES;
            const bool more = done + Step::BK < length;
            bool ready = false;

#pragma unroll
            for (int q = 0; q < MMAS; q++)
#pragma unroll
                for (int i = 0; i < FRAGMENTS; i++) {
                    fragment &next = left[(i + 1) % 2];

                    if (q == MMAS - 1 && i == 0 && more)
                        ready = ptx::mbarrier_try_wait_parity(&ring.full[s], phase % 2);
                    if (i < FRAGMENTS - 1) {
                        next = load_first(of, first, i + 1, q * DMMA_K);
                    } else if (q < MMAS - 1) {
                        load_second(right[(q + 1) % 2], of, second, (q + 1) * DMMA_K);
                        next = load_first(of, first, 0, (q + 1) * DMMA_K);
                    } else {
                        __syncwarp(); // all lanes have loaded before the stage is released
                        release_stage(ring, turn);
                        if (more) {
                            if (!ready)
                                wait(&ring.full[s], phase);
                            load_second(right[0], ring.stages[s], second, 0);
                            next = load_first(ring.stages[s], first, 0, 0);
                        }
                    }
#pragma unroll
                    for (int j = 0; j < N; j++) {
                        const fragment &x = left[i % 2];
                        const double2 &y = right[q % 2][j];

                        ptx::mma_m16n8k8_f64(sum[i][j], {x.upper.x, x.lower.x, x.upper.y, x.lower.y}, {y.x, y.y},
                                             sum[i][j]);
                    }
                }
        }
    }

    // Stores them; the sides begin at (y, x) of C.
    __device__ void store(row_buffer &buffer, const plain_product<double> &p, int matrix, int64_t y,
                          int64_t x) const
    {
        using packs = row_packs<double>;
        const int lane = threadIdx.x % WARP;
        const int64_t m = p.mapped.m, n = p.mapped.n;

#pragma unroll
        for (int i = 0; i < FRAGMENTS; i++)
#pragma unroll
            for (int j = 0; j < N; j += 2) { // 16 x 16 sums
                __syncwarp();                // the lanes have read the sums before
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    const int second =
                        R::fragments::template side<R::SECOND_ALONG_K>(lane % 4 * 2 + e % 2) + e / 4 * 8;
                    const int first = R::fragments::template side<R::FIRST_ALONG_K>(lane / 4) + e / 2 % 2 * 8;

                    *packs::address(buffer, R::SWAPPED ? second : first, R::SWAPPED ? first : second) =
                        sum[i][j + e / 4][e % 4];
                }
                __syncwarp(); // all lanes have stored theirs
                const int64_t row = y + (R::SWAPPED ? j * SECOND : i * FIRST);
                const int64_t column = x + (R::SWAPPED ? i * FIRST : j * SECOND) + packs::column();

                packs::read(buffer, [&](int r, const auto &pack) {
                    double *const to = &p.c[(matrix * m + row + packs::row(r)) * n + column];

                    if (row + packs::row(r) < m && column < n) {
                        if (p.whole_packs)
                            packs::store_whole(to, pack);
                        else
                            packs::store(to, (int)(n - column), pack);
                    }
                });
            }
    }
};

// A warp's part of a tile, or of one of its quarters.
template <bool QUARTER, class Step>
static __device__ void multiply_tile(step_ring<Step> &ring, const plain_product<double> &p, int64_t tile,
                                     int quarter, unsigned &turn)
{
    using R = roles<Step>;
    using sums_type = warp_sums<Step, QUARTER>;
    constexpr int PARTS = sums_type::PARTS;
    const int warp = threadIdx.x / WARP - GROUP / WARP; // of those that multiply
    const tile_position at = p.mapped.order.position(tile);
    const int first = (warp / R::RIGHT * WARP_FIRST + quarter / 2 * R::FIRST_SIDES) / PARTS;
    const int second = (warp % R::RIGHT * R::WARP_SECOND + quarter % 2 * R::SECOND_SIDES) / PARTS;
    sums_type sums = {};

    sums.add(ring, first, second, (int)p.mapped.k, turn);
    sums.store(ring.rows[warp], p, at.matrix, (int64_t)at.row * BM + (R::SWAPPED ? second : first),
               (int64_t)at.column * Step::BN + (R::SWAPPED ? first : second));
}

// All tiles of an order, of which the last may be divided into quarters. Items are the whole tiles, then quarters.
struct all_tiles {
    int64_t whole, divided;

    __device__ int64_t count() const
    {
        return whole + MATMUL_QUARTERS * divided;
    }

    __device__ int64_t tile(int64_t item) const
    {
        return item < whole ? item : whole + (item - whole) / MATMUL_QUARTERS;
    }

    // the quarter's number; -1 for a whole tile
    __device__ int quarter(int64_t item) const
    {
        return item < whole ? -1 : (int)((item - whole) % MATMUL_QUARTERS);
    }
};

// Calls visit(tile, quarter) for each tile, and quarter of one, that the block has. quarter: -1 for a whole tile,
// as listed tiles are.
template <class Tiles, class Visit>
static __device__ void for_each_item(Tiles tiles, Visit visit)
{
    for (int64_t i = blockIdx.x; i < tiles.count(); i += gridDim.x)
        if constexpr (std::is_same_v<Tiles, all_tiles>)
            visit(tiles.tile(i), tiles.quarter(i));
        else
            visit(tiles.tile(i), -1);
}

template <class Step, class Tiles>
static __global__ void __launch_bounds__(BLOCK, 1)
    matmul_doubles(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                   const plain_product<double> p, Tiles tiles)
{
    extern __shared__ __align__(1024) unsigned char bytes[];
    step_ring<Step> &ring = *(step_ring<Step> *)bytes;

    pdl_wait();
    share_work(
        ring,
        [&] {
            unsigned turn = 0;

            for_each_item(tiles, [&](int64_t tile, int) {
                const tile_position at = p.mapped.order.position(tile);

                bring_tile<Step::BN>(ring, p.mapped, a_map, b_map, at.matrix, at.row, at.column * Step::BN, turn);
            });
        },
        [&] {
            unsigned turn = 0;

            for_each_item(tiles, [&](int64_t tile, int quarter) {
                if (quarter < 0)
                    multiply_tile<false>(ring, p, tile, 0, turn);
                else if constexpr (roles<Step>::HAS_QUARTERS)
                    multiply_tile<true>(ring, p, tile, quarter, turn);
            });
        });
}

// COLUMNS: of a block's tile of C. Without a list of tiles, all are multiplied; needed() says on the device
// whether a list has any.
template <int COLUMNS, class Tiles = all_tiles, class Needed = always>
[[nodiscard]] static cudaError_t launch_dmma(const matmul_args *args, cudaStream_t stream, Tiles tiles = {},
                                             Needed needed = {})
{
    return launch_plain<double, COLUMNS>(
        args, stream, needed, [&](auto along, auto p, const auto &a_map, const auto &b_map) {
            using A = decltype(along);
            using Step = step_tiles<double, COLUMNS, 1, A::A_ALONG_K, A::B_ALONG_K>;
            int64_t items = p.mapped.order.count();

            if constexpr (std::is_same_v<Tiles, all_tiles>) {
                if (roles<Step>::HAS_QUARTERS)
                    tiles.divided = matmul_quartered_tiles(items, args->multiprocessors);
                tiles.whole = items - tiles.divided;
                items = tiles.whole + MATMUL_QUARTERS * tiles.divided;
            }
            return launch_on_multiprocessors<matmul_doubles<Step, Tiles>>(args, items, stream, a_map, b_map, p,
                                                                          tiles);
        });
}
