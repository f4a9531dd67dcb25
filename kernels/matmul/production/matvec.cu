// C = A @ B where B has few columns, or A few rows: at memory bandwidth, since each element of the larger
// operand is used for few products.
//
// The idea: the larger operand is a matrix of many rows along k, the other one FEW vectors (more of them take
// several rounds). Where k is contiguous, a group of threads takes a row, loads neighbouring packs of it, and adds
// up its sums by shuffles. Where the rows are contiguous (a vector times a row-major matrix), a lane takes a pack
// of neighbouring rows, and the warps of a block take every 8th element of k. What `simt` wastes on it: 63 of the
// 64 columns of its tile.
// Launch: blocks of 256 threads; one group of 32 or 256 threads per row and slice of k, or one block per 32 packs
// of rows and slice; then the sums of the slices.
#include "../../common/dispatch.cuh"
#include "../../common/shuffle.cuh"
#include "product.cuh"

constexpr int BLOCK = 256, LANES = 32, WARPS = BLOCK / LANES, FEW = 8;

// Elements that are loaded together: 16 bytes, but not more than 8 elements, whose sums fit into registers.
template <class T>
constexpr int PACK = sizeof(T) == 1 ? 8 : 16 / (int)sizeof(T);

// The larger operand (rows, k) and the vectors (k, count). Element (row, j) of the result is at
// row * row_stride + j * column_stride.
template <class T>
struct matvec {
    strided_matrix<T> matrix, vectors;
    int64_t rows, row_stride, column_stride, count;
};

template <class T>
static matvec<T> matvec_of(const product<T> &p, bool b_is_larger)
{
    matvec<T> v = {p.a, p.b, p.m, p.n, 1, p.n};

    if (b_is_larger)
        v = {p.b.transposed(), p.a.transposed(), p.n, 1, p.n, p.m};
    if (v.count == 1)
        v.vectors.column_stride = 0; // there is no next vector, whose alignment would matter
    return v;
}

// Stores a sum of a row: the result, or that of a slice.
template <class T>
static __device__ void store_sum(const product<T> &p, const matvec<T> &v, int64_t z, int64_t row, int64_t j,
                                 wide_type<T> sum)
{
    const int64_t i = row * v.row_stride + j * v.column_stride;

    if (p.slices == 1)
        p.c[z * p.m * p.n + i] = convert<T>(sum);
    else
        p.partial[z * p.m * p.n + i] = convert<accumulator_type<T>>(sum);
}

// `group` threads per row: 32 or all of the block. A thread takes whole packs of k, also if it has to load them
// element by element: which sum an element belongs to does not depend on how memory is aligned.
template <class T, int COUNT, bool PACKS>
__global__ void __launch_bounds__(BLOCK)
    matmul_rows_by_vectors(const product<T> p, const matvec<T> v, int64_t first_vector, corner first, int group)
{
    using Sum = accumulator_type<T>;
    using Wide = wide_type<T>;
    constexpr int V = PACK<T>, IN_FLIGHT = PACKS ? 4 : 1; // elements one by one are in flight anyway
    __shared__ alignas(16) Wide of_warp[COUNT][WARPS];

    const int lane = threadIdx.x % group, warp = threadIdx.x / LANES;
    const int64_t z = first.row + blockIdx.y, batch = z / p.slices, begin = z % p.slices * p.chunk;
    const int64_t end = min(begin + p.chunk, p.k), step = (int64_t)group * V;
    const int64_t row = first.column + ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / group;
    const T *x = v.matrix.data + batch * v.matrix.batch_stride + row * v.matrix.row_stride;
    const int64_t vector = first_vector + (int64_t)blockIdx.z * COUNT; // COUNT of them, or what is left
    const int count = (int)min(v.count - vector, (int64_t)COUNT);
    const T *y = v.vectors.data + batch * v.vectors.batch_stride + vector * v.vectors.column_stride;
    Sum sum[COUNT] = {};

    pdl_wait();
    const auto load = [&](const T *from, int64_t stride, int64_t i) {
        if constexpr (PACKS) {
            return *(const pack<T, V> *)&from[i];
        } else {
            pack<T, V> values;

#pragma unroll
            for (int e = 0; e < V; e++) // beyond the end of k there are zeros
                values.element[e] = i + e < end ? from[(i + e) * stride] : T(0);
            return values;
        }
    };
    const auto multiply = [&](const pack<T, V> &values, int64_t i) {
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
            if (j >= count)
                break;
            const auto others = load(y + j * v.vectors.column_stride, v.vectors.row_stride, i);
#pragma unroll
            for (int e = 0; e < V; e++)
                sum[j] += Sum(values.element[e]) * Sum(others.element[e]);
        }
    };
    int64_t i = row < v.rows ? begin + lane * V : end;
    for (; i + (IN_FLIGHT - 1) * step < end; i += IN_FLIGHT * step) {
        pack<T, V> values[IN_FLIGHT];

#pragma unroll
        for (int l = 0; l < IN_FLIGHT; l++)
            values[l] = load(x, v.matrix.column_stride, i + l * step);
#pragma unroll
        for (int l = 0; l < IN_FLIGHT; l++)
            multiply(values[l], i + l * step);
    }
    for (; i < end; i += step)
        multiply(load(x, v.matrix.column_stride, i), i);

