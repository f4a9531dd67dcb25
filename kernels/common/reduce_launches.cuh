// The launches of a reduction in several levels: every block writes one partial result, and further launches
// reduce these, until one result per row is left. The rungs that work this way share this file and differ only in
// their kernels.
#pragma once

#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>

#include "grid.cuh"
#include "kernels.h"
#include "reduce_finish.cuh"
#include "reduce_ops.cuh"

// The rows x[o, :, i] of x (outer, n, inner) that one launch reduces. The blocks of a row are along the grid's x,
// the i from first_inner on along y, the o from first_outer on along z. If x arrives in parts, n is the row length
// of this part, and `first` elements of each row were in earlier parts.
struct Rows {
    int64_t n, inner, first_outer, first_inner, first;

    // index in x of the first element of the block's row; its elements are `inner` apart
    __device__ int64_t begin() const
    {
        return (first_outer + blockIdx.z) * n * inner + first_inner + blockIdx.y;
    }
    __device__ int64_t number() const // of the row, [0, outer * inner)
    {
        return (first_outer + blockIdx.z) * inner + first_inner + blockIdx.y;
    }
};

// Where a block stores its result: as a partial result, or as the final one if the row has a single block.
template <class Operation>
struct PartialSink {
    typename Operation::State *states; // (rows, blocks)
    int64_t blocks, first_block;       // per row: in all parts, and in the parts before this one
    reduce_args args;

    __device__ void put(const Rows &rows, typename Operation::State state) const
    {
        if (blocks > 1)
            states[rows.number() * blocks + first_block + blockIdx.x] = state;
        else
            finish(Operation(), state, rows.number(), args);
    }
};

// Calls launch(grid, x, rows, sink) until one result per row is left or a launch fails. A row of n elements gets
// blocks_for(n) blocks, and reduce_scratch_bytes() has memory for their partial results. DTYPES is the set of the
// kernel's row in the table.
template <unsigned DTYPES, class Blocks, class Launch>
[[nodiscard]] cudaError_t launch_until_one_per_row(const reduce_args *args, Blocks blocks_for, Launch launch)
{
    return dispatch_reduce<DTYPES>(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using State = typename Operation::State;
        static_assert(sizeof(State) <= REDUCE_MAX_STATE_BYTES,
                      "a partial result must fit into its scratch memory");

        State *states = (State *)args->scratch;
        // `part` of the n elements of each row, from element `first` on
        const auto launch_pass = [&](auto x, int64_t outer, int64_t n, int64_t inner, int64_t first,
                                     int64_t part) -> cudaError_t {
            const PartialSink<Operation> left{states, blocks_for(n), blocks_for(first), *args};

            for (int64_t o = 0; o < outer; o += MAX_GRID_YZ)
                for (int64_t i = 0; i < inner; i += MAX_GRID_YZ) {
                    const dim3 grid((unsigned)blocks_for(part), (unsigned)std::min(inner - i, MAX_GRID_YZ),
                                    (unsigned)std::min(outer - o, MAX_GRID_YZ));

                    if (cudaError_t error = launch(grid, x, Rows{part, inner, o, i, first}, left))
                        return error;
                }
            return cudaSuccess;
        };
        const int64_t rows = args->outer * args->inner;
        int64_t left = blocks_for(args->n); // of each row, side by side

        cudaError_t error = launch_pass((const decltype(zero) *)args->x, args->outer, args->n, args->inner,
                                        args->first, args->count);
        if (args->first + args->count < args->n) // later parts are still missing
            return error;
        while (left > 1 && !error) {
            const State *x = states;

            states += rows * left;
            error = launch_pass(x, rows, left, 1, 0, left);
            left = blocks_for(left);
        }
        return error;
    });
}
