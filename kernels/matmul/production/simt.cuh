// C = A @ B by the multiprocessors' general units (SIMT: single instruction, multiple threads), in any dtype: what
// the ladder up to `pipelined` leads to, for operands of any size and strides.
//
// The idea: `warp_tile`, but the next pair of tiles is loaded to registers while this one is multiplied. Both
// operands are loaded by the same code: along k, where k is contiguous, and then transposed; or across it. A
// thread's addresses are computed once. Rows and columns beyond the edges repeat the last ones, because what is
// computed from them is not stored; only the end of k is filled with zeros. A sum of more than FLUSH products is
// several partial sums, which c holds: so rounding errors grow more slowly. (c would round those of 16-bit floats,
// whose results have larger errors anyway.)
#pragma once

#include <cuda_runtime.h>

#include "product.cuh"
#include "register_tile.cuh"

// The tiles of a block: ROWS x COLUMNS elements of C, TM_ x TN_ of them per thread, BK along k. V elements are
// read from shared memory together, 16 bytes if possible.
template <class Sum, int ROWS, int COLUMNS, int TM_, int TN_, int MIN_BLOCKS_PER_SM>
struct block_tile {
    static constexpr int BM = ROWS, BN = COLUMNS, BK = sizeof(Sum) == 16 ? 8 : 16, TM = TM_, TN = TN_;
    static constexpr int V = sizeof(Sum) <= 4 ? 4 : 16 / sizeof(Sum), PAD = V; // of rows, for fewer bank conflicts
    static constexpr int WM = LANES_DOWN * TM, WN = LANES_ACROSS * TN;
    static constexpr int BLOCK = BM / WM * (BN / WN) * 32, MIN_BLOCKS = MIN_BLOCKS_PER_SM;
    static_assert(BM % WM == 0 && BN % WN == 0 && TM % V == 0 && TN % V == 0, "whole warps, whole vectors");

    alignas(16) Sum a[BK][BM + PAD];
    alignas(16) Sum b[BK][BN + PAD];
};

// Whether the elements of a row are closer to each other than those of a column. Their distance fits an int.
template <class T>
static __host__ __device__ bool runs_along_k(const strided_matrix<T> &x)
{
    const int64_t row = x.row_stride < 0 ? -x.row_stride : x.row_stride;

    return (x.column_stride < 0 ? -x.column_stride : x.column_stride) <= row;
}

// Loads a thread's share of an operand's tiles, one after the other. The operand is seen as (SIDE, k): A as it is,
// B transposed.
template <class T, class Tile, int SIDE, bool PACKS>
struct tile_loader {
    using Sum = accumulator_type<T>;
    static constexpr int V = Tile::V, BK = Tile::BK, BLOCK = Tile::BLOCK, LOADS = SIDE * BK / V / BLOCK;
    static constexpr int K_LANES = BK / V, SIDE_LANES = SIDE / V; // threads in a row, along k and across it
    static_assert(LOADS * V * BLOCK == SIDE * BK && BLOCK % SIDE_LANES == 0, "each thread loads as much");

    const T *from[LOADS]; // the thread's next vectors
    int64_t advance;      // elements from one tile to the next
    int64_t left;         // elements of k that are left
    int k, side;          // of its first vector, in the tile
    int last;             // the last element of its vectors that is in the matrix, [0, V)
    int step;             // from one element of a vector to the next
    bool along_k;
    pack<T, V> values[LOADS];

    // `first`: row of the operand where the tile begins, of `sides`; k from `begin` to `end`
    __device__ tile_loader(const strided_matrix<T> &x, int64_t batch, int64_t first, int64_t sides, int64_t begin,
                           int64_t end)
        : advance(BK * x.column_stride), left(end - begin), last(V - 1), along_k(runs_along_k(x))
    {
        const T *data = x.data + batch * x.batch_stride + begin * x.column_stride;
        const int thread = threadIdx.x;

        if (along_k) {
            k = thread % K_LANES * V;
            side = thread / K_LANES;
            step = (int)x.column_stride;
            for (int l = 0; l < LOADS; l++)
                from[l] = data + min(first + side + l * (BLOCK / K_LANES), sides - 1) * x.row_stride +
                          k * x.column_stride;
        } else {
            k = thread / SIDE_LANES;
            side = thread % SIDE_LANES * V;
            step = (int)x.row_stride;
            const int64_t start = min(first + side, PACKS ? sides - V : sides - 1);
            last = (int)min((int64_t)V, sides - start) - 1;
            for (int l = 0; l < LOADS; l++)
                from[l] = data + start * x.row_stride + (k + l * (BLOCK / SIDE_LANES)) * x.column_stride;
        }
    }

    // Starts to load the next tile. WHOLE: all of it is before the end of k.
    template <bool WHOLE>
    __device__ void begin()
    {
        load<WHOLE>();
        for (int l = 0; l < LOADS; l++)
            from[l] += advance;
        left -= BK;
    }

    template <bool WHOLE>
    __device__ void load()
    {
#pragma unroll
        for (int l = 0; l < LOADS; l++) {
            const int in_k = WHOLE ? BK : (int)left - k - (along_k ? 0 : l * (BLOCK / SIDE_LANES));

            if (PACKS && (WHOLE || !along_k || in_k >= V))
                values[l] = WHOLE || in_k > 0 ? *(const pack<T, V> *)from[l] : pack<T, V>{};
            else
#pragma unroll
                for (int e = 0; e < V; e++) {
                    const int64_t offset = PACKS ? e : (int64_t)min(e, opaque(last)) * opaque(step);
                    values[l].element[e] = WHOLE || in_k > (along_k ? e : 0) ? from[l][offset] : T(0);
                }
        }
    }

