// C = A @ B of operands that the TMA copies: what the kernels for Hopper share, to which the rung
// `persistent` leads. One block per multiprocessor computes one tile of C after another; a warpgroup
// copies, two multiply.
#pragma once

#include <cuda_runtime.h>
#include <cstring>

#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "../../common/ptx/cluster.cuh"
#include "../../common/ptx/cp_async_bulk_tensor.cuh"
#include "../../common/ptx/mbarrier.cuh"
#include "../../common/ptx/setmaxnreg.cuh"
#include "../../common/tensor_map.cuh"
#include "kernels.h"
#include "split.cuh"

constexpr int BM = 128;                                           // rows of a block's tiles of A
constexpr int GROUP = 128, WARP = 32;                             // threads
constexpr int MULTIPLYING = 2, BLOCK = (1 + MULTIPLYING) * GROUP; // warpgroups, threads
constexpr int SHARED_BYTES = 227 << 10;                           // of a block
constexpr int ROW_BYTES = 128;         // of a tile, and of a tile of C before it is stored
constexpr int TILE_ROWS_TOGETHER = 12; // tiles that run at the same time form a square
constexpr int MIN_ROWS_TO_PAD = 8;     // of tiles: then one outside C may be added, so that clusters divide them

// Registers per thread, of the 168 that all begin with. In a cluster copies have more operands.
template <int CLUSTER>
static constexpr int COPYING_REGISTERS = CLUSTER > 1 ? 40 : 24;
template <int CLUSTER>
static constexpr int MULTIPLYING_REGISTERS = CLUSTER > 1 ? 232 : 240;

// One step along k: tiles of PARTS parts of both operands. An operand that is contiguous along k has rows along k;
// another has rows across it, in panels. Chunk c of row r, 16 bytes, is at c ^ r % 8. The blocks of a cluster have
// tiles of C below each other, and so the same tiles of B: each copies its share to all. THIN: some tiles of C
// have fewer columns than BN, see tile_order; B is then loaded some columns at a time.
template <class T_, int BN_, int PARTS_, bool A_ALONG_K_, bool B_ALONG_K_, bool THIN_ = false, int CLUSTER_ = 1>
struct step_tiles {
    using T = T_;
    static constexpr int BN = BN_, PARTS = PARTS_, BK = ROW_BYTES / (int)sizeof(T);
    static constexpr int PANEL = BK; // elements in a row
    static constexpr bool THIN = THIN_;
    static constexpr int COPIED_COLUMNS = THIN ? PANEL : BN; // of B, at a time
    static constexpr int CLUSTER = CLUSTER_;                 // blocks
    static constexpr bool A_ALONG_K = A_ALONG_K_, B_ALONG_K = B_ALONG_K_;

    T a[PARTS][BM * BK], b[PARTS][BN * BK];

    static_assert(TILE_ROWS_TOGETHER % CLUSTER == 0, "neighbours in the order of tiles are below each other");
    static_assert(BK / CLUSTER % 8 == 0 && COPIED_COLUMNS / CLUSTER % 8 == 0, "a share is whole groups of 8 rows");
};

// A warp's rows of C on their way to global memory, ROW_BYTES at a time. Chunk c of row r, 16 bytes, is stored at
// c ^ r % 8; at c ^ 2 r % 8 where a half-warp stores numbers of 8 bytes to two chunks of four rows, and at c ^ 4 r
// % 8 where a quarter-warp stores four chunks of two rows: they are in different banks. (Not all float64: dmma of
// two operands along k, or two across k, has conflicts here.)
constexpr int WARP_MM = 16; // rows of an mma, and of a warp in a wgmma

struct row_buffer {
    unsigned char bytes[WARP_MM][ROW_BYTES];
};

