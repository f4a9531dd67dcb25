// A reduction by blocks that stride over the rows with 16-byte loads.
//
// The idea: memory is fast when many bytes are in flight. So a thread loads 16 bytes at a time and issues several
// loads before it adds the first one's elements. There are only as many blocks as fill a GPU: each continues with
// further elements, so that the final steps of a block are paid once.
// What the rung below wasted: threads with two small loads each spent most of their time on starting and ending.
// Launch: blocks of whole warps, at most 32; up to MOST_BLOCKS of them along x; of the rows x[o, :, i], i is along
// y and o along z. Then one block per row for the partial results.
#include <cuda_runtime.h>

#include "../common/reduce_launches.cuh"
#include "../common/shuffle.cuh"

constexpr int LOADS = 4;                    // 16-byte loads in flight per thread
constexpr int MIN_ELEMENTS_PER_THREAD = 16; // per thread, if a row has more than one block
constexpr int64_t MOST_BLOCKS = 528;        // per row

template <class In, int WIDTH>
static __device__ void load_16_bytes(In (&into)[WIDTH], const In *from)
{
    const uint4 bits = *(const uint4 *)from;

    static_assert(sizeof into == sizeof bits, "a vector");
    memcpy(into, &bits, sizeof bits);
}

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_vectorized(const In *x, Rows rows, PartialSink<Operation> sink)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads / 32)

    constexpr int WIDTH = 16 % sizeof(In) ? 1 : 16 / sizeof(In); // elements per vector
    const int t = threadIdx.x, threads = blockDim.x;             // t in [0, threads)
    const int64_t thread = (int64_t)blockIdx.x * threads + t, step = (int64_t)gridDim.x * threads;
    const int64_t n = rows.n, inner = rows.inner, begin = rows.begin();
    const In *row = x + begin;

    // Vectors start at multiples of WIDTH in x, whatever x's address. `head` elements of the row precede the first
    // vector, and fewer than WIDTH follow the last.
    const int64_t head = inner > 1 ? 0 : min(n, (WIDTH - begin % WIDTH) % WIDTH);
    const int64_t vectors = (n - head) / WIDTH, tail = head + vectors * WIDTH;
    const bool aligned = inner == 1 && (uintptr_t)(row + head) % 16 == 0;
    auto state = Operation::identity();
    const auto add = [&](In element, int64_t j) { state = Operation::combine(state, Operation::of(element, j)); };

    if (thread < head)
        add(row[thread], thread);
    int64_t v = thread;
    if constexpr (sizeof(In) * WIDTH == 16)
        for (; aligned && v < vectors; v += LOADS * step) {
            alignas(16) In loaded[LOADS][WIDTH];

#pragma unroll
            for (int l = 0; l < LOADS; l++)
                if (v + l * step < vectors)
                    load_16_bytes(loaded[l], row + head + (v + l * step) * WIDTH);
#pragma unroll
            for (int l = 0; l < LOADS; l++)
                for (int k = 0; k < WIDTH && v + l * step < vectors; k++)
                    add(loaded[l][k], head + (v + l * step) * WIDTH + k);
        }
    for (; v < vectors; v += step) // unaligned or strided elements, in the same order
        for (int64_t j = head + v * WIDTH; j < head + (v + 1) * WIDTH; j++)
            add(row[j * inner], j);
    if (thread < n - tail)
        add(row[(tail + thread) * inner], tail + thread);

    for (int delta = 16; delta > 0; delta /= 2) // all lanes shuffle; lane 0 gets the warp's sum
        state = Operation::combine(state, shuffle_down(state, delta));
    if (t % 32 == 0)
        partial[t / 32] = state;
    __syncthreads(); // all warps' sums are stored before the first warp reads them

    if (t < 32) { // one whole warp
        state = t < threads / 32 ? partial[t] : Operation::identity();
        for (int delta = 16; delta > 0; delta /= 2)
            state = Operation::combine(state, shuffle_down(state, delta));
    }
    if (t == 0)
        sink.put(rows, state);
}

cudaError_t launch_reduce_vectorized(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return launch_until_one_per_row<TEXTBOOK>(
        args, [=](int64_t n) { return std::min(ceil_div(n, MIN_ELEMENTS_PER_THREAD * threads), MOST_BLOCKS); },
        [=](dim3 grid, auto x, Rows rows, auto sink) {
            reduce_vectorized<<<grid, threads, threads / 32 * sizeof(*sink.states), stream>>>(x, rows, sink);
            return cudaGetLastError();
        });
}
