// C = A @ B with all blocks at work until the end.
//
// The idea: the blocks of the rung below compute C tile by tile, and in the last wave there are tiles for some of
// the multiprocessors only. Here the tiles of the last whole wave and of the partial one are shared: the pairs of
// tiles that are to be multiplied for them are counted from the first to the last, and each block takes an equal
// share. A share may begin and end amid k: then its sum is a piece, which goes to scratch memory, and a second
// launch adds the pieces of a tile, in the order of k. Each other tile of C has a block of its own. (Osama,
// Merrill, Cecka, Garland and Owens, "Stream-K", 2023.) What the rung below wasted: an H200 runs 264 blocks at
// once, so that the 1024 tiles of n = 4096 take 4 waves, where 3.88 would do; and n = 1024 has 64 tiles for its
// 132 multiprocessors. What it wastes itself: pieces are written and read once more. Launch: blocks of 256
// threads, one per share and one per tile that is not shared; then 16 blocks of 256 threads per shared tile.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <type_traits>

#include "../../common/grid.cuh"
#include "../lanes.cuh"
#include "kernels.h"
#include "vectors.cuh"

constexpr int BM = STREAM_K_SIDE, BN = STREAM_K_SIDE, BK = STREAM_K_DEPTH; // of tiles: A's rows, B's columns, k
constexpr int WM = 32, WN = 64;                                            // of a warp's tile of C
constexpr int TM = 8, TN = 8, V = 4;                        // of a thread's tile of C; elements of a vector
constexpr int STAGES = 2;                                   // one is multiplied while the other is filled
constexpr int DOWN = WM / TM, ACROSS = WN / TN, LANES = 32; // lanes of a warp
constexpr int BLOCK = BM / WM * (BN / WN) * LANES;
// threads that load a row of a tile together; elements for A's, which is transposed, and vectors for B's
constexpr int A_LANES = 8, A_ROWS = BLOCK / A_LANES, B_LANES = BN / V, B_ROWS = BLOCK / B_LANES;
constexpr int PAD = 4; // of A's tile: 8 columns of 4 rows are stored together without bank conflicts

struct stream_k_stage {
    alignas(16) float a[BK][BM + PAD]; // transposed
    alignas(16) float b[BK][BN];
};

// A block's pieces: of a tile that another block has begun, and of one that it begins itself.
struct pieces {
    float continued[BM][BN], begun[BM][BN];
};

// The operands A (m, k) and B (k, n) of a batch.
struct matrices {
    const float *a, *b;
    int64_t m, n, k, a_batch_stride, b_batch_stride;
};

// A tile of C.
struct tile {
    int64_t batch, row, column;
};

static __device__ inline tile find_tile(int64_t index, int64_t m, int64_t n)
{
    const int64_t down = ceil_div(m, BM), right = ceil_div(n, BN);

    return {index / (down * right), index / right % down * BM, index % right * BN};
}

// Starts the copies of the next pair of tiles, of which `depth` columns of A and rows of B are to be multiplied:
// BK if WHOLE; the others are filled with zeros. `a`: the thread's elements of A; `b`: its row of B; `last`: the
// last column of B's tile.
template <bool ALIGNED, bool WHOLE>
static __device__ void load_stage(stream_k_stage &to, const float *const *a, const float *b, int last, int depth,
                                  int64_t n)
{
    const int i = threadIdx.x / A_LANES, p = threadIdx.x % A_LANES;     // (BM, BK)
    const int q = threadIdx.x / B_LANES, j = threadIdx.x % B_LANES * V; // (BK, BN)

#pragma unroll
    for (int e = 0; e < BK; e += A_LANES)
#pragma unroll
        for (int l = 0; l < BM / A_ROWS; l++) {
            const bool inside = WHOLE || p + e < depth;
            __pipeline_memcpy_async(&to.a[p + e][i + l * A_ROWS], inside ? a[l] + e : a[l] - p, 4, inside ? 0 : 4);
        }
#pragma unroll
    for (int e = 0; e < BK; e += B_ROWS) {
        const bool inside = WHOLE || q + e < depth;
        const float *row = inside ? b + e * n : b - q * n;

        if (ALIGNED)
            __pipeline_memcpy_async(&to.b[q + e][j], row + min(j, last - (V - 1)), 16, inside ? 0 : 16);
        else
            for (int x = 0; x < V; x++)
                __pipeline_memcpy_async(&to.b[q + e][j + x], row + min(j + x, last), 4, inside ? 0 : 4);
    }
}