template <class T>
struct row_packs {
    static constexpr int SIZE = 16 / (int)sizeof(T), COLUMNS = ROW_BYTES / (int)sizeof(T);
    static constexpr int LANES = COLUMNS / SIZE;          // that have a pack of the same row
    static constexpr int ROWS = WARP_MM / (WARP / LANES); // of which a lane has packs
    static constexpr int SWIZZLE = sizeof(T) <= 2 ? 1 : std::is_same_v<T, uint64_t> ? 4 : 2; // see above

    // the i-th row of which a lane has a pack, and the pack's first column among COLUMNS
    static __device__ int row(int i)
    {
        return i * (WARP / LANES) + threadIdx.x % WARP / LANES;
    }

    static __device__ int column()
    {
        return threadIdx.x % LANES * SIZE;
    }

    static __device__ T *address(row_buffer &buffer, int r, int column)
    {
        const int byte = column * (int)sizeof(T);

        return (T *)&buffer.bytes[r][(byte / 16 ^ SWIZZLE * r % 8) * 16 + byte % 16];
    }

    // Calls store(i, pack) for the lane's packs of row(i). AT_ONCE: how many calls are unrolled.
    template <int AT_ONCE = ROWS, class Store>
    static __device__ void read(row_buffer &buffer, Store store)
    {
#pragma unroll AT_ONCE
        for (int i = 0; i < ROWS; i++)
            store(i, *(const pack<T, SIZE> *)address(buffer, row(i), column()));
    }

    // Calls visit(round) when the packs of a round of COLUMNS columns can be read, of which the last round may
    // have some beyond the tile's columns, to be ignored. wgmma leaves each lane pairs of neighbours; shared
    // memory exchanges them for packs that are neighbours in C. All lanes of a warp take part.
    template <class Sum, int N, class Visit>
    static __device__ void for_each_round(row_buffer &buffer, const Sum (&sum)[N], Visit visit)
    {
        const int lane = threadIdx.x % WARP;

#pragma unroll
        for (int round = 0; round * COLUMNS < 2 * N; round++) {
            __syncwarp(); // the lanes have read the packs of the round before
#pragma unroll
            for (int group = 0; group < COLUMNS / 8 && round * COLUMNS + group * 8 < 2 * N; group++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const Sum *pair = &sum[(round * COLUMNS / 8 + group) * 4 + half * 2];

                    *(pack<T, 2> *)address(buffer, half * 8 + lane / 4,
                                           group * 8 + lane % 4 * 2) = {{T(pair[0]), T(pair[1])}};
                }
            __syncwarp(); // all lanes have stored their pairs
            visit(round);
        }
    }

    // Calls store(round, i, pack) for the packs of row(i) in each round.
    template <class Sum, int N, class Store>
    static __device__ void for_each(row_buffer &buffer, const Sum (&sum)[N], Store store)
    {
        for_each_round(buffer, sum,
                       [&](int round) { read(buffer, [&](int i, const auto &pack) { store(round, i, pack); }); });
    }

    // Stores a pack where one begins.
    static __device__ void store_whole(T *to, const pack<T, SIZE> &x)
    {
        uint4 words;

        memcpy(&words, &x, sizeof words);
        __stwb((uint4 *)to, words); // an assignment would become narrower stores
    }

    // Stores a pack anywhere, by words where it can. `left`: how many columns may be stored from here on.
    static __device__ void store(T *to, int left, const pack<T, SIZE> &x)
    {
        constexpr int IN_WORD = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1;
        const bool aligned = IN_WORD > 1 && (uintptr_t)to % 4 == 0;

#pragma unroll
        for (int first = 0; first < SIZE; first += IN_WORD) {
            if (aligned && first + IN_WORD <= left) {
                uint32_t word;

                memcpy(&word, &x.element[first], sizeof word);
                *(uint32_t *)&to[first] = word;
            } else
#pragma unroll
                for (int e = first; e < first + IN_WORD; e++)
                    if (e < left)
                        to[e] = x.element[e];
        }
    }

