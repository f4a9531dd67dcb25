// C = A @ B for a small C and a long k: the k products of an element are divided among several blocks.
//
// The idea: k is divided into slices. A block multiplies one slice of A's rows with the same slice of B's columns
// and stores a partial sum; a second kernel adds the partial sums of each element, always in the same order.
// What `tiled` wastes on it: one block has all of k to itself, while the other multiprocessors are idle. It also
// loses accuracy: a float that sums ones stops growing at 2^24, because 2^24 + 1 is not a float. Short sums lose
// less.
// Launch: blocks of TILE x TILE threads, one block per TILE x TILE tile of each C and slice; then one warp per
// element of C.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "../../common/shuffle.cuh"
#include "../../common/types.cuh"
#include "kernels.h"
#include "../accumulator_type.cuh"

// the type in which partial sums are added
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
struct wide<boolean> { // counts the true ones: a shuffle exchanges whole words
    using type = uint32_t;
};

template <class T, int TILE>
__global__ void matmul_slice(const T *a, const T *b, accumulator_type<T> *partial, int64_t m, int64_t n, int64_t k,
                             int64_t a_batch_stride, int64_t b_batch_stride, int64_t chunk, int64_t splits,
                             int64_t first_slice, corner first)
{
    using Sum = accumulator_type<T>;
    __shared__ Sum a_tile[TILE][TILE];
    __shared__ Sum b_tile[TILE][TILE];

    const int tx = threadIdx.x, ty = threadIdx.y; // [0, TILE)
    const int64_t batch = (first_slice + blockIdx.z) / splits, slice = (first_slice + blockIdx.z) % splits;
    const int64_t end = min((slice + 1) * chunk, k);
    const corner at = block_tile_origin(first, TILE);
    const int64_t row = at.row + ty, column = at.column + tx;
    Sum sum = 0;

    pdl_wait();
    a += batch * a_batch_stride; // (m, k), (k, n)
    b += batch * b_batch_stride;

    for (int64_t t = slice * chunk; t < end; t += TILE) {
        // beyond the edges the tiles are filled with zeros, which do not change the sum
        a_tile[ty][tx] = row < m && t + tx < end ? Sum(a[row * k + t + tx]) : Sum(0);
        b_tile[ty][tx] = t + ty < end && column < n ? Sum(b[(t + ty) * n + column]) : Sum(0);
        __syncthreads(); // both tiles are complete before any thread reads them

        for (int i = 0; i < TILE; i++)
            sum += a_tile[ty][i] * b_tile[i][tx];
        __syncthreads(); // all threads have read the tiles before they are overwritten
    }

    if (row < m && column < n)
        partial[((batch * m + row) * n + column) * splits + slice] = sum; // (batches, m, n, splits)
}

template <class T>
__global__ void matmul_add_slices(const accumulator_type<T> *partial, T *c, int64_t elements, int64_t splits)
{
    using Wide = typename wide<accumulator_type<T>>::type;
    const int64_t element = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / warpSize; // one per warp
    const int lane = threadIdx.x % warpSize;
    Wide sum = 0;

    pdl_wait();
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
        const int64_t elements = args->batches * args->m * args->n, splits = matmul_slice_count(args);
        auto *partial = (accumulator_type<T> *)args->scratch;
        static_assert(sizeof *partial <= sizeof(T) || sizeof *partial <= MATMUL_MIN_PARTIAL_BYTES,
                      "scratch must hold the partial sums");

        const cudaError_t error = dispatch<2, 4, 8, 16, 32>(args->tile, [&](auto tile) {
            constexpr int TILE = decltype(tile)::value;

            return cover(
                args->batches * splits, args->m, args->n, TILE, [&](dim3 grid, int64_t first_slice, corner first) {
                    return launch<matmul_slice<T, TILE>>(grid, dim3(TILE, TILE), 0, stream, (const T *)args->a,
                                                         (const T *)args->b, partial, args->m, args->n, args->k,
                                                         args->a_batch_stride, args->b_batch_stride,
                                                         args->k_per_slice, splits, first_slice, first);
                });
        });
        if (error)
            return error;
        return launch<matmul_add_slices<T>>((unsigned)ceil_div(elements, WARPS), BLOCK, 0, stream, partial,
                                            (T *)args->c, elements, splits);
    });
}
