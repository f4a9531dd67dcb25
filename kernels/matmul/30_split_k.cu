// C = A @ B where C is small and k is long: the k products of an element are shared out among several blocks.
//
// The idea: k is cut into pieces. A block multiplies one piece of A's rows with the same piece of B's columns and
// leaves a partial sum; a second kernel adds the partial sums of each element, always in the same order.
// What the rung below wasted: one block had all of k to itself, while the other multiprocessors had nothing to do.
// And a float that sums 2^24 ones stops there: 2^24 + 1 has no float. Short sums lose less.
// Launch: blocks of TILE x TILE threads, one for each TILE x TILE tile of each C and each piece; then one warp per
// element of C.
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "../common/launch.cuh"
#include "../common/shuffle.cuh"
#include "../common/types.cuh"
#include "kernels.h"
#include "sum_of.cuh"

// what partial sums are added up in
template <class T>
struct wide {
    using type = T;
};
template <>
struct wide<float> {
    using type = double;
};
template <>
struct wide<complex<float>> {
    using type = complex<double>;
};
template <>
struct wide<boolean> { // how many are true: a shuffle exchanges whole words
    using type = uint32_t;
};

template <class T, int TILE>
__global__ void matmul_piece(const T *a, const T *b, sum_of<T> *partial, int64_t m, int64_t n, int64_t k,
                             int64_t a_step, int64_t b_step, int64_t chunk, int64_t splits, int64_t first_piece,
                             corner first)
{
    using Sum = sum_of<T>;
    __shared__ Sum a_tile[TILE][TILE];
    __shared__ Sum b_tile[TILE][TILE];

    const int tx = threadIdx.x, ty = threadIdx.y; // [0, TILE)
    const int64_t batch = (first_piece + blockIdx.z) / splits, piece = (first_piece + blockIdx.z) % splits;
    const int64_t end = min((piece + 1) * chunk, k);
    const corner at = corner_of_block(first, TILE);
    const int64_t row = at.row + ty, column = at.column + tx;
    Sum sum = 0;

    wait_for_earlier();
    a += batch * a_step; // (m, k), (k, n)
    b += batch * b_step;

    for (int64_t t = piece * chunk; t < end; t += TILE) {
        // beyond the edges the tiles are filled with zeros, which add nothing
        a_tile[ty][tx] = row < m && t + tx < end ? Sum(a[row * k + t + tx]) : Sum(0);
        b_tile[ty][tx] = t + ty < end && column < n ? Sum(b[(t + ty) * n + column]) : Sum(0);
        __syncthreads(); // the tiles are complete before anyone reads them

        for (int i = 0; i < TILE; i++)
            sum += a_tile[ty][i] * b_tile[i][tx];
        __syncthreads(); // everyone has read them before anyone overwrites them
    }

    if (row < m && column < n)
        partial[((batch * m + row) * n + column) * splits + piece] = sum; // (batches, m, n, splits)
}

template <class T>
__global__ void matmul_add_pieces(const sum_of<T> *partial, T *c, int64_t elements, int64_t splits)
{
    using Wide = typename wide<sum_of<T>>::type;
    const int64_t element = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / warpSize; // the same in a warp
    const int lane = threadIdx.x % warpSize;
    Wide sum = 0;

    wait_for_earlier();
    if (element >= elements)
        return;
    for (int64_t i = lane; i < splits; i += warpSize)
        sum += Wide(partial[element * splits + i]);
    for (int delta = warpSize / 2; delta > 0; delta /= 2)
        sum += shuffle_down(sum, delta);
    if (lane == 0)
        c[element] = convert<T>(sum);
}

cudaError_t launch_matmul_split_k(const matmul_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY & ~SIGNED>(without_sign(args->dtype), [&](auto zero) {
        using T = decltype(zero);
        constexpr int BLOCK = 256, WARPS = BLOCK / 32;
        const int64_t elements = args->batches * args->m * args->n, splits = matmul_splits(args);
        auto *partial = (sum_of<T> *)args->scratch;
        static_assert(sizeof *partial <= sizeof(T) || sizeof *partial <= MATMUL_SUM_BYTES, "the scratch has room");

        const cudaError_t error = dispatch<2, 4, 8, 16, 32>(args->tile, [&](auto tile) {
            constexpr int TILE = decltype(tile)::value;

            return cover(
                args->batches * splits, args->m, args->n, TILE, [&](dim3 grid, int64_t first_piece, corner first) {
                    return launch<matmul_piece<T, TILE>>(grid, dim3(TILE, TILE), 0, stream, (const T *)args->a,
                                                         (const T *)args->b, partial, args->m, args->n, args->k,
                                                         args->a_step, args->b_step, args->k_chunk, splits,
                                                         first_piece, first);
                });
        });
        if (error)
            return error;
        return launch<matmul_add_pieces<T>>((unsigned)ceil_div(elements, WARPS), BLOCK, 0, stream, partial,
                                            (T *)args->c, elements, splits);
    });
}