    // Whether rows of n elements begin at multiples of a pack.
    static bool are_whole(const T *c, int64_t n)
    {
        return n % SIZE == 0 && (uintptr_t)c % sizeof(pack<T, SIZE>) == 0;
    }
};

template <class Step>
struct step_ring {
    static constexpr int CLUSTER = Step::CLUSTER;
    static constexpr int WARPS = MULTIPLYING * GROUP / WARP; // of a block, that multiply
    static constexpr int MBARRIER_BYTES = 256,
                         STAGES =
                             (SHARED_BYTES - MBARRIER_BYTES - WARPS * (int)sizeof(row_buffer)) / (int)sizeof(Step);
    static_assert(STAGES >= 2 && 2 * STAGES * sizeof(uint64_t) <= MBARRIER_BYTES,
                  "a stage is read, another written");

    Step stages[STAGES];
    row_buffer rows[WARPS];
    uint64_t full[STAGES],
        empty[STAGES]; // a stage's tiles have come; all warps of the cluster have multiplied them
};

// Where a tile of C is.
struct tile_position {
    int matrix, row, column; // of the matrix' tiles
    bool thin;
};

// What blocks compute: the tiles of C, in an order in which those that run at the same time share rows and columns
// of tiles. The rows of tiles of all matrices are numbered; the first ones are divided into full tiles, the others
// into thin ones, see matmul_choose_widths.
struct tile_order {
    int64_t matrices, down, right;       // rows of tiles in a matrix, full tiles in a row
    int64_t full_rows = matrices * down; // of all matrices
    int64_t thin_right = 0;              // thin tiles in a row
    int thin_columns = 0;                // of C, in a thin tile

    __host__ __device__ int64_t count() const
    {
        return full_rows * right + (matrices * down - full_rows) * thin_right;
    }

    // THIN: there may be thin tiles.
    template <bool THIN = false>
    __device__ tile_position position(int64_t tile) const
    {
        const int64_t full_tiles = full_rows * right;
        const bool thin = THIN && tile >= full_tiles;
        const int64_t in_row = thin ? thin_right : right, index = thin ? tile - full_tiles : tile;
        const int64_t begin = thin ? full_rows : 0, end = thin ? matrices * down : full_rows;
        const int64_t first = begin + index / (TILE_ROWS_TOGETHER * in_row) * TILE_ROWS_TOGETHER;
        const int64_t rows = min((int64_t)TILE_ROWS_TOGETHER, end - first);
        const int64_t among = index - (first - begin) * in_row, row = first + among % rows;

        return {(int)(row / down), (int)(row % down), (int)(among / rows), thin};
    }
};

// Tiles in a list, in which their number comes first.
struct listed_tiles {
    const unsigned *list;

    __device__ int64_t count() const
    {
        return *list;
    }

