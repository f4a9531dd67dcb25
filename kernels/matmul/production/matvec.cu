// C = A @ B where B has few columns, or A few rows: at memory bandwidth, since each element of the larger
// operand is used for few products.
//
// The idea: the larger operand is a matrix of many rows along k, the other one VECTORS vectors (more of them take
// several rounds). Where k is contiguous, a group of threads takes a row, loads neighbouring packs of it, and adds
// up its sums by shuffles. For several vectors, parts of 64 rows and of the vectors are copied to shared memory by
// cp.async (elements of less than 4 bytes one by one), the next ones while these are multiplied; of each part a
// warp takes an eighth of k, and a lane two rows. Where the rows are neighbours in memory (a vector times a
// row-major matrix), a lane takes a pack of rows, and the warps of a block take every 8th element of k; with
// several vectors cp.async copies both operands. What `simt` wastes on it: 63 of the 64 columns of its tile.
// Launch: blocks of 256 threads per slice of k, and per 1, 8 or 64 rows or 32 packs of rows; then the sums of the
// slices.
#include <cuda_pipeline.h>

#include "../../common/dispatch.cuh"
#include "../../common/shuffle.cuh"
#include "product.cuh"

constexpr int BLOCK = 256, LANES = 32, WARPS = BLOCK / LANES, VECTORS = 8;

// Elements that are loaded together: 16 bytes, but not more than 8 elements, whose sums fit into registers.
template <class T>
constexpr int PACK = sizeof(T) == 1 ? 8 : 16 / (int)sizeof(T);

// The larger operand (rows, k) and the vectors (k, count). Element (row, j) of the result is at
// row * row_stride + j * column_stride.
template <class T>
struct matvec {
    strided_matrix<T> matrix, vectors;
    int64_t rows, row_stride, column_stride, count;
    bool stores_packs; // neighbours in the result are rows, and all packs of them are whole
};