    // Stores the tile that was begun last; it is complete after a barrier.
    template <int PITCH>
    __device__ void end(Sum (&tile)[BK][PITCH])
    {
        Sum *to = &tile[0][0] + k * PITCH + side;

#pragma unroll
        for (int l = 0; l < LOADS; l++) {
            pack<Sum, V> sums;

            for (int e = 0; e < V; e++)
                sums.element[e] = Sum(values[l].element[e]);
            if (along_k)
                for (int e = 0; e < V; e++)
                    to[e * PITCH + l * (BLOCK / K_LANES)] = sums.element[e];
            else
                *(pack<Sum, V> *)&to[l * (BLOCK / SIDE_LANES) * PITCH] = sums;
        }
    }
};

// PACKS: of A, B and C, all rows begin and end with whole vectors. Without, tiles of 128 x 128 spill up to 27
// registers, of which at most a dozen are accessed per 1024 products; a single block per multiprocessor would
// spill none, but takes 12 % longer in float32 and as long in other dtypes (n = 4095, H100).
template <class T, class Tile, bool PACKS>
__global__ void __launch_bounds__(Tile::BLOCK, Tile::MIN_BLOCKS)
    matmul_simt(const product<T> p, int64_t first_slice, corner first)
{
    using Sum = accumulator_type<T>;
    constexpr int BK = Tile::BK, TM = Tile::TM, TN = Tile::TN, V = Tile::V;
    // products per partial sum. There are several only where c can hold them without rounding
    constexpr int FLUSH = sizeof(T) == sizeof(Sum) ? 2048 : 1 << 30;
    __shared__ Tile tiles[2]; // one is multiplied while the other is loaded

    const corner at = block_tile_origin(first, Tile::BM, Tile::BN);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / (Tile::BN / Tile::WN) * Tile::WM + lane_row(lane) * V; // of the thread's first V x V
    const int column = warp % (Tile::BN / Tile::WN) * Tile::WN + lane_column(lane) * V;
    const int64_t z = first_slice + blockIdx.z, batch = z / p.slices, begin = z % p.slices * p.k_per_slice;
    const int64_t end = min(begin + p.k_per_slice, p.k);

    pdl_wait();
    tile_loader<T, Tile, Tile::BM, PACKS> a(p.a, batch, at.row, p.m, begin, end);
    tile_loader<T, Tile, Tile::BN, PACKS> b(p.b.transposed(), batch, at.column, p.n, begin, end);

    for (int64_t done = begin; done < end; done += FLUSH) {
        const int length = (int)min(end - done, (int64_t)FLUSH), whole = length / BK, cut = length % BK;
        Sum sum[TM][TN] = {};
        int now = 0; // the pair that is complete

        const auto load_and_multiply = [&](auto is_whole) {
            constexpr bool WHOLE = decltype(is_whole)::value;

            a.template begin<WHOLE>();
            b.template begin<WHOLE>();
            multiply_tiles<Tile, BK>(tiles[now].a, tiles[now].b, row, column, sum);
            now ^= 1;
            a.end(tiles[now].a);
            b.end(tiles[now].b);
            __syncthreads(); // this pair is complete, and all threads have read the other one
        };

        if (whole > 0) {
            a.template begin<true>();
            b.template begin<true>();
        } else {
            a.template begin<false>();
            b.template begin<false>();
        }
        a.end(tiles[0].a);
        b.end(tiles[0].b);
        __syncthreads(); // the first pair is complete before any thread reads it
        for (int step = 1; step < whole; step++)
            load_and_multiply(std::true_type());
        if (whole > 0 && cut > 0)
            load_and_multiply(std::false_type());
        multiply_tiles<Tile, BK>(tiles[now].a, tiles[now].b, row, column, sum);
        __syncthreads(); // all threads have read the last pair before the next one overwrites it

        if (p.slices > 1)
            add_tile<Tile, PACKS>(p.partial + z * p.m * p.n, p.m, p.n, at, row, column, 0, sum, done == begin);
        else
            add_tile<Tile, PACKS>(p.c + batch * p.m * p.n, p.m, p.n, at, row, column, 0, sum, done == begin);
    }
}

// Whether tile_loader can load packs of the operand, as (sides, k).
template <int V, class T>
static bool loads_packs(const strided_matrix<T> &x, int64_t sides, int64_t k)
{
    return runs_along_k(x) ? has_packs<V>(x, k, false) : has_packs<V>(x.transposed(), sides, true);
}

template <class T, class Tile>
[[nodiscard]] static cudaError_t launch_simt(const matmul_args *args, cudaStream_t stream)
{
    constexpr int V = Tile::V;
    const product<T> p = product_of<T>(args);
    const bool packs = p.n % V == 0 && (uintptr_t)p.c % alignof(pack<T, V>) == 0 &&
                       loads_packs<V>(p.a, p.m, p.k) && loads_packs<V>(p.b.transposed(), p.n, p.k);

    return multiply_and_add_slices(p, stream, [&] {
        return cover(p.batches * p.slices, p.m, p.n, Tile::BM, Tile::BN,
                     [&](dim3 grid, int64_t first_slice, corner first) {
                         return packs ? launch<matmul_simt<T, Tile, true>>(grid, Tile::BLOCK, 0, stream, p,
                                                                           first_slice, first)
                                      : launch<matmul_simt<T, Tile, false>>(grid, Tile::BLOCK, 0, stream, p,
                                                                            first_slice, first);
                     });
    });
}