    __device__ int64_t tile(int64_t index) const
    {
        return list[1 + index];
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

// Starts the copies of a tile of SIDES sides from `side` and k on. CLUSTER: of this block's share, to all blocks.
template <class Step, bool ALONG_K, int SIDES, int CLUSTER = 1>
static __device__ void load_panels(typename Step::T *tile, const CUtensorMap &map, int side, int k, int matrix,
                                   uint64_t *mbarrier)
{
    constexpr int ROWS = (ALONG_K ? SIDES : Step::BK) / CLUSTER; // of each panel
    const int first_row = CLUSTER == 1 ? 0 : (int)ptx::cluster_ctarank() * ROWS;
    const auto load = [&](int panel, int x, int y) {
        auto *const to = &tile[panel * Step::BK + first_row * Step::PANEL];

        if constexpr (CLUSTER > 1)
            ptx::cp_async_bulk_tensor_multicast(to, &map, x, y + first_row, matrix, mbarrier, (1 << CLUSTER) - 1);
        else
            ptx::cp_async_bulk_tensor_load(to, &map, x, y, matrix, mbarrier);
    };

    if (ALONG_K)
        load(0, k, side);
    else
        for (int panel = 0; panel < SIDES; panel += Step::PANEL)
            load(panel, side + panel, k);
}

// Waits until what the stage of a turn held has been multiplied by all warps.
template <class Step>
static __device__ void wait_until_empty(step_ring<Step> &ring, unsigned turn)
{
    constexpr int STAGES = step_ring<Step>::STAGES;

    if (turn >= STAGES)
        wait(&ring.empty[turn % STAGES], turn / STAGES - 1);
}

// Prepares the stage of a turn for the copies of a step: of so many columns of B.
template <int COLUMNS, class Step>
static __device__ Step &begin_stage(step_ring<Step> &ring, unsigned turn)
{
    const unsigned s = turn % step_ring<Step>::STAGES;

    wait_until_empty(ring, turn);
    ptx::mbarrier_arrive_expect_tx(&ring.full[s],
                                   sizeof(Step) - sizeof(Step::b) / Step::BN * (Step::BN - COLUMNS));
    return ring.stages[s];
}

// This warp has multiplied the stage of a turn. In a cluster, one lane per block arrives at that block's mbarrier.
template <class Step>
static __device__ void release_stage(step_ring<Step> &ring, unsigned turn)
{
    uint64_t *const empty = &ring.empty[turn % step_ring<Step>::STAGES];
    const int lane = threadIdx.x % WARP;

    if constexpr (Step::CLUSTER > 1) {
        if (lane < Step::CLUSTER)
            ptx::mbarrier_arrive_at_rank(empty, lane);
    } else if (lane == 0)
        ptx::mbarrier_arrive(empty);
}

// The thread that copies: all steps of a tile of C that has so many columns from `column` on.
template <int COLUMNS, class Step>
static __device__ void bring_tile(step_ring<Step> &ring, const mapped_product &p, const CUtensorMap &a_map,
                                  const CUtensorMap &b_map, int matrix, int row, int column, unsigned &turn)
{
    constexpr int LOADED =
        (COLUMNS + Step::COPIED_COLUMNS - 1) / Step::COPIED_COLUMNS * Step::COPIED_COLUMNS; // columns of B
    static_assert(LOADED <= Step::BN, "they fit in a stage");

    for (int k = 0; k < p.k; k += Step::BK, turn++) {
        uint64_t *const full = &ring.full[turn % step_ring<Step>::STAGES];
        Step &to = begin_stage<LOADED>(ring, turn);

        for (int part = 0; part < Step::PARTS; part++) {
            const int a_z = part * p.a_matrices + p.a_matrix(matrix);
            const int b_z = part * p.b_matrices + p.b_matrix(matrix);

            load_panels<Step, Step::A_ALONG_K, BM>(to.a[part], a_map, row * BM, k, a_z, full);
            for (int from = 0; from < LOADED; from += Step::COPIED_COLUMNS)
                load_panels<Step, Step::B_ALONG_K, Step::COPIED_COLUMNS, Step::CLUSTER>(
                    &to.b[part][from * Step::BK], b_map, column + from, k, b_z, full);
        }
    }
}

// Calls f with a tile's columns as a type.
template <class Step, class F>
static __device__ void with_columns(const tile_order &order, bool thin, F f)
{
    if constexpr (Step::THIN)
        if (thin)
            switch (order.thin_columns) {
#define MATMUL_CASE(columns) \
    case columns:            \
        return f(std::integral_constant<int, columns>());
                MATMUL_THIN_WIDTHS(MATMUL_CASE)
#undef MATMUL_CASE
            default: // matmul_choose_widths chooses no other
                return __trap();
            }
    f(std::integral_constant<int, Step::BN>());
}

// Those tiles of C that takes(matrix, tile's row, tile's column).
template <class Step, class Takes>
static __device__ void bring_tiles(step_ring<Step> &ring, const mapped_product &p, const CUtensorMap &a_map,
                                   const CUtensorMap &b_map, Takes takes)
{
    unsigned turn = 0;

    for (int64_t tile = blockIdx.x; tile < p.order.count(); tile += gridDim.x) {
        const tile_position at = p.order.position<Step::THIN>(tile);

        if (takes(at.matrix, at.row, at.column))
            with_columns<Step>(p.order, at.thin, [&](auto columns) {
                constexpr int COLUMNS = decltype(columns)::value;

                bring_tile<COLUMNS>(ring, p, a_map, b_map, at.matrix, at.row, at.column * COLUMNS, turn);
            });
    }
    if (Step::CLUSTER > 1) // this block's mbarriers are there until the others have arrived
        for (int s = 0; s < step_ring<Step>::STAGES; s++, turn++)
            wait_until_empty(ring, turn);
}

template <class Ring>
static __device__ void init_ring(Ring &ring)
{
    if (threadIdx.x == 0) {
        for (int s = 0; s < Ring::STAGES; s++) {
            ptx::mbarrier_init(&ring.full[s], 1);
            ptx::mbarrier_init(&ring.empty[s], Ring::CLUSTER * Ring::WARPS);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();         // the mbarriers are initialised before they are used
    if (Ring::CLUSTER > 1) { // by other blocks, too
        ptx::barrier_cluster_arrive_relaxed();
        ptx::barrier_cluster_wait();
    }
}

// All of a block's work. copy(): that of the thread that copies; multiply(): that of a thread of the warpgroups
// that multiply.
template <class Step, class Copy, class Multiply>
static __device__ void share_work(step_ring<Step> &ring, Copy copy, Multiply multiply)
{
    init_ring(ring);
    if (threadIdx.x < GROUP) {
        ptx::setmaxnreg_dec<COPYING_REGISTERS<Step::CLUSTER>>();
        if (threadIdx.x == 0)
            copy();
    } else {
        ptx::setmaxnreg_inc<MULTIPLYING_REGISTERS<Step::CLUSTER>>();
        multiply();
    }
}

// A product whose sums are stored as they are.
template <class T>
struct plain_product {
    mapped_product mapped;
    T *c;
    bool whole_packs;
};

// The map of an operand as it lies in memory. `sides`: of a tile; `sharing`: blocks, each of which copies some
// rows.
template <class T>
[[nodiscard]] static cudaError_t make_map_of(CUtensorMap *map, const tensor<T> &x, bool along_k, int sides,
                                             int sharing = 1)
{
    return make_tensor_map(map, x, (along_k ? sides : ROW_BYTES / (int)sizeof(T)) / sharing);
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

    return make_map_of(map, all, x.sides_are_rows, sides);
}

// `cluster`: the number of rows of tiles is a multiple of it, the last ones perhaps outside C.
static mapped_product mapped_product_of(const matmul_args *args, int64_t a_matrices, int64_t b_matrices,
                                        int columns, int cluster = 1)
{
    const int64_t down = ceil_div(ceil_div(args->m, BM), cluster) * cluster;

    return {args->m,         args->n,         args->k,
            (int)a_matrices, (int)b_matrices, {args->batches, down, ceil_div(args->n, columns)}};
}

template <bool A_ALONG_K_, bool B_ALONG_K_, int CLUSTER_>
struct layouts {
    static constexpr bool A_ALONG_K = A_ALONG_K_, B_ALONG_K = B_ALONG_K_;
    static constexpr int CLUSTER = CLUSTER_; // blocks
};

// Calls f with the operands' layouts as a type.
template <int CLUSTER = 1, class F>
[[nodiscard]] static cudaError_t with_layouts(bool a_along_k, bool b_along_k, F f)
{
    return a_along_k   ? b_along_k ? f(layouts<true, true, CLUSTER>()) : f(layouts<true, false, CLUSTER>())
             : b_along_k ? f(layouts<false, true, CLUSTER>())
                       : f(layouts<false, false, CLUSTER>());
}

static int blocks_at_once(const matmul_args *args, int cluster)
{
    return std::max(1, args->multiprocessors / cluster) * cluster;
}

// `items`: of which each block takes one after the other; those of a cluster are neighbours.
template <auto KERNEL, int CLUSTER = 1, class... Arguments>
[[nodiscard]] static cudaError_t launch_on_multiprocessors(const matmul_args *args, int64_t items,
                                                           cudaStream_t stream, const Arguments &...arguments)
{
    if (cudaError_t error = allow_shared_bytes<KERNEL>(SHARED_BYTES))
        return error;
    return launch<KERNEL, CLUSTER>((unsigned)std::min<int64_t>(items, blocks_at_once(args, CLUSTER)), BLOCK,
                                   SHARED_BYTES, stream, arguments...);
}

// Its rows, where they are.
template <class T>
static tensor<T> rows_of(const split_operand<T> &x)
{
    return {x.data.data, x.matrices, x.rows, x.columns, x.data.batch_stride, x.data.row_stride};
}

// Whether the TMA can copy the operand where it is.
template <class T>
static bool has_tensor_map(const split_operand<T> &x)
{
    return x.data.column_stride == 1 && has_tensor_map(rows_of(x));
}

// Launches a product of operands that are multiplied as they are: launch(layouts, product, a's map, b's map). If
// the TMA cannot copy one of them where it is, both are copied to rows that it can, if needed(). COLUMNS: of a
// block's tile of C. COPIED_COLUMNS: of B, at a time. CLUSTER: if rows of an operand begin amid
// sectors of 32 bytes, so many blocks share each tile of B, because the TMA then reads more sectors and limits the
// kernel.
template <class T, int COLUMNS, int COPIED_COLUMNS = COLUMNS, int CLUSTER = 1, class Needed, class Launch>
[[nodiscard]] static cudaError_t launch_plain(const matmul_args *args, cudaStream_t stream, Needed needed,
                                              Launch launch)
{
    const product<T> of = product_of<T>(args);
    const auto matrices = [&](int64_t stride) { return stride ? args->batches : 1; };
    auto a = split_operand_of(of.a, matrices(args->a_batch_stride), args->m, args->k);
    auto b = split_operand_of(of.b.transposed(), matrices(args->b_batch_stride), args->n, args->k);
    const bool where_they_are = has_tensor_map(a) && has_tensor_map(b);
    const int64_t down = ceil_div(args->m, BM);
    const bool few_outside = down % CLUSTER == 0 || down >= MIN_ROWS_TO_PAD;
    const bool shared = CLUSTER > 1 && where_they_are && few_outside &&
                        !(rows_are_sectors(rows_of(a)) && rows_are_sectors(rows_of(b)));
    const int cluster = shared ? CLUSTER : 1;
    const auto map = [&](CUtensorMap *to, const split_operand<T> &x, int sides, int sharing) {
        return where_they_are ? make_map_of(to, rows_of(x), x.sides_are_rows, sides, sharing)
                              : map_parts<T>(to, x, 1, sides);
    };
    const plain_product<T> p = {mapped_product_of(args, a.matrices, b.matrices, COLUMNS, cluster), of.c,
                                row_packs<T>::are_whole(of.c, args->n)};
    CUtensorMap a_map, b_map;
    const auto start = [&](auto along) { return launch(along, p, a_map, b_map); };

    if (cudaError_t error = place_parts(args, 0, (int)sizeof(T) / 2, 0, a, b))
        return error;
    if (!where_they_are)
        if (cudaError_t error = launch_on_tiles<matmul_split_copy<T, Needed>>(a, b, stream, needed))
            return error;
    if (cudaError_t error = map(&a_map, a, BM, 1))
        return error;
    if (cudaError_t error = map(&b_map, b, COPIED_COLUMNS, cluster))
        return error;
    return shared ? with_layouts<CLUSTER>(a.sides_are_rows, b.sides_are_rows, start)
                  : with_layouts(a.sides_are_rows, b.sides_are_rows, start);
}
