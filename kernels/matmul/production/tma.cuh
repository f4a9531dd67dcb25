// C = A @ B of operands that the TMA copies: what the kernels for Hopper share, to which the rung
// `persistent` leads. One block per multiprocessor computes one tile of C after another; a warpgroup
// copies, two multiply.
#pragma once

#include <cuda_runtime.h>
#include <cstring>

#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
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
constexpr int COPYING_REGISTERS = 24, MULTIPLYING_REGISTERS = 240; // per thread; of the 168 that all begin with

// One step along k: tiles of PARTS parts of both operands. An operand that is contiguous along k has rows along k;
// another has rows across it, in panels. Chunk c of row r, 16 bytes, is at c ^ r % 8.
template <class T_, int BN_, int PARTS_, bool A_ALONG_K_, bool B_ALONG_K_>
struct step_tiles {
    using T = T_;
    static constexpr int BN = BN_, PARTS = PARTS_, BK = ROW_BYTES / (int)sizeof(T);
    static constexpr int PANEL = BK; // elements in a row
    static constexpr bool A_ALONG_K = A_ALONG_K_, B_ALONG_K = B_ALONG_K_;

    T a[PARTS][BM * BK], b[PARTS][BN * BK];
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

    // Calls store(i, pack) for the lane's packs of row(i).
    template <class Store>
    static __device__ void read(row_buffer &buffer, Store store)
    {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            store(i, *(const pack<T, SIZE> *)address(buffer, row(i), column()));
    }

    // Calls store(round, i, pack) for the packs of row(i), in rounds of COLUMNS columns. wgmma leaves each lane
    // pairs of neighbours; shared memory exchanges them for packs that are neighbours in C. All lanes of a warp
    // take part.
    template <class Sum, int N, class Store>
    static __device__ void for_each(row_buffer &buffer, const Sum (&sum)[N], Store store)
    {
        const int lane = threadIdx.x % WARP;

#pragma unroll
        for (int round = 0; round < 2 * N / COLUMNS; round++) {
            __syncwarp(); // the lanes have read the packs of the round before
#pragma unroll
            for (int group = 0; group < COLUMNS / 8; group++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const Sum *pair = &sum[(round * COLUMNS / 8 + group) * 4 + half * 2];

                    *(pack<T, 2> *)address(buffer, half * 8 + lane / 4,
                                           group * 8 + lane % 4 * 2) = {{T(pair[0]), T(pair[1])}};
                }
            __syncwarp(); // all lanes have stored their pairs
            read(buffer, [&](int i, const auto &pack) { store(round, i, pack); });
        }
    }

    // Stores a pack where one begins.
    static __device__ void store_whole(T *to, const pack<T, SIZE> &x)
    {
        uint4 words;

        memcpy(&words, &x, sizeof words);
        __stwb((uint4 *)to, words); // an assignment would become narrower stores
    }

    // Stores a pack anywhere, by words where it can. `left`: how many columns C has from here on.
    static __device__ void store(T *to, int64_t left, const pack<T, SIZE> &x)
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

// What blocks compute: the tiles of C, in an order in which those that run at the same time share rows and columns
// of tiles. Of the last tiles some may be divided into quarters.
struct tile_order {
    int64_t matrices, down, right;
    int64_t quartered = 0; // tiles

    __host__ __device__ int64_t tiles() const
    {
        return matrices * down * right;
    }

    // how many tiles and quarters
    __host__ __device__ int64_t count() const
    {
        return tiles() + 3 * quartered;
    }

    // the quarter's number, 0 to 3; -1 for a whole tile
    __device__ int quarter(int64_t item) const
    {
        const int64_t whole = tiles() - quartered;

        return item < whole ? -1 : (int)((item - whole) % 4);
    }

