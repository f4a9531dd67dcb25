// The transpose by vectors of 16 bytes, of matrices that lie anyhow.
//
// The idea: a block loads its tile of x in vectors, which go straight to shared memory, all of them before the
// first is needed, and stores it to out in vectors: a warp 128 bytes of each of four rows. A thread makes a
// vector out of V elements of a column of the tile; small elements it reads as words of E, which it turns with
// those of E rows by byte permutes. Where rows of x begin anywhere, the tile keeps them as they lie in their
// vectors. Where rows of out do, each has a window of its own on the tile, up to V - 1 rows further up, so that
// it begins at a multiple of 16: which block moves an element depends on where out lies.
// In place, where x is out, a block exchanges two tiles; every row has to begin at a multiple of 16 then.
// What the rung below wasted: an instruction for each element, most of the bytes that could be on their way,
// and on rows of odd lengths a sector at either end of whatever a warp moves.
// Launch: blocks of up to 256 threads, one for each tile of each x, or for two of them in place; a tile has
// about 16 KB, and is as narrow or as low as x is.
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "kernels.h"
#include "tiles.cuh"
#include "vectors.cuh"

constexpr int LEAST_BLOCK = 64, LOADS = 4; // vectors that a thread of a full tile loads

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(BLOCK, BLOCKS_AN_SM)
    transpose_vectorized(const __grid_constant__ transpose_args args, tile_shape tile, int64_t batch, corner first)
{
    extern __shared__ uint4 memory[];

    const plane begin = plane_of(args, batch + blockIdx.z);
    const T *x = (const T *)args.x + begin.x;
    T *out = (T *)args.out + begin.out;
    const corner at = corner_of_block(first, tile.rows, tile.columns);

    load_tile<T, ALIGNED>(args, tile, x, at, memory);
    __syncthreads(); // the tile is complete before anyone reads a column of it
    store_tile<T, ALIGNED>(args, tile, x, out, at, memory);
}

// In place: a block exchanges a tile with the one on the other side of the diagonal. The tiles of the half above
// it, whose rows have `side` of them, which is odd, are folded to a rectangle of (side + 1) / 2 rows.
template <class T>
__global__ void __launch_bounds__(BLOCK)
    transpose_exchanged(const __grid_constant__ transpose_args args, tile_shape tile, int side, int64_t batch,
                        corner first)
{
    extern __shared__ uint4 memory[]; // two tiles

    T *x = (T *)args.out + plane_of(args, batch + blockIdx.z).out;
    const corner block = corner_of_block(first, 1);
    const bool folded = block.column < block.row;
    const int64_t i = (folded ? side - block.row : block.row) * tile.rows;
    const int64_t j = (folded ? side - 1 - block.column : block.column) * tile.rows;
    const corner upper = {i, j}, lower = {j, i};
    uint4 *other = memory + tile.rows / pieces<T>::V * tile.group_vectors;

    load_tile<T, true>(args, tile, x, upper, memory);
    if (i != j)
        load_tile<T, true>(args, tile, x, lower, other);
    __syncthreads(); // both have been read before either is overwritten
    store_tile<T, true>(args, tile, x, x, upper, memory);
    if (i != j)
        store_tile<T, true>(args, tile, x, x, lower, other);
}

// The tile for matrices of this shape: about as many bytes side by side in x as in out, unless a matrix has fewer
// rows or columns than that.
template <class T, bool ALIGNED>
static tile_shape shape_of(const transpose_args *args, bool out_aligned)
{
    constexpr int V = pieces<T>::V, OCTET = SPREAD * V, QUAD = ACROSS * pieces<T>::E;
    constexpr int LEAST = QUAD > V ? QUAD / V : 1;                         // vectors a row
    constexpr int BALANCED = sizeof(T) == 1 ? 8 : sizeof(T) < 8 ? 16 : 32; // likewise
    int across = BALANCED, rows;

    while (across > LEAST && across / 2 * V >= args->columns)
        across /= 2;
    rows = TILE_VECTORS / across;
    while (rows > OCTET && rows / 2 >= args->rows)
        rows /= 2;
    while (std::min<int64_t>(rows, args->rows) * across < TILE_VECTORS && rows * across < 2 * TILE_VECTORS &&
           across * V < args->columns)
        across *= 2;
    return make_shape<T, ALIGNED>(rows, across, out_aligned ? 0 : V - 1);
}

template <class T, bool ALIGNED>
static cudaError_t launch(const transpose_args *args, bool out_aligned, cudaStream_t stream)
{
    constexpr int V = pieces<T>::V;
    const tile_shape tile = shape_of<T, ALIGNED>(args, out_aligned);
    const int vectors = tile.rows * (tile.columns / V), groups = tile.rows / V + !ALIGNED;
    const int block = std::max(LEAST_BLOCK, std::min(BLOCK, vectors / LOADS));
    const int64_t rows = args->rows + (out_aligned ? 0 : V - 1); // the windows are up to V - 1 further up

    return cover(
        args->batches, rows, args->columns, tile.rows, tile.columns, [&](dim3 grid, int64_t batch, corner first) {
            transpose_vectorized<T, ALIGNED>
                <<<grid, block, groups * tile.group_vectors * VECTOR, stream>>>(*args, tile, batch, first);
        });
}

template <class T>
static cudaError_t launch_exchange(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = pieces<T>::V, SIDE = sizeof(T) == 1 ? 128 : sizeof(T) < 8 ? 64 : 32;
    const tile_shape tile = make_shape<T, true>(SIDE, SIDE / V, 0);
    const int side = (int)ceil_div(args->rows, SIDE) | 1;

    return cover(args->batches, (side + 1) / 2, side, 1, [&](dim3 grid, int64_t batch, corner first) {
        transpose_exchanged<T>
            <<<grid, BLOCK, 2 * SIDE / V * tile.group_vectors * VECTOR, stream>>>(*args, tile, side, batch, first);
    });
}

cudaError_t launch_transpose_vectorized(const transpose_args *args, cudaStream_t stream)
{
    const bool x_aligned = are_aligned(args->x, args->x_pitch, args, &batch_dimension::x_step);
    const bool out_aligned = are_aligned(args->out, args->out_pitch, args, &batch_dimension::out_step);

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        if (args->x == args->out)
            return x_aligned ? launch_exchange<T>(args, stream) : cudaErrorInvalidValue;
        if constexpr (sizeof(T) < VECTOR)
            if (!x_aligned || !out_aligned)
                return launch<T, false>(args, out_aligned, stream);
        return launch<T, true>(args, true, stream);
    });
}
