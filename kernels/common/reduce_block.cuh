// Combines the states of several threads: of a group of lanes, of a block, or of all blocks of a row. Blocks have
// two ways to do the last. With a counter the block that increments it last combines the partial results; this
// works on any device. With flagged partials the block with the highest number waits for the others' partial
// results: one trip through memory instead of three (store, counter, load), but only where all blocks run
// concurrently and start in the order of their numbers.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <cstring>

#include "kernels.h"
#include "shuffle.cuh"

#ifdef __CUDA_ARCH_LIST__ // compiled by nvcc
#include "ptx/ld_st_b128.cuh"
#endif

// Combines the states of `group` consecutive lanes, a power of two up to 32. The first of them gets the result;
// the other lanes' values are meaningless.
template <class Operation>
static __device__ typename Operation::State combine_lanes(typename Operation::State state, int group)
{
    for (int offset = group / 2; offset > 0; offset /= 2)
        state = Operation::combine(state, shuffle_down(state, offset));
    return state;
}

// Combines the states of a block of REDUCE_BLOCK threads; thread 0 gets the result. `warp_states` holds one state
// per warp.
template <class Operation>
static __device__ typename Operation::State combine_block(typename Operation::State state,
                                                          typename Operation::State *warp_states)
{
    constexpr int WARPS = REDUCE_BLOCK / 32;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    state = combine_lanes<Operation>(state, 32);
    __syncthreads(); // earlier contents of warp_states have been read
    if (lane == 0)
        warp_states[warp] = state;
    __syncthreads(); // all warps have stored their states
    if (warp == 0)
        state = combine_lanes<Operation>(warp_states[lane % WARPS], WARPS);
    return state;
}

// Whether this block is the last of `blocks` blocks to call this with the same counter; all threads of a block
// call it. The last block sees everything that the others wrote before. The counter must be 0 at first, and is 0
// again afterwards.
static __device__ bool is_last_block(unsigned *counter, unsigned blocks)
{
    __shared__ bool last;

    __syncthreads(); // the block's writes precede the fence
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        __threadfence();
        last = atomicInc(counter, blocks - 1) == blocks - 1;
        __threadfence();
    }
    __syncthreads(); // `last` is set
    return last;
}

#ifdef __CUDA_ARCH_LIST__ // compiled by nvcc, for device or host

// Eight bytes of a state and a flag that they are valid, written by one 16-byte store. All zero between launches.
struct alignas(16) FlaggedWord {
    uint64_t bits, ready;
};

static __device__ inline void store_flagged(FlaggedWord *to, uint64_t bits)
{
    ptx::st_relaxed_gpu_global_b128(to, bits, 1);
}

static __device__ inline FlaggedWord load_flagged(const FlaggedWord *from)
{
    FlaggedWord word;

    ptx::ld_relaxed_gpu_global_b128(word.bits, word.ready, from);
    return word;
}

// A state as flagged words.
template <class State>
struct FlaggedState {
    static constexpr int COUNT = (sizeof(State) + sizeof FlaggedWord::bits - 1) / sizeof FlaggedWord::bits;
    static_assert(COUNT <= REDUCE_MAX_STATE_WORDS && sizeof(FlaggedWord) == REDUCE_FLAGGED_WORD_BYTES,
                  "the workspace must hold it");
    FlaggedWord word[COUNT];

    __device__ bool is_ready() const
    {
        bool ready = true;

#pragma unroll
        for (int i = 0; i < COUNT; i++)
            ready = ready && word[i].ready;
        return ready;
    }
};

// Publishes the state of a block that is not the row's last; called by thread 0.
template <class State>
static __device__ void publish_state(const State &state, FlaggedState<State> *to)
{
    uint64_t bits[FlaggedState<State>::COUNT] = {};

    memcpy(bits, &state, sizeof state);
#pragma unroll
    for (int i = 0; i < FlaggedState<State>::COUNT; i++)
        store_flagged(&to->word[i], bits[i]);
}