    // the matrix, and the tile's row and column
    __device__ void position(int64_t item, int &matrix, int &row, int &column) const
    {
        const int64_t whole = tiles() - quartered, tile = item < whole ? item : whole + (item - whole) / 4;
        const int64_t of_matrix = down * right, in_matrix = tile % of_matrix;
        const int64_t first = in_matrix / (TILE_ROWS_TOGETHER * right) * TILE_ROWS_TOGETHER;
        const int64_t rows = min((int64_t)TILE_ROWS_TOGETHER, down - first), index = in_matrix - first * right;

        matrix = (int)(tile / of_matrix);
        row = (int)(first + index % rows);
        column = (int)(index / rows);
    }
};

// Which tiles of an order: all of them, and quarters,
struct all_tiles {
    __device__ int64_t count(const tile_order &order) const
    {
        return order.count();
    }

    __device__ int64_t item(int64_t index) const
    {
        return index;
    }
};

// or those in a list, in which their number comes first.
struct listed_tiles {
    const unsigned *list;

    __device__ int64_t count(const tile_order &) const
    {
        return *list;
    }

    __device__ int64_t item(int64_t index) const
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

// Starts the copies of a tile of SIDES sides from `side` and k on.
template <class Step, bool ALONG_K, int SIDES>
static __device__ void load_panels(typename Step::T *tile, const CUtensorMap &map, int side, int k, int matrix,
                                   uint64_t *mbarrier)
{
    if (ALONG_K)
        ptx::cp_async_bulk_tensor_load(tile, &map, k, side, matrix, mbarrier);
    else
        for (int panel = 0; panel < SIDES; panel += Step::PANEL)
            ptx::cp_async_bulk_tensor_load(&tile[panel * Step::BK], &map, side + panel, k, matrix, mbarrier);
}

// Prepares the stage of a turn for the copies of a whole step: what it held has been multiplied by all warps.
template <class Step>
static __device__ Step &begin_stage(step_ring<Step> &ring, unsigned turn)
{
    constexpr int STAGES = step_ring<Step>::STAGES;
    const unsigned s = turn % STAGES;

    if (turn >= STAGES)
        wait(&ring.empty[s], turn / STAGES - 1);
    ptx::mbarrier_arrive_expect_tx(&ring.full[s], sizeof(Step));
    return ring.stages[s];
}

// This warp has multiplied the stage of a turn.
template <class Step>
static __device__ void release_stage(step_ring<Step> &ring, unsigned turn)
{
    if (threadIdx.x % WARP == 0)
        ptx::mbarrier_arrive(&ring.empty[turn % step_ring<Step>::STAGES]);
}

// The thread that copies: all steps of a tile of C.
template <class Step>
static __device__ void bring_tile(step_ring<Step> &ring, const mapped_product &p, const CUtensorMap &a_map,
                                  const CUtensorMap &b_map, int matrix, int row, int column, unsigned &turn)
{
    for (int k = 0; k < p.k; k += Step::BK, turn++) {
        uint64_t *const full = &ring.full[turn % step_ring<Step>::STAGES];
        Step &to = begin_stage(ring, turn);

        for (int part = 0; part < Step::PARTS; part++) {
            const int a_z = part * p.a_matrices + p.a_matrix(matrix);
            const int b_z = part * p.b_matrices + p.b_matrix(matrix);

            load_panels<Step, Step::A_ALONG_K, BM>(to.a[part], a_map, row * BM, k, a_z, full);
            load_panels<Step, Step::B_ALONG_K, Step::BN>(to.b[part], b_map, column * Step::BN, k, b_z, full);
        }
    }
}

// Those tiles of C that takes(matrix, tile's row, tile's column).
template <class Step, class Takes>
static __device__ void bring_tiles(step_ring<Step> &ring, const mapped_product &p, const CUtensorMap &a_map,
                                   const CUtensorMap &b_map, Takes takes)
{
    unsigned turn = 0;

    for (int64_t tile = blockIdx.x; tile < p.order.count(); tile += gridDim.x) {
        int matrix, row, column;

        p.order.position(tile, matrix, row, column);
        if (takes(matrix, row, column))
            bring_tile(ring, p, a_map, b_map, matrix, row, column, turn);
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

// All of a block's work. copy(): that of the thread that copies; multiply(): that of a thread of the warpgroups
// that multiply.
template <class Step, class Copy, class Multiply>
static __device__ void share_work(step_ring<Step> &ring, Copy copy, Multiply multiply)
{
    init_ring(ring);
    if (threadIdx.x < GROUP) {
        ptx::setmaxnreg_dec<COPYING_REGISTERS>();
        if (threadIdx.x == 0)
            copy();
    } else {
        ptx::setmaxnreg_inc<MULTIPLYING_REGISTERS>();
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

// The map of an operand as it lies in memory. `sides`: of a tile.
template <class T>
[[nodiscard]] static cudaError_t make_map_of(CUtensorMap *map, const tensor<T> &x, bool along_k, int sides)
{
    return make_tensor_map(map, x, along_k ? sides : ROW_BYTES / (int)sizeof(T));
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

// `items`: of which each block takes one after the other.
template <auto KERNEL, class... Arguments>
[[nodiscard]] static cudaError_t launch_on_multiprocessors(const matmul_args *args, int64_t items,
                                                           cudaStream_t stream, const Arguments &...arguments)
{
    if (cudaError_t error = allow_shared_bytes<KERNEL>(SHARED_BYTES))
        return error;
    return launch<KERNEL>((unsigned)std::min<int64_t>(items, args->multiprocessors), BLOCK, SHARED_BYTES, stream,
                          arguments...);
}

// Whether the TMA can copy the operand where it is.
template <class T>
static bool has_tensor_map(const split_operand<T> &x)
{
    return x.data.column_stride == 1 && has_tensor_map(tensor<T>{x.data.data, x.matrices, x.rows, x.columns,
                                                                 x.data.batch_stride, x.data.row_stride});
}

// Whether its rows begin at sectors of 32 bytes.
template <class T>
static bool rows_are_sectors(const split_operand<T> &x)
{
    constexpr int64_t SECTOR = 32 / sizeof(T);

    return (uintptr_t)x.data.data % 32 == 0 && x.data.row_stride % SECTOR == 0 &&
           x.data.batch_stride % SECTOR == 0;
}

// Launches a product of operands that are multiplied as they are: launch(layouts, product, a's map, b's map). If
// the TMA cannot copy one of them where it is, or only so slowly that it does not pay, both are copied to rows
// that it can, if needed(). COLUMNS: of a block's tile of C.
template <class T, int COLUMNS, class Needed, class Launch>
[[nodiscard]] static cudaError_t launch_plain(const matmul_args *args, cudaStream_t stream, Needed needed,
                                              Launch launch)
{
    const product<T> of = product_of<T>(args);
    const auto matrices = [&](int64_t stride) { return stride ? args->batches : 1; };
    auto a = split_operand_of(of.a, matrices(args->a_batch_stride), args->m, args->k);
    auto b = split_operand_of(of.b.transposed(), matrices(args->b_batch_stride), args->n, args->k);
    const bool slow = sizeof(T) == 2 && !(rows_are_sectors(a) && rows_are_sectors(b)) &&
                      matmul_copies_half_sectors(args->m, args->n);
    const bool where_they_are = has_tensor_map(a) && has_tensor_map(b) && !slow;
    const auto map = [&](CUtensorMap *to, const split_operand<T> &x, int sides) {
        return where_they_are ? make_map_of(to,
                                            tensor<T>{x.data.data, x.matrices, x.rows, x.columns,
                                                      x.data.batch_stride, x.data.row_stride},
                                            x.sides_are_rows, sides)
                              : map_parts<T>(to, x, 1, sides);
    };
    const plain_product<T> p = {mapped_product_of(args, a.matrices, b.matrices, COLUMNS), of.c,
                                row_packs<T>::are_whole(of.c, args->n)};
    CUtensorMap a_map, b_map;

    if (cudaError_t error = place_parts(args, 0, (int)sizeof(T) / 2, 0, a, b))
        return error;
    if (!where_they_are)
        if (cudaError_t error = launch_on_tiles<matmul_split_copy<T, Needed>>(a, b, stream, needed))
            return error;
    if (cudaError_t error = map(&a_map, a, BM))
        return error;
    if (cudaError_t error = map(&b_map, b, COLUMNS))
        return error;
    return with_layouts(a.sides_are_rows, b.sides_are_rows,
                        [&](auto along) { return launch(along, p, a_map, b_map); });
}
