// Combines the states of several threads: of a group of lanes, of a block, or of all blocks of a row. Blocks have
// two ways to do the last. With a counter the block that increments it last combines the partial results; this
// works on any device. With flagged partials the block with the highest number waits for the others' partial
// results: one trip through memory instead of three (store, counter, load), but only where all blocks run
// concurrently and start in the order of their numbers. That block reads the row's first chunk, so that the last
// one, which may be short, is not its own: where it had less to read than the others, and so began to ask for
// their partial results before they were there, a sum took up to a microsecond longer.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <cstring>

#include "kernels.h"
#include "reduce_finish.cuh"
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

// A block's partial result: its state, or the rounded value of a compensated sum, which takes half the words.
template <class Operation>
struct Partial {
    using Type = typename Operation::State;

    static __device__ Type of(const Type &state)
    {
        return state;
    }
    static __device__ Type to_state(const Type &partial)
    {
        return partial;
    }
};
template <class T>
struct Partial<Compensated<T>> {
    using Type = T;
    using State = typename Compensated<T>::State;

    static __device__ T of(const State &state)
    {
        return whole(state.sum, state.rest);
    }
    static __device__ State to_state(T partial)
    {
        return {partial, T(0)};
    }
};

#ifdef __CUDA_ARCH_LIST__ // compiled by nvcc, for device or host

// Eight bytes of a partial result and a flag that they are valid, written by one 16-byte store. All zero between
// launches.
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

// A partial result as flagged words.
template <class Value>
struct Flagged {
    static constexpr int COUNT = (sizeof(Value) + sizeof FlaggedWord::bits - 1) / sizeof FlaggedWord::bits;
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

// Publishes the partial result of a block that does not wait for the others; called by thread 0.
template <class Value>
static __device__ void publish(const Value &partial, Flagged<Value> *to)
{
    uint64_t bits[Flagged<Value>::COUNT] = {};

    memcpy(bits, &partial, sizeof partial);
#pragma unroll
    for (int i = 0; i < Flagged<Value>::COUNT; i++)
        store_flagged(&to->word[i], bits[i]);
}

template <class Value>
static __device__ Flagged<Value> load_flagged(const Flagged<Value> *from)
{
    Flagged<Value> words;

#pragma unroll
    for (int i = 0; i < Flagged<Value>::COUNT; i++)
        words.word[i] = load_flagged(&from->word[i]);
    return words;
}

// Waits for the partial result of a block; `from` is what a first load has returned. Resets the words to 0.
template <class Value>
static __device__ Value wait_for(Flagged<Value> from, Flagged<Value> *words)
{
    uint64_t bits[Flagged<Value>::COUNT];
    Value partial;

    while (!from.is_ready())
        from = load_flagged(words);
#pragma unroll
    for (int i = 0; i < Flagged<Value>::COUNT; i++) {
        words->word[i] = {0, 0};
        bits[i] = from.word[i].bits;
    }
    memcpy(&partial, bits, sizeof partial);
    return partial;
}

// Combines the partial results of a row's `chunks` chunks in the order in which the version with a counter does.
// Called by the block of the first chunk, whose partial result its thread 0 has; thread 0 gets the row's state.
// Resets the words to 0. Up to REDUCE_BLOCK of them are read without a loop, which saves instruction fetches.
template <class Operation>
static __device__ typename Operation::State wait_for_all(const typename Partial<Operation>::Type &own,
                                                         Flagged<typename Partial<Operation>::Type> *words,
                                                         int chunks, typename Operation::State *warp_states)
{
    using State = typename Operation::State;
    using Value = typename Partial<Operation>::Type;
    constexpr int LOADS_IN_FLIGHT = Flagged<Value>::COUNT > 2 ? 2 : 4;
    const int t = threadIdx.x;
    State state = Operation::identity();

    if (t == 0)
        warp_states[0] = Partial<Operation>::to_state(own);
    __syncthreads(); // no warp reads its state in warp_states any more
    if (chunks <= REDUCE_BLOCK) {
        if (t == 0)
            state = warp_states[0];
        else if (t < chunks)
            state = Partial<Operation>::to_state(wait_for<Value>(load_flagged(words + t), words + t));
        return combine_block<Operation>(state, warp_states);
    }
    for (int first = t; first < chunks; first += LOADS_IN_FLIGHT * REDUCE_BLOCK) {
        Flagged<Value> from[LOADS_IN_FLIGHT];

#pragma unroll
        for (int u = 0; u < LOADS_IN_FLIGHT; u++) {
            const int chunk = first + u * REDUCE_BLOCK;

            if (chunk > 0 && chunk < chunks)
                from[u] = load_flagged(words + chunk);
        }
#pragma unroll
        for (int u = 0; u < LOADS_IN_FLIGHT; u++) {
            const int chunk = first + u * REDUCE_BLOCK;

            if (chunk == 0)
                state = Operation::combine(state, warp_states[0]);
            else if (chunk < chunks)
                state = Operation::combine(state,
                                           Partial<Operation>::to_state(wait_for<Value>(from[u], words + chunk)));
        }
    }
    return combine_block<Operation>(state, warp_states);
}

#endif

// The number of this block's chunk within its row, or within the part of a row that this launch has.
static __device__ inline int64_t chunk_of_block(const reduce_work &work)
{
    return work.flagged_partials ? work.splits - 1 - blockIdx.y : blockIdx.y;
}

// Combines the states that the blocks of a row hold in their thread 0. Returns true in one of the blocks, whose
// thread 0 has the result. `chunk` is the number of the block's chunk within the row.
template <class Operation>
static __device__ bool combine_blocks(typename Operation::State &state, int64_t row, int64_t chunk,
                                      const reduce_args &args, typename Operation::State *warp_states)
{
    using Value = typename Partial<Operation>::Type;
    const reduce_work &work = args.work;

#ifdef __CUDA_ARCH_LIST__
    auto *words = (Flagged<Value> *)work.flagged_partials + row * work.splits;

    if (work.flagged_partials && chunk == 0) {
        state = wait_for_all<Operation>(Partial<Operation>::of(state), words, (int)work.splits, warp_states);
        return true;
    }
    if (work.flagged_partials) {
        if (threadIdx.x == 0)
            publish<Value>(Partial<Operation>::of(state), words + chunk);
        return false;
    }
#endif
    Value *partials = (Value *)args.scratch + row * work.splits;

    if (threadIdx.x == 0)
        partials[chunk] = Partial<Operation>::of(state);
    if (!is_last_block(&work.counters[row], (unsigned)work.splits))
        return false;
    state = Operation::identity();
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < work.splits; i += REDUCE_BLOCK)
        state = Operation::combine(state, Partial<Operation>::to_state(partials[i]));
    state = combine_block<Operation>(state, warp_states);
    return true;
}