template <class T>
static matvec<T> matvec_of(const product<T> &p, bool b_is_larger)
{
    matvec<T> v = {p.a, p.b, p.m, p.n, 1, p.n, false};

    if (b_is_larger)
        v = {p.b.transposed(),
             p.a.transposed(),
             p.n,
             1,
             p.n,
             p.m,
             p.n % PACK<T> == 0 && (uintptr_t)p.c % sizeof(pack<T, PACK<T>>) == 0};
    if (v.count == 1)
        v.vectors.column_stride = 0; // there is no second vector whose alignment could matter
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

// A pack of k from element i < end on; beyond the end of k there are zeros. Threads take whole packs of k, also if
// they have to load them element by element: which sum an element belongs to does not depend on how memory is
// aligned.
template <class T, bool PACKS>
static __device__ pack<T, PACK<T>> load_along_k(const T *from, int64_t stride, int64_t i, int64_t end)
{
    constexpr int V = PACK<T>;

    if constexpr (PACKS) {
        return *(const pack<T, V> *)&from[i];
    } else {
        pack<T, V> values;

#pragma unroll
        for (int e = 0; e < V; e++)
            values.element[e] = i + e < end ? from[(i + e) * stride] : T(0);
        return values;
    }
}

// The sum of the lanes' values, in lane 0.
template <class Wide>
static __device__ Wide sum_of_lanes(Wide value)
{
    for (int delta = LANES / 2; delta > 0; delta /= 2)
        value += shuffle_down(value, delta);
    return value;
}

// One vector. `group` threads per row: 32 or all of the block.
template <class T, bool PACKS>
__global__ void __launch_bounds__(BLOCK)
    matmul_rows_by_vector(const product<T> p, const matvec<T> v, corner first, int group)
{
    using Sum = accumulator_type<T>;
    using Wide = wide_type<T>;
    constexpr int V = PACK<T>, IN_FLIGHT = PACKS ? 4 : 1; // elements one by one are in flight anyway
    __shared__ alignas(16) Wide of_warp[WARPS];

    const int lane = threadIdx.x % group, warp = threadIdx.x / LANES;
    const int64_t z = first.row + blockIdx.y, batch = z / p.slices, begin = z % p.slices * p.k_per_slice;
    const int64_t end = min(begin + p.k_per_slice, p.k), step = (int64_t)group * V;
    const int64_t row = first.column + ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / group;
    const T *x = v.matrix.data + batch * v.matrix.batch_stride + row * v.matrix.row_stride;
    const T *y = v.vectors.data + batch * v.vectors.batch_stride;
    Sum sum = {};

    pdl_wait();
    const auto multiply = [&](const pack<T, V> &values, int64_t i) {
        const auto others = load_along_k<T, PACKS>(y, v.vectors.row_stride, i, end);
#pragma unroll
        for (int e = 0; e < V; e++)
            sum += Sum(values.element[e]) * Sum(others.element[e]);
    };
    int64_t i = row < v.rows ? begin + lane * V : end;
    for (; i + (IN_FLIGHT - 1) * step < end; i += IN_FLIGHT * step) {
        pack<T, V> values[IN_FLIGHT];

#pragma unroll
        for (int l = 0; l < IN_FLIGHT; l++)
            values[l] = load_along_k<T, PACKS>(x, v.matrix.column_stride, i + l * step, end);
#pragma unroll
        for (int l = 0; l < IN_FLIGHT; l++)
            multiply(values[l], i + l * step);
    }
    for (; i < end; i += step)
        multiply(load_along_k<T, PACKS>(x, v.matrix.column_stride, i, end), i);

    Wide all = sum_of_lanes(Wide(sum));
    if (group == BLOCK) {
        if (threadIdx.x % LANES == 0)
            of_warp[warp] = all;
        __syncthreads(); // all warps have stored their sums
        if (threadIdx.x == 0)
            for (int w = 1; w < WARPS; w++)
                all += of_warp[w];
    }
    if (lane == 0 && row < v.rows)
        store_sum(p, v, z, row, 0, all);
}

// What a block multiplies at once: DEPTH elements, 256 bytes, of ROWS rows of the matrix and of VECTORS vectors.
template <class T, int ROWS_OF_LANE>
struct row_stage {
    static constexpr int V = 16 / (int)sizeof(T), DEPTH = 16 * V, ROWS = ROWS_OF_LANE * LANES;
    static constexpr int PER_WARP = DEPTH / WARPS; // of k, two packs of V

    alignas(16) T matrix[ROWS][DEPTH + V]; // lanes read packs of 32 rows: 8 of them are in different banks
    alignas(16) T vectors[DEPTH][VECTORS]; // all lanes read the same ones
};
constexpr int STAGES = 3;

// The distance of the sums of two vectors: those of neighbouring rows and 8 vectors are in different banks.
template <class Sum>
constexpr int SUM_PITCH = LANES + 16 / (int)sizeof(Sum);

// Copies an element to shared memory, or a zero: in the background if it has 4 bytes or more. `valid`: an address
// that may be read, of which nothing is copied.
template <class T>
static __device__ void copy_element(T *to, const T *from, bool inside, const T *valid)
{
    if constexpr (sizeof(T) >= 4)
        __pipeline_memcpy_async(to, inside ? from : valid, sizeof(T), inside ? 0 : sizeof(T));
    else
        *to = inside ? *from : T(0);
}

// Starts the copies of DEPTH elements of a block's vectors, `left` of which are in its slice of k; zeros beyond.
template <class T, int DEPTH>
static __device__ void copy_vectors(T (&to)[DEPTH][VECTORS], const T *from, const strided_matrix<T> &vectors,
                                    bool across, int count, int64_t left)
{
    for (int i = threadIdx.x; i < DEPTH * VECTORS && left > 0; i += BLOCK) {
        const int j = across ? i % VECTORS : i / 8 % VECTORS; // 8 neighbours: a sector of 4-byte elements
        const int at = across ? i / VECTORS : i % 8 + i / (8 * VECTORS) * 8;

        copy_element(&to[at][j], from + at * vectors.row_stride + j * vectors.column_stride,
                     j < count && at < left, vectors.data);
    }
}

template <class T, int ROWS_OF_LANE, bool PACKS>
__global__ void __launch_bounds__(BLOCK)
    matmul_rows_by_vectors(const product<T> p, const matvec<T> v, int64_t first_vector, corner first)
{
    using Stage = row_stage<T, ROWS_OF_LANE>;
    using Sum = accumulator_type<T>;
    using Wide = wide_type<T>;
    constexpr int V = Stage::V, DEPTH = Stage::DEPTH;
    constexpr int PACKS_OF_ROW = DEPTH / V, STEP = BLOCK / PACKS_OF_ROW; // threads; rows that they copy at once
    constexpr int FLUSH = 16; // stages whose products are added up in `sum`, before that is added to `total`
    extern __shared__ __align__(16) unsigned char shared[];
    Stage *stages = (Stage *)shared;

    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int64_t z = first.row + blockIdx.y, batch = z / p.slices, begin = z % p.slices * p.k_per_slice;
    const int64_t end = min(begin + p.k_per_slice, p.k), row_stride = v.matrix.row_stride;
    const int64_t row = first.column + (int64_t)blockIdx.x * Stage::ROWS; // ROWS of them, or what is left
    const T *x = v.matrix.data + batch * v.matrix.batch_stride;
    const int64_t vector = first_vector + (int64_t)blockIdx.z * VECTORS; // VECTORS of them, or what is left
    const int count = (int)min(v.count - vector, (int64_t)VECTORS);
    const T *y = v.vectors.data + batch * v.vectors.batch_stride + vector * v.vectors.column_stride;
    const bool across = v.vectors.column_stride == 1; // neighbours in memory belong to different vectors
    const int own_row = threadIdx.x / PACKS_OF_ROW, own_k = threadIdx.x % PACKS_OF_ROW * V; // that a thread copies

    const auto copy_pack = [&](T *to, int r, int64_t i) { // zeros beyond the last row and the end of k
        const T *from = x + (row + r) * row_stride;

        if (row + r >= v.rows && i >= begin + STAGES * DEPTH)
            return; // the zeros of this stage are still there
        if (row + r >= v.rows || i >= end)
            *(pack<T, V> *)to = {};
        else if (PACKS)
            __pipeline_memcpy_async(to, from + i, 16);
        else
            for (int e = 0; e < V; e++)
                copy_element(&to[e], from + (i + e) * v.matrix.column_stride, i + e < end, x);
    };
    const auto load = [&](Stage &stage, int64_t from) {
        const bool whole = PACKS && row + Stage::ROWS <= v.rows && from + DEPTH <= end; // no row needs a test

        copy_vectors(stage.vectors, y + from * v.vectors.row_stride, v.vectors, across, count, end - from);
        if (whole) {
            const T *source = x + (row + own_row) * row_stride + from + own_k;
#pragma unroll
            for (int r = 0; r < Stage::ROWS; r += STEP, source += STEP * row_stride)
                __pipeline_memcpy_async(&stage.matrix[own_row + r][own_k], source, 16);
        } else if (from < end) {
            for (int r = own_row; r < Stage::ROWS; r += STEP)
                copy_pack(&stage.matrix[r][own_k], r, from + own_k);
        }
        __pipeline_commit();
    };

    Sum sum[ROWS_OF_LANE][VECTORS] = {}, total[ROWS_OF_LANE][VECTORS] = {};
    const auto multiply = [&](const Stage &stage) { // the warp's part of k
#pragma unroll
        for (int k = warp * Stage::PER_WARP, i = 0; i < Stage::PER_WARP; i += V, k += V) {
            pack<T, V> values[ROWS_OF_LANE];

#pragma unroll
            for (int r = 0; r < ROWS_OF_LANE; r++)
                values[r] = *(const pack<T, V> *)&stage.matrix[r * LANES + lane][k];
#pragma unroll
            for (int e = 0; e < V; e++) {
                const auto others = *(const pack<T, VECTORS> *)stage.vectors[k + e];
#pragma unroll
                for (int r = 0; r < ROWS_OF_LANE; r++)
#pragma unroll
                    for (int j = 0; j < VECTORS; j++)
                        sum[r][j] += Sum(values[r].element[e]) * Sum(others.element[j]);
            }
        }
    };
    const auto flush = [&] {
#pragma unroll
        for (int i = 0; i < ROWS_OF_LANE * VECTORS; i++) {
            total[i / VECTORS][i % VECTORS] += sum[i / VECTORS][i % VECTORS];
            sum[i / VECTORS][i % VECTORS] = Sum(0);
        }
    };

    pdl_wait();
    for (int s = 0; s < STAGES - 1; s++)
        load(stages[s], begin + s * DEPTH);
    int s = 0, done = 0;
    for (int64_t from = begin; from < end; from += DEPTH) {
        __pipeline_wait_prior(STAGES - 2); // this thread's copies to the stage are complete,
        __syncthreads();                   // and so are all threads'; and the stage before it has been read
        load(stages[(s + STAGES - 1) % STAGES], from + (STAGES - 1) * DEPTH);
        multiply(stages[s]);
        s = s + 1 == STAGES ? 0 : s + 1;
        if (++done % FLUSH == 0)
            flush();
    }
    flush();

    constexpr int PITCH = SUM_PITCH<Sum>;
    Sum(*of_warp)[VECTORS][PITCH] = (Sum(*)[VECTORS][PITCH])shared; // the sums of a row of each lane
    const bool rows_first = v.column_stride != 1;                   // neighbouring threads store neighbours in C
    const int own_vector = rows_first ? warp : threadIdx.x % VECTORS;
    const int own_lane = rows_first ? lane : threadIdx.x / VECTORS;

    __pipeline_wait_prior(0);
#pragma unroll
    for (int r = 0; r < ROWS_OF_LANE; r++) {
        __syncthreads(); // the stages, or the sums of the rows before, have been read
#pragma unroll
        for (int j = 0; j < VECTORS; j++)
            of_warp[warp][j][lane] = total[r][j];
        __syncthreads(); // all warps have stored their sums
        Wide all = Wide(of_warp[0][own_vector][own_lane]);

        for (int w = 1; w < WARPS; w++)
            all += Wide(of_warp[w][own_vector][own_lane]);
        if (row + r * LANES + own_lane < v.rows && own_vector < count)
            store_sum(p, v, z, row + r * LANES + own_lane, vector + own_vector, all);
    }
}

// One vector, and a matrix whose rows are neighbours in memory.
template <class T, bool PACKS>
__global__ void __launch_bounds__(BLOCK)
    matmul_columns_by_vector(const product<T> p, const matvec<T> v, corner first)
{
    using Sum = accumulator_type<T>;
    using Wide = wide_type<T>;
    constexpr int V = PACKS ? PACK<T> : 1, IN_FLIGHT = 4, PART = 4 * IN_FLIGHT * WARPS; // of k in shared memory
    __shared__ alignas(16) Sum of_warp[WARPS][LANES * V];
    __shared__ T y_parts[2][PART]; // one part is filled, the other is read

    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int64_t z = first.row + blockIdx.y, batch = z / p.slices, begin = z % p.slices * p.k_per_slice;
    const int64_t end = min(begin + p.k_per_slice, p.k), top = first.column + (int64_t)blockIdx.x * LANES * V;
    const int64_t row = top + lane * V; // V of them
    const T *x = v.matrix.data + batch * v.matrix.batch_stride + row * v.matrix.row_stride;
    const T *y = v.vectors.data + batch * v.vectors.batch_stride;
    Sum sum[V] = {};

    const auto load = [&](int64_t i) { return *(const pack<T, V> *)&x[i * v.matrix.column_stride]; };
    const auto multiply = [&](const pack<T, V> &values, T other) {
#pragma unroll
        for (int e = 0; e < V; e++)
            sum[e] += Sum(values.element[e]) * Sum(other);
    };

    pdl_wait();
    int parts = 0; // done
    for (int64_t from = begin; from < end; from += PART, parts++) {
        const int size = row < v.rows ? (int)min(end - from, (int64_t)PART) : 0;
        T(&part)[PART] = y_parts[parts % 2];
        int i = warp;

        if (threadIdx.x < PART && from + threadIdx.x < end)
            part[threadIdx.x] = y[(from + threadIdx.x) * v.vectors.row_stride];
        __syncthreads(); // this part is filled; and all warps have read the one before it
        for (; i + (IN_FLIGHT - 1) * WARPS < size; i += IN_FLIGHT * WARPS) {
            pack<T, V> values[IN_FLIGHT];

#pragma unroll
            for (int l = 0; l < IN_FLIGHT; l++)
                values[l] = load(from + i + l * WARPS);
#pragma unroll
            for (int l = 0; l < IN_FLIGHT; l++)
                multiply(values[l], part[i + l * WARPS]);
        }
        for (; i < size; i += WARPS)
            multiply(load(from + i), part[i]);
    }

    for (int e = 0; e < V; e++)
        of_warp[warp][e * LANES + lane] = sum[e];
    __syncthreads(); // all warps have stored their sums
    for (int r = threadIdx.x; r < LANES * V; r += BLOCK) {
        const int64_t own = top + r % LANES * V + r / LANES;
        Wide all = Wide(of_warp[0][r]);

        for (int w = 1; w < WARPS; w++)
            all += Wide(of_warp[w][r]);
        if (own < v.rows)
            store_sum(p, v, z, own, 0, all);
    }
}

// What a block multiplies at once where the rows of the matrix are neighbours in memory: DEPTH elements of a pack
// of rows per lane, and of VECTORS vectors.
template <class T>
struct column_stage {
    static constexpr int V = PACK<T>, DEPTH = 4 * WARPS, ROWS = LANES * V;

    alignas(16) T matrix[DEPTH][ROWS];
    alignas(16) T vectors[DEPTH][VECTORS]; // all lanes read the same ones
};

// Several vectors: each warp takes every 8th element of k.
template <class T, bool PACKS>
__global__ void __launch_bounds__(BLOCK)
    matmul_columns_by_vectors(const product<T> p, const matvec<T> v, int64_t first_vector, corner first)
{
    using Stage = column_stage<T>;
    using Sum = accumulator_type<T>;
    using Wide = wide_type<T>;
    constexpr int V = Stage::V, DEPTH = Stage::DEPTH;
    extern __shared__ __align__(16) unsigned char shared[];
    Stage *stages = (Stage *)shared;

    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int64_t z = first.row + blockIdx.y, batch = z / p.slices, begin = z % p.slices * p.k_per_slice;
    const int64_t end = min(begin + p.k_per_slice, p.k), column_stride = v.matrix.column_stride;
    const int64_t row = first.column + (int64_t)blockIdx.x * Stage::ROWS + lane * V; // V of them
    const T *x = v.matrix.data + batch * v.matrix.batch_stride + row * v.matrix.row_stride;
    const int64_t vector = first_vector + (int64_t)blockIdx.z * VECTORS; // VECTORS of them, or what is left
    const int count = (int)min(v.count - vector, (int64_t)VECTORS);
    const T *y = v.vectors.data + batch * v.vectors.batch_stride + vector * v.vectors.column_stride;
    const bool across = v.vectors.column_stride == 1; // neighbours in memory belong to different vectors

    const auto load = [&](Stage &stage, int64_t from) { // zeros beyond the last row, the end of k, the last vector
        copy_vectors(stage.vectors, y + from * v.vectors.row_stride, v.vectors, across, count, end - from);
#pragma unroll
        for (int k = warp; k < DEPTH && from < end; k += WARPS) {
            T *to = &stage.matrix[k][lane * V];
            const T *source = x + (from + k) * column_stride;

            if (row >= v.rows || from + k >= end)
                *(pack<T, V> *)to = {};
            else if (PACKS)
                __pipeline_memcpy_async(to, source, sizeof(pack<T, V>));
            else
                for (int e = 0; e < V; e++)
                    copy_element(&to[e], source + e * v.matrix.row_stride, row + e < v.rows, x);
        }
        __pipeline_commit();
    };

    pdl_wait();
    Sum sum[VECTORS][V] = {};
    for (int s = 0; s < STAGES - 1; s++)
        load(stages[s], begin + s * DEPTH);
    int s = 0;
    for (int64_t from = begin; from < end; from += DEPTH) {
        __pipeline_wait_prior(STAGES - 2); // this thread's copies to the stage are complete,
        __syncthreads();                   // so are all threads'; and the stage before it has been read
        load(stages[(s + STAGES - 1) % STAGES], from + (STAGES - 1) * DEPTH);
#pragma unroll
        for (int k = warp; k < DEPTH; k += WARPS) {
            const auto values = *(const pack<T, V> *)&stages[s].matrix[k][lane * V];
            const auto others = *(const pack<T, VECTORS> *)stages[s].vectors[k];
#pragma unroll
            for (int j = 0; j < VECTORS; j++)
#pragma unroll
                for (int e = 0; e < V; e++)
                    sum[j][e] += Sum(values.element[e]) * Sum(others.element[j]);
        }
        s = s + 1 == STAGES ? 0 : s + 1;
    }

    Sum(*of_warp)[VECTORS][V][LANES] = (Sum(*)[VECTORS][V][LANES])shared;
    __pipeline_wait_prior(0);
    __syncthreads(); // the stages have been read
#pragma unroll
    for (int j = 0; j < VECTORS; j++)
#pragma unroll
        for (int e = 0; e < V; e++)
            of_warp[warp][j][e][lane] = sum[j][e];
    __syncthreads();                 // all warps have stored their sums
    static_assert(WARPS == VECTORS); // a warp adds up those of one vector
    pack<T, V> result;
#pragma unroll
    for (int e = 0; e < V; e++) {
        Wide all = Wide(of_warp[0][warp][e][lane]);

        for (int w = 1; w < WARPS; w++)
            all += Wide(of_warp[w][warp][e][lane]);
        result.element[e] = convert<T>(all);
        if (warp < count && row + e < v.rows && (p.slices > 1 || !v.stores_packs))
            store_sum(p, v, z, row + e, vector + warp, all);
    }
    if (warp < count && row < v.rows && p.slices == 1 && v.stores_packs)
        *(pack<T, V> *)&p.c[z * p.m * p.n + row + (vector + warp) * v.column_stride] = result;
}

// Packs of k: of the matrix's rows and, if there is only one, of the vector. Packs of rows: of the matrix alone.
template <class T>
static bool has_matvec_packs(const product<T> &p, const matvec<T> &v, bool along_k)
{
    constexpr int V = PACK<T>, STAGE_V = row_stage<T, 1>::V;

    if (!along_k)
        return has_packs<V>(v.matrix.transposed(), v.rows, true);
    if (v.count > 1)
        return p.k_per_slice % STAGE_V == 0 && has_packs<STAGE_V>(v.matrix, p.k, true);
    return p.k_per_slice % V == 0 && has_packs<V>(v.matrix, p.k, true) &&
           has_packs<V>(v.vectors.transposed(), p.k, true);
}

// Calls start(grid, the first group of `few` vectors, the corner of the grid) for all rows and vectors.
template <class T, class F>
static cudaError_t cover_rows(const product<T> &p, const matvec<T> &v, int per_group, int rows, F start)
{
    return cover(ceil_div(v.count, per_group), p.batches * p.slices, v.rows, 1, rows, start);
}

template <class T, int ROWS_OF_LANE, bool PACKS>
static cudaError_t launch_rows(const product<T> &p, const matvec<T> &v, cudaStream_t stream)
{
    using Stage = row_stage<T, ROWS_OF_LANE>;
    using Sum = accumulator_type<T>;
    constexpr int SUMS = WARPS * VECTORS * SUM_PITCH<Sum> * (int)sizeof(Sum);
    constexpr int BYTES = std::max(STAGES * (int)sizeof(Stage), SUMS);

    if (cudaError_t error = allow_shared_bytes<matmul_rows_by_vectors<T, ROWS_OF_LANE, PACKS>>(BYTES))
        return error;
    return cover_rows(p, v, VECTORS, Stage::ROWS, [&](dim3 grid, int64_t group_of_vectors, corner first) {
        return launch<matmul_rows_by_vectors<T, ROWS_OF_LANE, PACKS>>(grid, BLOCK, BYTES, stream, p, v,
                                                                      group_of_vectors * VECTORS, first);
    });
}

template <class T, bool PACKS>
static cudaError_t launch_along_k(const product<T> &p, const matvec<T> &v, cudaStream_t stream)
{
    constexpr int SHORT = 4 * LANES * PACK<T>; // k: a warp per row keeps enough loads in flight
    const int group = std::min(p.k_per_slice, p.k) <= SHORT ? LANES : BLOCK;

    if (v.count == 1)
        return cover_rows(p, v, 1, BLOCK / group, [&](dim3 grid, int64_t, corner first) {
            return launch<matmul_rows_by_vector<T, PACKS>>(grid, BLOCK, 0, stream, p, v, first, group);
        });
    return v.rows <= LANES ? launch_rows<T, 1, PACKS>(p, v, stream) : launch_rows<T, 2, PACKS>(p, v, stream);
}

template <class T, bool PACKS>
static cudaError_t launch_across_k(const product<T> &p, const matvec<T> &v, cudaStream_t stream)
{
    using Stage = column_stage<T>;
    constexpr int SUMS = WARPS * VECTORS * Stage::ROWS * (int)sizeof(accumulator_type<T>);
    constexpr int BYTES = std::max(STAGES * (int)sizeof(Stage), SUMS);

    if (v.count == 1)
        return cover_rows(p, v, 1, LANES * (PACKS ? PACK<T> : 1), [&](dim3 grid, int64_t, corner first) {
            return launch<matmul_columns_by_vector<T, PACKS>>(grid, BLOCK, 0, stream, p, v, first);
        });
    if (cudaError_t error = allow_shared_bytes<matmul_columns_by_vectors<T, PACKS>>(BYTES))
        return error;
    return cover_rows(p, v, VECTORS, Stage::ROWS, [&](dim3 grid, int64_t group_of_vectors, corner first) {
        return launch<matmul_columns_by_vectors<T, PACKS>>(grid, BLOCK, BYTES, stream, p, v,
                                                           group_of_vectors * VECTORS, first);
    });
}

cudaError_t launch_matmul_matvec(const matmul_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY & ~SIGNED>(without_sign(args->dtype), [&](auto zero) {
        using T = decltype(zero);
        const product<T> p = product_of<T>(args);
        const matvec<T> v = matvec_of(p, args->b_is_larger);
        const auto start = [&](auto any_packs) {
            constexpr bool PACKS = decltype(any_packs)::value;

            return args->along_k ? launch_along_k<T, PACKS>(p, v, stream)
                                 : launch_across_k<T, PACKS>(p, v, stream);
        };

        return multiply_and_add_slices(p, stream, [&] {
            return has_matvec_packs(p, v, args->along_k) ? start(std::true_type()) : start(std::false_type());
        });
    });
}