// Multiplies `pairs` pairs of tiles for a tile of C, from the pair `first` on.
template <bool ALIGNED>
static __device__ void multiply(float (&sum)[TM][TN], stream_k_stage *stages, const matrices &of, tile at,
                                int first, int pairs, int row, int column)
{
    const float *a = of.a + at.batch * of.a_batch_stride, *a_rows[BM / A_ROWS];
    const float *b = of.b + at.batch * of.b_batch_stride + at.column;
    const int first_depth = (int)((of.k - 1) % BK) + 1; // the first pair may be partial; all others are whole
    const int64_t begin = first ? (int64_t)(first - 1) * BK + first_depth : 0; // k
    const int last = (int)min(of.n - at.column, (int64_t)BN) - 1;              // column of B's tile
    int now = 0;

    for (int l = 0; l < BM / A_ROWS; l++)
        a_rows[l] =
            a + min(at.row + threadIdx.x / A_LANES + l * A_ROWS, of.m - 1) * of.k + begin + threadIdx.x % A_LANES;
    b += (begin + threadIdx.x / B_LANES) * of.n;
    const auto load = [&](auto is_whole, stream_k_stage &to, int depth) {
        load_stage<ALIGNED, decltype(is_whole)::value>(to, a_rows, b, last, depth, of.n);
        for (int l = 0; l < BM / A_ROWS; l++)
            a_rows[l] += depth;
        b += depth * of.n;
    };

    load(std::false_type(), stages[0], first ? BK : first_depth);
    __pipeline_commit();
    for (; pairs > 0; pairs--) {
        __pipeline_wait_prior(0); // this thread's copies of the pair are complete,
        __syncthreads();          // and so are all threads'; the other stage is free
        if (pairs > 1)
            load(std::true_type(), stages[1 - now], BK);
        __pipeline_commit();

#pragma unroll
        for (int p = 0; p < BK; p++) {
            alignas(16) float a_values[TM], b_values[TN];

            for (int i = 0; i < TM; i += V)
                *(float4 *)&a_values[i] = *(const float4 *)&stages[now].a[p][row + i * DOWN];
            for (int j = 0; j < TN; j += V)
                *(float4 *)&b_values[j] = *(const float4 *)&stages[now].b[p][column + j * ACROSS];
            for (int i = 0; i < TM; i++)
                for (int s = 0; s < TN; s++) {
                    const int j =
                        i % 2 ? TN - 1 - s : s; // back and forth: b_values[j] is read from its register once
                    sum[i][j] += a_values[i] * b_values[j];
                }
        }
        now = 1 - now;
    }
}

