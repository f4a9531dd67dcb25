// C = A @ B in float32 for many small matrices.
//
// The idea: a block that multiplies two matrices of 64 x 64 elements waits for them as long as it multiplies. So
// there are only as many blocks as run at once, and each computes one tile of a C after the other: while it
// multiplies a pair of tiles of A and B, the next pairs, of the same C or of the next one, are being copied to
// shared memory. Unlike in pipelined.cuh, A's tile keeps its rows, because 16 bytes along k can then be copied and
// read at once; a thread has registers for them, for its tile of C is small. Beyond the edges tiles are filled
// with zeros. Launch: blocks of 128 threads, or of 32 if C fits smaller tiles better; at most as many as run at
// once.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "../lanes.cuh"
#include "product.cuh"

// SIDE x SIDE elements of C; DEPTH along k in a pair of tiles; BLOCKS per multiprocessor.
template <int SIDE_, int DEPTH_, int BLOCKS_>
struct batch_tile {
    static constexpr int SIDE = SIDE_, DEPTH = DEPTH_, BLOCKS = BLOCKS_;
    static constexpr int V = 4, PAD = V, TM = 8, TN = V;               // in 16 bytes; elements of C per thread
    static constexpr int WM = LANES_DOWN * TM, WN = LANES_ACROSS * TN; // and per warp
    static constexpr int BLOCK = SIDE / WM * (SIDE / WN) * 32;         // threads

    alignas(16) float a[SIDE][DEPTH + PAD];
    alignas(16) float b[DEPTH][SIDE + PAD];
};

using wide_tile = batch_tile<64, 32, 4>;
using narrow_tile = batch_tile<32, 32, 11>;

// Without packs a thread needs more registers.
template <class Tile, int N>
constexpr int blocks_at_once = N == 1 ? Tile::BLOCKS - 1 : Tile::BLOCKS;

// Which pair of tiles a block copies or multiplies.
struct position {
    int64_t tile; // of all tiles of all C
    int pair;     // of those along k
};

// Starts a block's copies of the tile of x (rows, columns) at (top, left), by packs of N elements.
template <class Tile, int N, int ROWS, int PITCH>
static __device__ void copy_tile(const float *x, int64_t row_stride, int64_t column_stride, int64_t rows,
                                 int64_t columns, int64_t top, int64_t left, float (&tile)[ROWS][PITCH])
{
    constexpr int COLUMNS = PITCH - Tile::PAD;
    constexpr int LANES = COLUMNS / N, STEP = Tile::BLOCK / LANES; // threads along a row; rows at once
    static_assert(STEP * LANES == Tile::BLOCK && ROWS % STEP == 0, "each thread copies as much");
    const int row = threadIdx.x / LANES, column = threadIdx.x % LANES * N;
    const float *from = x + (top + row) * row_stride + (left + column) * column_stride;
    const bool whole = top + ROWS <= rows && left + COLUMNS <= columns; // then no copy needs a test

    if (whole) {
#pragma unroll
        for (int i = 0; i < ROWS; i += STEP, from += STEP * row_stride)
            __pipeline_memcpy_async(&tile[row + i][column], from, 4 * N);
        return;
    }
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP, from += STEP * row_stride) {
        const bool inside = top + row + i < rows && left + column < columns;

        __pipeline_memcpy_async(&tile[row + i][column], inside ? from : x, 4 * N, inside ? 0 : 4 * N);
    }
}

// Adds `depth` products to each of a thread's sums, and zeros up to a multiple of 4.
template <class Tile>
static __device__ void multiply_pair(const Tile &pair, int depth, int row, int column,
                                     float (&sum)[Tile::TM][Tile::TN])
{
    constexpr int V = Tile::V;

#pragma unroll 2
    for (int k = 0; k < depth; k += V) {
        alignas(16) float a[Tile::TM][V], b[Tile::TN];

        for (int i = 0; i < Tile::TM; i++)
            *(float4 *)a[i] = *(const float4 *)&pair.a[row + i * LANES_DOWN][k];
#pragma unroll
        for (int q = 0; q < V; q++) {
            *(float4 *)b = *(const float4 *)&pair.b[k + q][column];
            for (int i = 0; i < Tile::TM; i++)
                for (int along = 0; along < Tile::TN; along++) { // back and forth: see register_tile.cuh
                    const int j = i % 2 ? Tile::TN - 1 - along : along;

                    sum[i][j] += a[i][q] * b[j];
                }
        }
    }
}

// Stores a thread's sums, the first of which belongs at `to`; `rows` and `columns` of C remain from there on.
template <class Tile>
static __device__ void store_tile(const float (&sum)[Tile::TM][Tile::TN], float *to, int64_t row_stride,
                                  int64_t rows, int64_t columns, bool packs, bool evicted_first)
{
    const auto store = [&](float *there, const float(&sums)[Tile::TN]) {
        const float4 pack = {sums[0], sums[1], sums[2], sums[3]};

        if (evicted_first)
            __stcs((float4 *)there, pack);
        else
            *(float4 *)there = pack;
    };

    if (packs && columns > 0 && rows > (Tile::TM - 1) * LANES_DOWN) { // then no store needs a test
#pragma unroll
        for (int i = 0; i < Tile::TM; i++, to += LANES_DOWN * row_stride)
            store(to, sum[i]);
        return;
    }
#pragma unroll
    for (int i = 0; i < Tile::TM; i++, to += LANES_DOWN * row_stride) {
        if (i * LANES_DOWN < rows && packs && columns > 0)
            store(to, sum[i]);
        for (int j = 0; j < Tile::TN; j++)
            if (i * LANES_DOWN < rows && !packs && j < columns)
                to[j] = sum[i][j];
    }
}

