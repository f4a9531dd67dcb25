// C = A @ B in float32 with asynchronous copies, for operands of any size and strides: what the rung `pipelined`
// leads to.
//
// The idea: as there, the next pair of tiles is copied to shared memory while this one is multiplied. An operand
// whose elements are neighbours across k is copied 16 bytes at a time; any other one element by element, which
// transposes it. Rows and columns beyond the edges repeat the last ones, because what is computed from
// them is not stored; zeros fill the end of k. In a small product there are few tiles, and each has little to do
// but to wait: there the warps of a block share its tile, and each multiplies its own part of every pair's k.
// Their sums are added in shared memory. A sum of more than FLUSH products is several partial sums, which c holds:
// so rounding errors grow more slowly.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "product.cuh"
#include "register_tile.cuh"

// BM x BN elements of C per block; BK along k in a pair of tiles; 8 x TN elements of C per thread. K_PARTS: into
// how many parts the warps divide a pair's k.
template <int BM_, int BN_, int BK_, int TN_, int K_PARTS_, int STAGES_, int MIN_BLOCKS_>
struct pipelined_tile {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = 8, TN = TN_, V = 4, PAD = V;
    static constexpr int K_PARTS = K_PARTS_, STAGES = STAGES_, MIN_BLOCKS = MIN_BLOCKS_;
    static constexpr int WM = LANES_DOWN * TM, WN = LANES_ACROSS * TN;
    static constexpr int PART = BM / WM * (BN / WN) * 32, BLOCK = PART * K_PARTS; // threads
    static constexpr int DEPTH = BK / K_PARTS,
                         ROWS = TM / K_PARTS; // of k, and of its tile that a thread adds to C
    static constexpr int FLUSH = 2048 * K_PARTS;
    static_assert(BM % WM == 0 && BN % WN == 0 && BK % K_PARTS == 0 && TM % K_PARTS == 0, "whole warps and parts");

    alignas(16) float a[BK][BM + PAD];
    alignas(16) float b[BK][BN + PAD];
};

// How an operand, seen as (SIDE, k), is copied.
enum operand_layout {
    PACKS,    // 16 bytes along SIDE
    ALONG_K,  // elements, which are neighbours along k
    ELEMENTS, // elements at any strides
};

// The copies of a thread: its share of an operand's tiles, one after the other.
template <class Tile, int SIDE, operand_layout LAYOUT>
struct tile_copier {
    static constexpr int BK = Tile::BK, V = LAYOUT == PACKS ? Tile::V : 1, BLOCK = Tile::BLOCK;
    // threads along k and across it: neither the reads nor the stores of a warp have bank conflicts
    static constexpr int K_LANES = LAYOUT == PACKS ? BLOCK / (SIDE / V) : 8, SIDE_LANES = BLOCK / K_LANES;
    static constexpr int K_STEPS = BK / K_LANES, SIDE_STEPS = SIDE / V / SIDE_LANES;
    static_assert(K_STEPS * K_LANES == BK && SIDE_STEPS * SIDE_LANES * V == SIDE, "each thread copies as much");

    const float *from[SIDE_STEPS]; // the thread's next elements
    int64_t k_stride;              // elements from one k to the next
    int k, side;                   // of its first element, in the tile

    // `first`: where the tile begins, of `sides`; `begin`: its first k
    __device__ tile_copier(const strided_matrix<float> &x, int64_t batch, int64_t first, int64_t sides,
                           int64_t begin)
        : k_stride(LAYOUT == ALONG_K ? 1 : x.column_stride)
    {
        const int thread = threadIdx.x;

        k = LAYOUT == PACKS ? thread / SIDE_LANES : thread % K_LANES;
        side = (LAYOUT == PACKS ? thread % SIDE_LANES : thread / K_LANES) * V;
        for (int s = 0; s < SIDE_STEPS; s++)
            from[s] = x.data + batch * x.batch_stride + (begin + k) * k_stride +
                      min(first + side + s * (SIDE_LANES * V), sides - V) * x.row_stride;
    }

    template <bool WHOLE, int PITCH>
    __device__ void copy(float (&tile)[BK][PITCH], int depth)
    {
#pragma unroll
        for (int q = 0; q < K_STEPS; q++)
#pragma unroll
            for (int s = 0; s < SIDE_STEPS; s++) {
                const bool inside = WHOLE || k + q * K_LANES < depth;

                __pipeline_memcpy_async(&tile[k + q * K_LANES][side + s * (SIDE_LANES * V)],
                                        from[s] + (inside ? q * K_LANES * k_stride : -k * k_stride), 4 * V,
                                        inside ? 0 : 4 * V);
            }
    }

