// What threads make of their states together: a group of a warp's threads, a block, the blocks of a launch.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

#include "kernels.h"
#include "shuffle.cuh"

// The states of `group` lanes side by side, a power of two up to 32, in the first of them. What the others get is
// of no use.
template <class Operation>
static __device__ typename Operation::State combine_lanes(typename Operation::State state, int group)
{
    for (int offset = group / 2; offset > 0; offset /= 2)
        state = Operation::combine(state, shuffle_down(state, offset));
    return state;
}

// The states of a block of REDUCE_BLOCK threads, in thread 0; `of_warp` has room for one a warp.
template <class Operation>
static __device__ typename Operation::State combine_block(typename Operation::State state,
                                                          typename Operation::State *of_warp)
{
    constexpr int WARPS = REDUCE_BLOCK / 32;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    state = combine_lanes<Operation>(state, 32);
    __syncthreads(); // what was there has been read
    if (lane == 0)
        of_warp[warp] = state;
    __syncthreads(); // all warps' states are there
    if (warp == 0)
        state = combine_lanes<Operation>(of_warp[lane % WARPS], WARPS);
    return state;
}

// Whether this block is the last of `blocks` that come here with the same ticket; the whole block calls. What each
// of them has written before can be read by the last one. The ticket, which was 0, is 0 again then.
static __device__ bool is_last_block(unsigned *ticket, unsigned blocks)
{
    __shared__ bool last;

    __syncthreads(); // what the block's threads have written comes before the fence
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(ticket, blocks - 1) == blocks - 1;
        __threadfence();
    }
    __syncthreads(); // the answer is there
    return last;
}