template <class Tile, int N> // N: elements of a pack of A and of B
__global__ void __launch_bounds__(Tile::BLOCK, blocks_at_once<Tile, N>)
    matmul_pipelined_batch(const product<float> p, bool c_packs, bool c_evicted_first)
{
    constexpr int SIDE = Tile::SIDE;
    extern __shared__ __align__(16) unsigned char shared[];
    Tile *stages = (Tile *)shared;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / (SIDE / Tile::WN) * Tile::WM + lane_row(lane); // and every LANES_DOWN-th after it
    const int column = warp % (SIDE / Tile::WN) * Tile::WN + lane_column(lane) * Tile::TN;
    const int64_t down = (p.m + SIDE - 1) / SIDE, across = (p.n + SIDE - 1) / SIDE;
    const int64_t tiles = p.batches * down * across;
    const int pairs = (int)((p.k + Tile::DEPTH - 1) / Tile::DEPTH);
    const bool whole = down * across == 1; // then nothing is divided, which takes some 20 instructions

    const auto after = [&](const position &at) {
        return at.pair + 1 < pairs ? position{at.tile, at.pair + 1} : position{at.tile + gridDim.x, 0};
    };
    const auto batch_of = [&](int64_t tile) { return whole ? tile : tile / (down * across); };
    const auto corner_of = [&](int64_t tile) -> corner {
        return whole ? corner{0, 0} : corner{tile / across % down * SIDE, tile % across * SIDE};
    };
    const auto load = [&](Tile &to, const position &at) {
        if (at.tile < tiles) {
            const int64_t batch = batch_of(at.tile);
            const corner c = corner_of(at.tile);
            const int64_t k = (int64_t)at.pair * Tile::DEPTH;

            copy_tile<Tile, N>(p.a.data + batch * p.a.batch_stride, p.a.row_stride, p.a.column_stride, p.m, p.k,
                               c.row, k, to.a);
            copy_tile<Tile, N>(p.b.data + batch * p.b.batch_stride, p.b.row_stride, p.b.column_stride, p.k, p.n, k,
                               c.column, to.b);
        }
        __pipeline_commit();
    };

    pdl_wait();
    float sum[Tile::TM][Tile::TN] = {};
    position now = {blockIdx.x, 0};

    load(stages[0], now);
    for (int s = 0; now.tile < tiles; s = 1 - s, now = after(now)) {
        __pipeline_wait_prior(0); // this thread's copies of the pair are complete,
        __syncthreads();          // and so are all threads'; the other pair is read
        load(stages[1 - s], after(now));
        multiply_pair(stages[s], (int)min(p.k - (int64_t)now.pair * Tile::DEPTH, (int64_t)Tile::DEPTH), row,
                      column, sum);
        if (now.pair + 1 < pairs)
            continue;

        const corner at = corner_of(now.tile);
        const int64_t y = at.row + row, x = at.column + column;

        store_tile<Tile>(sum, p.c + (batch_of(now.tile) * p.m + y) * p.n + x, p.n, p.m - y, p.n - x, c_packs,
                         c_evicted_first);
        for (auto &row_of_sums : sum)
            for (float &one : row_of_sums)
                one = 0;
    }
}

template <class Tile>
static int64_t tiles_of(const product<float> &p)
{
    return p.batches * ceil_div(p.m, Tile::SIDE) * ceil_div(p.n, Tile::SIDE);
}

// Whether C is the first to leave L2: if A and B have room there, and C has none beside them. Then the next
// product finds them.
static bool evicts_c_first(const product<float> &p, int64_t l2_bytes)
{
    const int64_t a = (p.a.batch_stride ? p.batches : 1) * p.m * p.k;
    const int64_t b = (p.b.batch_stride ? p.batches : 1) * p.k * p.n, c = p.batches * p.m * p.n;
    const int64_t room = l2_bytes / 4 * 3 / (int64_t)sizeof(float);

    return a + b <= room && a + b + c > room;
}

template <class Tile, int N>
[[nodiscard]] static cudaError_t launch_batch(const product<float> &p, const matmul_args *args,
                                              cudaStream_t stream)
{
    constexpr int BYTES = 2 * (int)sizeof(Tile);
    const bool c_packs = p.n % Tile::V == 0 && (uintptr_t)p.c % 16 == 0;
    const int64_t tiles = tiles_of<Tile>(p), most = (int64_t)blocks_at_once<Tile, N> * args->multiprocessors;

    if (cudaError_t error = allow_shared_bytes<matmul_pipelined_batch<Tile, N>>(BYTES))
        return error;
    return launch<matmul_pipelined_batch<Tile, N>>((unsigned)(tiles < most ? tiles : most), Tile::BLOCK, BYTES,
                                                   stream, p, c_packs, evicts_c_first(p, args->l2_bytes));
}

template <int N>
[[nodiscard]] static cudaError_t launch_batch(const product<float> &p, const matmul_args *args,
                                              cudaStream_t stream)
{
    // a narrow tile has a quarter of a wide one's elements
    return tiles_of<narrow_tile>(p) <= 2 * tiles_of<wide_tile>(p) ? launch_batch<narrow_tile, N>(p, args, stream)
                                                                  : launch_batch<wide_tile, N>(p, args, stream);
}

cudaError_t launch_matmul_pipelined_batch(const matmul_args *args, cudaStream_t stream)
{
    const product<float> p = product_of<float>(args);
    const bool packs = has_packs<4>(p.a, p.k, true) && has_packs<4>(p.b, p.n, true);

    return packs ? launch_batch<4>(p, args, stream) : launch_batch<1>(p, args, stream);
}