    // Starts the copies of the next tile, which has `depth` of k: BK if it is WHOLE.
    template <bool WHOLE, int PITCH>
    __device__ void begin(float (&tile)[BK][PITCH], int depth)
    {
        copy<WHOLE>(tile, depth);
        for (int s = 0; s < SIDE_STEPS; s++)
            from[s] += depth * k_stride;
    }
};

// Adds up the sums of the parts, in their order, and returns in `own` the rows that this thread adds to C. `sums`:
// shared memory that is no longer read.
template <class Tile>
static __device__ void add_parts(float4 *sums, const float (&sum)[Tile::TM][Tile::TN],
                                 float (&own)[Tile::ROWS][Tile::TN])
{
    constexpr int PACKS_ACROSS = Tile::TN / Tile::V;
    const float zero = opaque(negative_zero<float>()); // see add_tile
    const int part = threadIdx.x / Tile::PART, thread = threadIdx.x % Tile::PART;
    const auto at = [&](int of, int i, int j) -> float4 & {
        return sums[((of * Tile::TM + i) * PACKS_ACROSS + j) * Tile::PART + thread];
    };

    for (int i = 0; i < Tile::TM; i++)
        for (int j = 0; j < PACKS_ACROSS; j++) {
            const float *x = &sum[i][j * Tile::V];

            at(part, i, j) = {x[0] + zero, x[1] + zero, x[2] + zero, x[3] + zero};
        }
    __syncthreads(); // all sums are stored before they are read
    for (int i = 0; i < Tile::ROWS; i++)
        for (int j = 0; j < PACKS_ACROSS; j++) {
            float4 all = at(0, part * Tile::ROWS + i, j);

            for (int of = 1; of < Tile::K_PARTS; of++) {
                const float4 more = at(of, part * Tile::ROWS + i, j);
                all = {all.x + more.x, all.y + more.y, all.z + more.z, all.w + more.w};
            }
            *(float4 *)&own[i][j * Tile::V] = all;
        }
    __syncthreads(); // all sums are read before shared memory is filled again
}

// What a block computes: the sums of k from `begin` to `end` of a tile of c.
struct block_work {
    corner at;
    int64_t batch, begin, end;
    float *c;
};

// Recomputed where it is needed, because the multiplication needs all registers.
template <class Tile>
static __device__ block_work work_of_block(const product<float> &p, int64_t first_slice, corner first)
{
    const int64_t z = first_slice + opaque((int)blockIdx.z);
    const int64_t batch = p.slices > 1 ? z / p.slices : z, begin = (z - batch * p.slices) * p.k_per_slice;

    return {{first.row + (int64_t)opaque((int)blockIdx.y) * Tile::BM,
             first.column + (int64_t)opaque((int)blockIdx.x) * Tile::BN},
            batch,
            begin,
            min(begin + p.k_per_slice, p.k),
            p.slices > 1 ? p.partial + z * p.m * p.n : p.c + batch * p.m * p.n};
}

