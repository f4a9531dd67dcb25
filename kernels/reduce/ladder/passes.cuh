// What the rungs of this ladder share: their four operations, and the passes of a reduction. In a pass every block
// computes one partial result; further passes reduce these, until each row has one.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <type_traits>

#include "../../common/grid.cuh"
#include "../../common/reduce_finish.cuh"
#include "../../common/reduce_ops.cuh"
#include "kernels.h"

// Where blocks store their partial results. The blocks of a pass are numbered row by row.
template <class Operation>
struct Results {
    typename Operation::State *partials; // (rows, blocks)
    unsigned blocks;                     // per row
    reduce_args args;

    // stores the block's partial result; or the row's result, if the row has a single block
    __device__ void put(typename Operation::State state) const
    {
        if (blocks > 1)
            partials[blockIdx.x] = state;
        else
            finish(Operation(), state, blockIdx.x, args);
    }
};

// f(Operation(), In()) for the operation in args and elements of type In: integers are added in 64 bits, floats in
// single precision, doubles in double precision.
template <class F>
[[nodiscard]] cudaError_t dispatch_rung(const reduce_args *args, F f)
{
    return dispatch_dtype<REAL>(args->dtype, [&](auto x) {
        using In = decltype(x);
        constexpr bool is_integer = std::is_integral_v<In> || std::is_same_v<In, boolean>;
        using Total = std::conditional_t<is_integer, uint64_t, std::conditional_t<sizeof(In) == 8, double, float>>;

        switch (args->op) {
        case REDUCE_SUM:
            return f(Sum<Total>(), summand<Total, In>());
        case REDUCE_PROD:
            return f(Prod<Total>(), summand<Total, In>());
        case REDUCE_MIN:
            return f(Extremum<MinOrder<wide<In>>>(), x);
        case REDUCE_MAX:
            return f(Extremum<MaxOrder<wide<In>>>(), x);
        default:
            return cudaErrorInvalidValue;
        }
    });
}

// One pass: launch(blocks, x, n, results) for rows of n elements, of `blocks` blocks each.
template <class Operation, class X, class Launch>
[[nodiscard]] cudaError_t launch_pass(const reduce_args *args, const Launch &launch, const X *x, int64_t n,
                                      typename Operation::State *partials, int64_t blocks)
{
    if (args->outer * blocks > INT32_MAX) // a grid has no more
        return cudaErrorInvalidConfiguration;
    return launch((unsigned)(args->outer * blocks), x, n, Results<Operation>{partials, (unsigned)blocks, *args});
}

// Calls launch(blocks, x, n, results) for rows of n elements until each has one result, or a launch fails. A row
// gets blocks_for(n) blocks, and `blocks` are those of all rows.
template <class Blocks, class Launch>
[[nodiscard]] cudaError_t reduce_in_passes(const reduce_args *args, Blocks blocks_for, Launch launch)
{
    return dispatch_rung(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using State = typename Operation::State;
        static_assert(sizeof(State) <= REDUCE_RUNG_STATE_BYTES, "its scratch memory");
        const auto x = (const decltype(zero) *)args->x;
        auto partials = (State *)args->scratch;
        int64_t left = blocks_for(args->n);

        cudaError_t error = launch_pass<Operation>(args, launch, x, args->n, partials, left);
        while (left > 1 && !error) {
            const State *made = partials;
            const int64_t n = left;

            partials += args->outer * left;
            left = blocks_for(n);
            error = launch_pass<Operation>(args, launch, made, n, partials, left);
        }
        return error;
    });
}