template <class State>
static __device__ FlaggedState<State> load_flagged_state(const FlaggedState<State> *from)
{
    FlaggedState<State> words;

#pragma unroll
    for (int i = 0; i < FlaggedState<State>::COUNT; i++)
        words.word[i] = load_flagged(&from->word[i]);
    return words;
}

// Waits for the state of a block; `from` is what a first load has returned. Resets the words to 0.
template <class State>
static __device__ State wait_for_state(FlaggedState<State> from, FlaggedState<State> *words)
{
    uint64_t bits[FlaggedState<State>::COUNT];
    State state;

    while (!from.is_ready())
        from = load_flagged_state(words);
#pragma unroll
    for (int i = 0; i < FlaggedState<State>::COUNT; i++) {
        words->word[i] = {0, 0};
        bits[i] = from.word[i].bits;
    }
    memcpy(&state, bits, sizeof state);
    return state;
}

// Combines the states of `blocks` blocks in the last one, whose own state is in its thread 0, in the same order as
// the version with a counter does; thread 0 gets the result. Resets the words to 0. Up to REDUCE_BLOCK blocks are
// read without a loop, which saves instruction fetches.
template <class Operation>
static __device__ typename Operation::State wait_for_states(const typename Operation::State &own,
                                                            FlaggedState<typename Operation::State> *words,
                                                            int blocks, typename Operation::State *warp_states)
{
    using State = typename Operation::State;
    constexpr int LOADS_IN_FLIGHT = FlaggedState<State>::COUNT > 2 ? 2 : 4;
    const int t = threadIdx.x;
    State state = Operation::identity();

    if (t == 0)
        warp_states[0] = own;
    __syncthreads(); // warp_states[0] is written before another thread reads it
    if (blocks <= REDUCE_BLOCK) {
        if (t < blocks - 1)
            state = wait_for_state<State>(load_flagged_state(words + t), words + t);
        else if (t == blocks - 1)
            state = warp_states[0];
        return combine_block<Operation>(state, warp_states);
    }
    for (int first = t; first < blocks; first += LOADS_IN_FLIGHT * REDUCE_BLOCK) {
        FlaggedState<State> from[LOADS_IN_FLIGHT];

#pragma unroll
        for (int u = 0; u < LOADS_IN_FLIGHT; u++)
            if (first + u * REDUCE_BLOCK < blocks - 1)
                from[u] = load_flagged_state(words + first + u * REDUCE_BLOCK);
#pragma unroll
        for (int u = 0; u < LOADS_IN_FLIGHT; u++) {
            const int block = first + u * REDUCE_BLOCK;

            if (block < blocks - 1)
                state = Operation::combine(state, wait_for_state<State>(from[u], words + block));
            else if (block == blocks - 1)
                state = Operation::combine(state, warp_states[0]);
        }
    }
    return combine_block<Operation>(state, warp_states);
}

#endif

// Combines the states that the blocks of a row hold in their thread 0. Returns true in one of the blocks, whose
// thread 0 has the result. `block` is the block's number within the row.
template <class Operation>
static __device__ bool combine_blocks(typename Operation::State &state, int64_t row, int64_t block,
                                      const reduce_args &args, typename Operation::State *warp_states)
{
    using State = typename Operation::State;
    const reduce_work &work = args.work;

#ifdef __CUDA_ARCH_LIST__
    auto *words = (FlaggedState<State> *)work.flagged_partials + row * work.splits;

    if (work.flagged_partials && block == work.splits - 1) {
        state = wait_for_states<Operation>(state, words, (int)work.splits, warp_states);
        return true;
    }
    if (work.flagged_partials) {
        if (threadIdx.x == 0)
            publish_state(state, words + block);
        return false;
    }
#endif
    State *partials = (State *)args.scratch + row * work.splits;

    if (threadIdx.x == 0)
        partials[block] = state;
    if (!is_last_block(&work.counters[row], (unsigned)work.splits))
        return false;
    state = Operation::identity();
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < work.splits; i += REDUCE_BLOCK)
        state = Operation::combine(state, partials[i]);
    state = combine_block<Operation>(state, warp_states);
    return true;
}