template <class Tile, operand_layout A, operand_layout B>
static __global__ void __launch_bounds__(Tile::BLOCK, Tile::MIN_BLOCKS)
    matmul_pipelined(const product<float> p, bool c_packs, int64_t first_slice, corner first)
{
    constexpr int BK = Tile::BK, STAGES = Tile::STAGES;
    extern __shared__ __align__(16) unsigned char shared[];
    Tile *stages = (Tile *)shared;

    const int part = threadIdx.x / Tile::PART, warp = threadIdx.x % Tile::PART / 32, lane = threadIdx.x % 32;
    const int row = warp / (Tile::BN / Tile::WN) * Tile::WM + lane_row(lane) * Tile::V;
    const int column = warp % (Tile::BN / Tile::WN) * Tile::WN + lane_column(lane) * Tile::V;

    pdl_wait();
    for (int partial_sum = 0;; partial_sum++) {
        const block_work work = work_of_block<Tile>(p, first_slice, first);
        const int64_t begin = work.begin + (int64_t)partial_sum * Tile::FLUSH;
        const int length = (int)min(work.end - begin, (int64_t)Tile::FLUSH);

        if (length <= 0)
            return;
        tile_copier<Tile, Tile::BM, A> a(p.a, work.batch, work.at.row, p.m, begin);
        tile_copier<Tile, Tile::BN, B> b(p.b.transposed(), work.batch, work.at.column, p.n, begin);
        float sum[Tile::TM][Tile::TN] = {};
        int now = 0;       // the stage that is multiplied
        int left = length; // of k to load

        const auto load = [&](auto is_whole, Tile &stage, int depth) {
            a.template begin<decltype(is_whole)::value>(stage.a, depth);
            b.template begin<decltype(is_whole)::value>(stage.b, depth);
            left -= depth;
        };
        const auto load_next = [&](Tile &stage) {
            if (left > 0)
                load(std::true_type(), stage, BK);
            __pipeline_commit();
        };

        // the first pair of tiles may be partial, so that all others are whole
        load(std::false_type(), stages[0], (length - 1) % BK + 1);
        __pipeline_commit();
        for (int s = 1; s < STAGES - 1; s++)
            load_next(stages[s]);
        for (int pairs = (length + BK - 1) / BK; pairs > 0; pairs--) {
            __pipeline_wait_prior(STAGES - 2); // this thread's copies of the pair are complete,
            __syncthreads();                   // and so are all threads'; the stage before this one is free
            load_next(stages[now ? now - 1 : STAGES - 1]);
            multiply_tiles<Tile, Tile::DEPTH>(&stages[now].a[part * Tile::DEPTH],
                                              &stages[now].b[part * Tile::DEPTH], row, column, sum);
            now = now + 1 < STAGES ? now + 1 : 0;
        }
        __syncthreads(); // the last pair is read before shared memory is used again

        const auto add_rows = [&](const auto &rows) {
            const block_work to = work_of_block<Tile>(p, first_slice, first);

            if (c_packs)
                add_tile<Tile, true>(to.c, p.m, p.n, to.at, row, column, part * Tile::ROWS, rows,
                                     partial_sum == 0);
            else
                add_tile<Tile, false>(to.c, p.m, p.n, to.at, row, column, part * Tile::ROWS, rows,
                                      partial_sum == 0);
        };
        if constexpr (Tile::K_PARTS > 1) {
            alignas(16) float own[Tile::ROWS][Tile::TN];

            add_parts<Tile>((float4 *)shared, sum, own);
            add_rows(own);
        } else {
            add_rows(sum);
        }
    }
}

// How an operand, seen as (sides, k), can be copied.
static operand_layout layout_of(const strided_matrix<float> &x, int64_t sides)
{
    constexpr int V = 4;

    return has_packs<V>(x.transposed(), sides, true) ? PACKS : x.column_stride == 1 ? ALONG_K : ELEMENTS;
}

// Launches the kernel on tiles of type Tile.
template <class Tile, operand_layout A, operand_layout B>
[[nodiscard]] static cudaError_t launch_pipelined(const product<float> &p, cudaStream_t stream)
{
    constexpr int STAGES_BYTES = Tile::STAGES * (int)sizeof(Tile);
    constexpr int SUMS_BYTES = Tile::K_PARTS > 1 ? Tile::K_PARTS * Tile::BM * Tile::BN * (int)sizeof(float) : 0;
    constexpr int BYTES = STAGES_BYTES > SUMS_BYTES ? STAGES_BYTES : SUMS_BYTES;
    const bool c_packs = p.n % Tile::V == 0 && (uintptr_t)p.c % 16 == 0;

    if (cudaError_t error = allow_shared_bytes<matmul_pipelined<Tile, A, B>>(BYTES))
        return error;
    return cover(p.batches * p.slices, p.m, p.n, Tile::BM, Tile::BN,
                 [&](dim3 grid, int64_t first_slice, corner first) {
                     return launch<matmul_pipelined<Tile, A, B>>(grid, Tile::BLOCK, BYTES, stream, p, c_packs,
                                                                 first_slice, first);
                 });
}

// Launches the kernel for the operands' layouts. A kernel for every pair of layouts would not be worth its compile
// time. ElementsTile: where B is copied element by element, which a larger tile does less often per product.
template <class Tile, class ElementsTile = Tile>
[[nodiscard]] static cudaError_t launch_pipelined(const product<float> &p, cudaStream_t stream)
{
    const operand_layout a = layout_of(p.a, p.m), b = layout_of(p.b.transposed(), p.n);

    if (a == ALONG_K && b == PACKS) // both in C order
        return launch_pipelined<Tile, ALONG_K, PACKS>(p, stream);
    if (a == ALONG_K && b == ALONG_K) // B in Fortran order
        return launch_pipelined<ElementsTile, ALONG_K, ALONG_K>(p, stream);
    if (a == PACKS && b == PACKS) // A in Fortran order
        return launch_pipelined<Tile, PACKS, PACKS>(p, stream);
    if (a == ALONG_K) // rows of B that are not aligned
        return launch_pipelined<ElementsTile, ALONG_K, ELEMENTS>(p, stream);
    return launch_pipelined<ElementsTile, ELEMENTS, ELEMENTS>(p, stream);
}
