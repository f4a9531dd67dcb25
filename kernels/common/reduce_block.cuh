// What threads make of their states together: a group of a warp's threads, a block, the blocks of a launch. The
// blocks have two ways. With tickets any of them may be the last, on any device. By words it is the one with the
// highest number, which waits for the others': a trip through memory instead of three (store, ticket, load), but
// only where blocks run at once, and begin in the order of their numbers.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <cstring>

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
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        __threadfence();
        last = atomicInc(ticket, blocks - 1) == blocks - 1;
        __threadfence();
    }
    __syncthreads(); // the answer is there
    return last;
}

#ifdef __CUDA_ARCH_LIST__ // a GPU's code, or its host's

// Eight bytes of a state, and that they are there: both come by one store. Between launches it is 0.
struct alignas(16) Word {
    uint64_t bits, here;
};

static __device__ inline void put_word(Word *to, uint64_t bits)
{
    asm volatile("{ .reg .b128 word; mov.b128 word, {%1, %2}; st.relaxed.gpu.global.b128 [%0], word; }"
                 :
                 : "l"(to), "l"(bits), "l"((uint64_t)1)
                 : "memory");
}

static __device__ inline Word get_word(const Word *from)
{
    Word word;

    asm volatile("{ .reg .b128 word; ld.relaxed.gpu.global.b128 word, [%2]; mov.b128 {%0, %1}, word; }"
                 : "=l"(word.bits), "=l"(word.here)
                 : "l"(from)
                 : "memory");
    return word;
}

// A state in as many words as it takes.
template <class State>
struct Words {
    static constexpr int COUNT = (sizeof(State) + sizeof Word::bits - 1) / sizeof Word::bits;
    static_assert(COUNT <= REDUCE_STATE_WORDS && sizeof(Word) == REDUCE_WORD_BYTES, "the planner has room for it");
    Word word[COUNT];

    __device__ bool are_here() const
    {
        bool here = true;

#pragma unroll
        for (int i = 0; i < COUNT; i++)
            here = here && word[i].here;
        return here;
    }
};

// Thread 0 leaves the state of its block, which is not the row's last.
template <class State>
static __device__ void leave_state(const State &state, Words<State> *to)
{
    uint64_t bits[Words<State>::COUNT] = {};

    memcpy(bits, &state, sizeof state);
#pragma unroll
    for (int i = 0; i < Words<State>::COUNT; i++)
        put_word(&to->word[i], bits[i]);
}

template <class State>
static __device__ Words<State> get_words(const Words<State> *from)
{
    Words<State> words;

#pragma unroll
    for (int i = 0; i < Words<State>::COUNT; i++)
        words.word[i] = get_word(&from->word[i]);
    return words;
}

// What a block has left in its words, which have been read once; they are 0 again then.
template <class State>
static __device__ State await_state(Words<State> from, Words<State> *words)
{
    uint64_t bits[Words<State>::COUNT];
    State state;

    while (!from.are_here())
        from = get_words(words);
#pragma unroll
    for (int i = 0; i < Words<State>::COUNT; i++) {
        words->word[i] = {0, 0};
        bits[i] = from.word[i].bits;
    }
    memcpy(&state, bits, sizeof state);
    return state;
}

// The states of `blocks` blocks in thread 0 of the last one, whose own is there in thread 0: combined as they
// would be after a ticket. The words are 0 again. Few are read without a loop: its code is to be fetched first.
template <class Operation>
static __device__ typename Operation::State await_states(const typename Operation::State &own,
                                                         Words<typename Operation::State> *words, int blocks,
                                                         typename Operation::State *of_warp)
{
    using State = typename Operation::State;
    constexpr int AT_ONCE = Words<State>::COUNT > 2 ? 2 : 4;
    const int t = threadIdx.x;
    State state = Operation::identity();

    if (t == 0)
        of_warp[0] = own;
    __syncthreads(); // the thread whose turn it is reads it
    if (blocks <= REDUCE_BLOCK) {
        if (t < blocks - 1)
            state = await_state<State>(get_words(words + t), words + t);
        else if (t == blocks - 1)
            state = of_warp[0];
        return combine_block<Operation>(state, of_warp);
    }
    for (int first = t; first < blocks; first += AT_ONCE * REDUCE_BLOCK) {
        Words<State> from[AT_ONCE];

#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (first + u * REDUCE_BLOCK < blocks - 1)
                from[u] = get_words(words + first + u * REDUCE_BLOCK);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            const int block = first + u * REDUCE_BLOCK;

            if (block < blocks - 1)
                state = Operation::combine(state, await_state<State>(from[u], words + block));
            else if (block == blocks - 1)
                state = Operation::combine(state, of_warp[0]);
        }
    }
    return combine_block<Operation>(state, of_warp);
}

#endif

// The states of a row's blocks, which are in their threads 0: all of them in thread 0 of the block where it is
// true; `block` is the number in the row, and args has the plan.
template <class Operation>
static __device__ bool combine_blocks(typename Operation::State &state, int64_t row, int64_t block,
                                      const reduce_args &args, typename Operation::State *of_warp)
{
    using State = typename Operation::State;
    const reduce_plan &plan = args.plan;

#ifdef __CUDA_ARCH_LIST__
    auto *words = (Words<State> *)plan.words + row * plan.splits;

    if (plan.words && block == plan.splits - 1) {
        state = await_states<Operation>(state, words, (int)plan.splits, of_warp);
        return true;
    }
    if (plan.words) {
        if (threadIdx.x == 0)
            leave_state(state, words + block);
        return false;
    }
#endif
    State *partials = (State *)args.scratch + row * plan.splits;

    if (threadIdx.x == 0)
        partials[block] = state;
    if (!is_last_block(&plan.tickets[row], (unsigned)plan.splits))
        return false;
    state = Operation::identity();
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < plan.splits; i += REDUCE_BLOCK)
        state = Operation::combine(state, partials[i]);
    state = combine_block<Operation>(state, of_warp);
    return true;
}