#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        Wide all = Wide(sum[j]);

        for (int delta = LANES / 2; delta > 0; delta /= 2)
            all += shuffle_down(all, delta);
        if (threadIdx.x % LANES == 0)
            of_warp[j][warp] = all;
    }
    if (group == BLOCK) {
        __syncthreads(); // all warps have stored their sums
        if (threadIdx.x >= COUNT)
            return;
        for (int w = 1; w < WARPS; w++)
            of_warp[threadIdx.x][0] += of_warp[threadIdx.x][w];
        if ((int)threadIdx.x < count && row < v.rows)
            store_sum(p, v, z, row, vector + threadIdx.x, of_warp[threadIdx.x][0]);
        return;
    }
    __syncwarp(); // the warp's sums are stored
    if (lane < count && row < v.rows)
        store_sum(p, v, z, row, vector + lane, of_warp[lane][warp]);
}

template <class T, int COUNT, bool PACKS>
__global__ void __launch_bounds__(BLOCK)
    matmul_columns_by_vectors(const product<T> p, const matvec<T> v, int64_t first_vector, corner first)
{
    using Sum = accumulator_type<T>;
    using Wide = wide_type<T>;
    constexpr int V = PACKS ? PACK<T> : 1, IN_FLIGHT = 4;
    __shared__ alignas(16) Sum of_warp[WARPS][LANES * V];

    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int64_t z = first.row + blockIdx.y, batch = z / p.slices, begin = z % p.slices * p.chunk;
    const int64_t end = min(begin + p.chunk, p.k), top = first.column + (int64_t)blockIdx.x * LANES * V;
    const int64_t row = top + lane * V; // V of them
    const T *x = v.matrix.data + batch * v.matrix.batch_stride + row * v.matrix.row_stride;
    const int64_t vector = first_vector + (int64_t)blockIdx.z * COUNT; // COUNT of them, or what is left
    const int count = (int)min(v.count - vector, (int64_t)COUNT);
    const T *y = v.vectors.data + batch * v.vectors.batch_stride + vector * v.vectors.column_stride;
    Sum sum[COUNT][V] = {};

    pdl_wait();
    const auto load = [&](int64_t i) { return *(const pack<T, V> *)&x[i * v.matrix.column_stride]; };
    const auto multiply = [&](const pack<T, V> &values, int64_t i) {
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
            if (j >= count)
                break;
            const Sum other = Sum(y[i * v.vectors.row_stride + j * v.vectors.column_stride]);
#pragma unroll
            for (int e = 0; e < V; e++)
                sum[j][e] += Sum(values.element[e]) * other;
        }
    };
    int64_t i = row < v.rows ? begin + warp : end;
    for (; i + (IN_FLIGHT - 1) * WARPS < end; i += IN_FLIGHT * WARPS) {
        pack<T, V> values[IN_FLIGHT];

#pragma unroll
        for (int l = 0; l < IN_FLIGHT; l++)
            values[l] = load(i + l * WARPS);
#pragma unroll
        for (int l = 0; l < IN_FLIGHT; l++)
            multiply(values[l], i + l * WARPS);
    }
    for (; i < end; i += WARPS)
        multiply(load(i), i);

#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        if (j >= count)
            return;
        for (int e = 0; e < V; e++)
            of_warp[warp][e * LANES + lane] = sum[j][e];
        __syncthreads(); // all warps have stored their sums
        for (int r = threadIdx.x; r < LANES * V; r += BLOCK) {
            const int64_t own = top + r % LANES * V + r / LANES;
            Wide all = Wide(of_warp[0][r]);

            for (int w = 1; w < WARPS; w++)
                all += Wide(of_warp[w][r]);
            if (own < v.rows)
                store_sum(p, v, z, own, vector + j, all);
        }
        __syncthreads(); // the sums have been read before those of the next vector are stored
    }
}

// Packs of k: of the matrix's rows and of the vectors. Packs of rows: of the matrix alone.
template <class T>
static bool has_matvec_packs(const product<T> &p, const matvec<T> &v, bool along_k)
{
    constexpr int V = PACK<T>;

    if (!along_k)
        return has_packs<V>(v.matrix.transposed(), v.rows, true);
    return p.chunk % V == 0 && has_packs<V>(v.matrix, p.k, true) &&
           has_packs<V>(v.vectors.transposed(), p.k, true);
}

template <class T, int COUNT>
static cudaError_t launch_matvec(const matmul_args *args, const product<T> &p, const matvec<T> &v,
                                 cudaStream_t stream)
{
    constexpr int SHORT = 4 * LANES * PACK<T>; // k: a warp per row keeps enough loads in flight
    const bool along_k = args->along_k, packs = has_matvec_packs(p, v, along_k);
    const int group = std::min(p.chunk, p.k) <= SHORT ? LANES : BLOCK;
    const int rows = along_k ? BLOCK / group : LANES * (packs ? PACK<T> : 1); // per block

    return cover(ceil_div(v.count, COUNT), p.batches * p.slices, v.rows, 1, rows,
                 [&](dim3 grid, int64_t first_group, corner first) {
                     const auto start = [&](auto any_packs) {
                         constexpr bool PACKS = decltype(any_packs)::value;

                         return along_k ? launch<matmul_rows_by_vectors<T, COUNT, PACKS>>(
                                              grid, BLOCK, 0, stream, p, v, first_group * COUNT, first, group)
                                        : launch<matmul_columns_by_vectors<T, COUNT, PACKS>>(
                                              grid, BLOCK, 0, stream, p, v, first_group * COUNT, first);
                     };
                     return packs ? start(std::true_type()) : start(std::false_type());
                 });
}

cudaError_t launch_matmul_matvec(const matmul_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY & ~SIGNED>(without_sign(args->dtype), [&](auto zero) {
        using T = decltype(zero);
        const product<T> p = product_of<T>(args);
        const matvec<T> v = matvec_of(p, args->b_is_larger);

        return multiply_and_add_slices(p, stream, [&] {
            return v.count == 1 ? launch_matvec<T, 1>(args, p, v, stream)
                                : launch_matvec<T, FEW>(args, p, v, stream);
        });
    });
}