template <bool ALIGNED>
__global__ void __launch_bounds__(BLOCK, 2)
    matmul_stream_k(matrices of, float *c, matmul_shares shares, pieces *scratch, int64_t first_block)
{
    extern __shared__ __align__(16) unsigned char shared[];
    stream_k_stage *stages = (stream_k_stage *)shared; // 65 KB, more than a static array may have

    const int64_t block = first_block + blockIdx.x;
    const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const int row = warp / (BN / WN) * WM + lane_row(lane) * V; // of the thread's first piece of 4 x 4
    const int column = warp % (BN / WN) * WN + lane_column(lane) * V;
    const int per_tile = (int)shares.pairs_per_tile;

    // the block's pairs of tiles, counted through all tiles of C
    int64_t from = block * shares.pairs_per_block;
    int64_t end = min(from + shares.pairs_per_block, shares.shared_tiles * per_tile);
    if (block >= shares.blocks) { // a tile that is not shared
        from = (shares.shared_tiles + block - shares.blocks) * per_tile;
        end = from + per_tile;
    }
    while (from < end) {
        const int64_t index = from / per_tile;
        const int first = (int)(from - index * per_tile), pairs = (int)min(end - from, (int64_t)per_tile - first);
        const tile at = find_tile(index, of.m, of.n);
        float sum[TM][TN] = {};

        multiply<ALIGNED>(sum, stages, of, at, first, pairs, row, column);
        __syncthreads(); // the stages have been read
        from += pairs;

        const bool whole = pairs == per_tile;
        float *to = whole   ? c + (at.batch * of.m + at.row) * of.n + at.column
                    : first ? scratch[block].continued[0]
                            : scratch[block].begun[0];
        const int64_t pitch = whole ? of.n : BN, rows = whole ? of.m - at.row : BM;
        const int64_t columns = whole ? of.n - at.column : BN;
        for (int i = 0; i < TM; i++)
            for (int j = 0; j < TN; j += V) {
                const int y = row + i / V * V * DOWN + i % V, x = column + j * ACROSS;

                float values[V]; // other registers: so ptxas can choose those of the sums for the multiplication

                for (int e = 0; e < V; e++)
                    values[e] = sum[i][j + e] + 0.0f;
                store_vector(to + y * pitch + x, values, y < rows ? columns - x : 0, ALIGNED || !whole);
            }
    }
}

constexpr int ADDERS = BM * BN / V / BLOCK; // blocks that add the pieces of a tile, one vector per thread

template <bool ALIGNED>
__global__ void matmul_stream_k_add(matrices of, float *c, matmul_shares shares, const pieces *scratch,
                                    int64_t first_block)
{
    const int64_t block = first_block + blockIdx.x, index = block / ADDERS;
    const int64_t begin = index * shares.pairs_per_tile, last = begin + shares.pairs_per_tile - 1;
    const int64_t first_share = begin / shares.pairs_per_block, last_share = last / shares.pairs_per_block;
    const int vector = (int)(block % ADDERS) * BLOCK + threadIdx.x, y = vector * V / BN, x = vector * V % BN;
    const tile at = find_tile(index, of.m, of.n);

    if (first_share == last_share)
        return; // a block has computed the whole tile
    float4 sum = *(const float4 *)&scratch[first_share].begun[y][x];
    for (int64_t share = first_share + 1; share <= last_share; share++) {
        const float4 more = *(const float4 *)&scratch[share].continued[y][x];
        sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
    }
    store_vector(c + (at.batch * of.m + at.row + y) * of.n + at.column + x, &sum.x,
                 at.row + y < of.m ? of.n - at.column - x : 0, ALIGNED);
}

cudaError_t launch_matmul_stream_k(const matmul_args *args, cudaStream_t stream)
{
    const bool aligned = rows_are_aligned(args->a, args->b, args->c, args->k, args->n);
    const auto kernel = aligned ? matmul_stream_k<true> : matmul_stream_k<false>;
    const auto add = aligned ? matmul_stream_k_add<true> : matmul_stream_k_add<false>;
    const matmul_shares shares = matmul_share(args->batches, args->m, args->n, args->k, args->multiprocessors);
    const matrices of = {(const float *)args->a, (const float *)args->b, args->m, args->n, args->k,
                         args->a_batch_stride,   args->b_batch_stride};
    const int64_t blocks = shares.blocks + shares.tiles - shares.shared_tiles;
    constexpr int BYTES = STAGES * sizeof(stream_k_stage);

    if (cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES))
        return error;
    const auto start = [&](auto which, int64_t count, int bytes) {
        return cover(1, 1, count, 1, 1, [&](dim3 grid, int64_t, corner first) {
            which<<<grid, BLOCK, bytes, stream>>>(of, (float *)args->c, shares, (pieces *)args->scratch,
                                                  first.column);
            return cudaGetLastError();
        });
    };
    if (cudaError_t error = start(kernel, blocks, BYTES))
        return error;
    return shares.has_pieces ? start(add, shares.shared_tiles * ADDERS, 0) : cudaSuccess;
}
