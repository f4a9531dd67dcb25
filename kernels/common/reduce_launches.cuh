// The launches of a reduction whose blocks leave a partial result each: one of x, then one of what the last one
// left, until that is one a row. The rungs that work so share them, and differ in their kernels alone.
#pragma once

#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>

#include "grid.cuh"
#include "kernels.h"
#include "reduce_finish.cuh"
#include "reduce_ops.cuh"

// The rows x[o, :, i] of x (outer, n, inner) in one launch: the blocks of a row along the grid's x, some of the i
// along its y, from first_i on, and some of the o along its z, from first_o on. Where x comes in parts, n elements
// of each row, `first` came with the parts before.
struct Rows {
    int64_t n, inner, first_o, first_i, first;

    // where in x the block's row begins: n elements, `inner` apart
    __device__ int64_t begin() const
    {
        return (first_o + blockIdx.z) * n * inner + first_i + blockIdx.y;
    }
    __device__ int64_t number() const // [0, outer * inner)
    {
        return (first_o + blockIdx.z) * inner + first_i + blockIdx.y;
    }
};

// What a launch's blocks leave: partial results, or the results where one block has all of its row.
template <class Operation>
struct Left {
    typename Operation::State *states; // (rows, blocks)
    int64_t blocks, first_block;       // of a row, in all parts and in those before
    reduce_args args;

    __device__ void put(const Rows &rows, typename Operation::State state) const
    {
        if (blocks > 1)
            states[rows.number() * blocks + first_block + blockIdx.x] = state;
        else
            finish(Operation(), state, rows.number(), args);
    }
};

// launch(grid, x, rows, left) until one result a row is left, or a launch fails. A row of n elements is given to
// blocks_of(n) blocks, no more than reduce_scratch() has room for. DTYPES are the row's in the table.
template <unsigned DTYPES, class Blocks, class Launch>
[[nodiscard]] cudaError_t launch_until_one(const reduce_args *args, Blocks blocks_of, Launch launch)
{
    return dispatch_reduce<DTYPES>(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using State = typename Operation::State;
        static_assert(sizeof(State) <= REDUCE_STATE_BYTES, "reduce_scratch() has room for it");

        State *states = (State *)args->scratch;
        // `part` of the n elements of each row, after the `first`
        const auto launch_rows = [&](auto x, int64_t outer, int64_t n, int64_t inner, int64_t first,
                                     int64_t part) -> cudaError_t {
            const Left<Operation> left{states, blocks_of(n), blocks_of(first), *args};

            for (int64_t o = 0; o < outer; o += MAX_GRID_YZ)
                for (int64_t i = 0; i < inner; i += MAX_GRID_YZ) {
                    const dim3 grid((unsigned)blocks_of(part), (unsigned)std::min(inner - i, MAX_GRID_YZ),
                                    (unsigned)std::min(outer - o, MAX_GRID_YZ));

                    if (cudaError_t error = launch(grid, x, Rows{part, inner, o, i, first}, left))
                        return error;
                }
            return cudaSuccess;
        };
        const int64_t rows = args->outer * args->inner;
        int64_t left = blocks_of(args->n); // of each row, side by side

        cudaError_t error = launch_rows((const decltype(zero) *)args->x, args->outer, args->n, args->inner,
                                        args->first, args->count);
        if (args->first + args->count < args->n) // the other parts are still to come
            return error;
        while (left > 1 && !error) {
            const State *x = states;

            states += rows * left;
            error = launch_rows(x, rows, left, 1, 0, left);
            left = blocks_of(left);
        }
        return error;
    });
}
