/* Barriers, shuffles and votes. Each passes its source location, for messages. */
#ifndef SMEMKIT_SYNC_H
#define SMEMKIT_SYNC_H

SMEMKIT_INLINE void __syncthreads(SMEMKIT_HERE)
{
    smemkit_barrier(0, file, line);
}
SMEMKIT_INLINE int __syncthreads_count(int predicate, SMEMKIT_HERE)
{
    return smemkit_barrier(predicate, file, line);
}
SMEMKIT_INLINE int __syncthreads_and(int predicate, SMEMKIT_HERE)
{
    return smemkit_barrier(!predicate, file, line) == 0;
}
SMEMKIT_INLINE int __syncthreads_or(int predicate, SMEMKIT_HERE)
{
    return smemkit_barrier(predicate, file, line) != 0;
}
SMEMKIT_INLINE void __syncwarp(unsigned mask = 0xffffffffu, SMEMKIT_HERE)
{
    smemkit_warp(SMEMKIT_SYNC, mask, 0, 0, file, line);
}
SMEMKIT_INLINE unsigned __activemask(SMEMKIT_HERE)
{
    return smemkit_active_mask(file, line);
}

SMEMKIT_INLINE void __threadfence_block()
{
    smemkit::fence(1);
}
SMEMKIT_INLINE void __threadfence()
{
    smemkit::fence(2);
}
SMEMKIT_INLINE void __threadfence_system()
{
    smemkit::fence(3);
}
SMEMKIT_INLINE void __nanosleep(unsigned)
{
    smemkit_tick(0);
}
SMEMKIT_INLINE void __trap(SMEMKIT_HERE)
{
    smemkit_trap("__trap", file, line);
}
SMEMKIT_INLINE void __brkpt(SMEMKIT_HERE)
{
    smemkit_trap("__brkpt", file, line);
}

/* Programmatic dependent launch */
SMEMKIT_INLINE void cudaGridDependencySynchronize(SMEMKIT_HERE)
{
    smemkit_await_earlier(file, line);
}
SMEMKIT_INLINE void cudaTriggerProgrammaticLaunchCompletion()
{
}

namespace smemkit
{

/* bar.sync id, threads; or bar.arrive if the thread does not wait */
SMEMKIT_INLINE void named_barrier(int id, int threads, bool wait, SMEMKIT_HERE)
{
    smemkit_named_barrier(id, (unsigned)threads, wait, file, line);
}

SMEMKIT_INLINE int lane()
{
    return (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31;
}

SMEMKIT_INLINE int warp()
{
    return (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) >> 5;
}

/* PTX's %globaltimer */
SMEMKIT_INLINE unsigned long long nanoseconds()
{
    struct timespec now;
    smemkit_tick(1);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec;
}

/* PTX's lop3: bit i of the result is the bit of `table` that the bits i of a, b and c select */
SMEMKIT_INLINE unsigned lop3(unsigned a, unsigned b, unsigned c, unsigned table)
{
    unsigned result = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1)
            result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}

template <class T>
SMEMKIT_INLINE T shuffle(unsigned mask, T value, int source, const char *file, int line)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = smemkit_warp(SMEMKIT_SHUFFLE, mask, bits, source, file, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}

} // namespace smemkit

/* A warp is divided into groups of `width` lanes; a source outside the lane's group means the lane itself. */
template <class T>
SMEMKIT_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32, SMEMKIT_HERE)
{
    int lane = smemkit::lane();
    return smemkit::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), file, line);
}
template <class T>
SMEMKIT_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SMEMKIT_HERE)
{
    int lane = smemkit::lane(), source = lane - (int)delta;
    return smemkit::shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source, file, line);
}
template <class T>
SMEMKIT_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SMEMKIT_HERE)
{
    int lane = smemkit::lane(), source = lane + (int)delta;
    return smemkit::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source, file, line);
}
template <class T>
SMEMKIT_INLINE T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, SMEMKIT_HERE)
{
    int lane = smemkit::lane(), source = lane ^ (bits & 31);
    return smemkit::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source, file, line);
}

/* PTX's shfl.sync, by its mode's first letter: `clamp` has the last lane of a segment, and the segment's mask from
 * bit 8 on; `valid` tells whether the source is in range. (PTX ISA, shfl.sync) */
namespace smemkit
{
template <class T>
SMEMKIT_INLINE T ptx_shuffle(char mode, T value, unsigned by, unsigned clamp, unsigned mask, bool *valid,
                             SMEMKIT_HERE)
{
    static_assert(sizeof(T) == 4, "a register of 32 bits");
    const int lane = smemkit::lane(), segment = (int)(clamp >> 8 & 31), first = lane & segment;
    const int last = first | ((int)(clamp & 31) & ~segment), step = (int)(by & 31);
    const int source = mode == 'u'   ? lane - step
                       : mode == 'd' ? lane + step
                       : mode == 'b' ? lane ^ step
                                     : first | (step & ~segment);
    const bool inside = mode == 'u' ? source >= last : source <= last;
    if (valid)
        *valid = inside;
    return shuffle(mask, value, inside ? source : lane, file, line);
}

/* mov.b64 {low, high}, value; and the reverse: bits of any type */
template <class T>
SMEMKIT_INLINE void unpack(const T &value, uint32_t &low, uint32_t &high)
{
    static_assert(sizeof(T) == 8, "a register of 64 bits");
    memcpy(&low, &value, 4);
    memcpy(&high, (const char *)&value + 4, 4);
}
template <class T>
SMEMKIT_INLINE void pack(T &value, uint32_t low, uint32_t high)
{
    static_assert(sizeof(T) == 8, "a register of 64 bits");
    memcpy(&value, &low, 4);
    memcpy((char *)&value + 4, &high, 4);
}

/* PTX's bfe.u32 */
SMEMKIT_INLINE unsigned bit_field(unsigned value, unsigned start, unsigned length)
{
    start &= 255, length &= 255;
    const uint64_t wide = start < 32 ? (uint64_t)value >> start : 0;
    return (unsigned)(length < 32 ? wide & ((1ull << length) - 1) : wide);
}
} // namespace smemkit

SMEMKIT_INLINE unsigned __ballot_sync(unsigned mask, int predicate, SMEMKIT_HERE)
{
    return (unsigned)smemkit_warp(SMEMKIT_BALLOT, mask, predicate != 0, 0, file, line);
}
SMEMKIT_INLINE int __any_sync(unsigned mask, int predicate, SMEMKIT_HERE)
{
    return smemkit_warp(SMEMKIT_BALLOT, mask, predicate != 0, 0, file, line) != 0;
}
SMEMKIT_INLINE int __all_sync(unsigned mask, int predicate, SMEMKIT_HERE)
{
    return smemkit_warp(SMEMKIT_BALLOT, mask, predicate == 0, 0, file, line) == 0;
}
template <class T>
SMEMKIT_INLINE unsigned __match_any_sync(unsigned mask, T value, SMEMKIT_HERE)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return (unsigned)smemkit_warp(SMEMKIT_MATCH, mask, bits, 0, file, line);
}
template <class T>
SMEMKIT_INLINE unsigned __match_all_sync(unsigned mask, T value, int *all, SMEMKIT_HERE)
{
    unsigned same = __match_any_sync(mask, value, file, line);
    *all = __all_sync(mask, same == __ballot_sync(mask, 1, file, line), file, line);
    return *all ? same : 0;
}

#define SMEMKIT_REDUCE(name, type, kind)                                                \
    SMEMKIT_INLINE type __reduce_##name##_sync(unsigned mask, type value, SMEMKIT_HERE) \
    {                                                                                   \
        return (type)smemkit_warp(kind, mask, (uint32_t)value, 0, file, line);          \
    }
SMEMKIT_REDUCE(add, int, SMEMKIT_ADD)
SMEMKIT_REDUCE(add, unsigned, SMEMKIT_ADD)
SMEMKIT_REDUCE(min, int, SMEMKIT_MIN)
SMEMKIT_REDUCE(min, unsigned, SMEMKIT_UMIN)
SMEMKIT_REDUCE(max, int, SMEMKIT_MAX)
SMEMKIT_REDUCE(max, unsigned, SMEMKIT_UMAX)
SMEMKIT_REDUCE(and, unsigned, SMEMKIT_AND)
SMEMKIT_REDUCE(or, unsigned, SMEMKIT_OR)
SMEMKIT_REDUCE(xor, unsigned, SMEMKIT_XOR)
#undef SMEMKIT_REDUCE

/* Functions that CUDA 9 replaced and compute capability 7.0 removed */
/* an ellipsis, which every function of the user's with this name is preferred to */
#define SMEMKIT_REMOVED(name)                                                  \
    int name(...) SMEMKIT_UNAVAILABLE("CUDA has removed " #name "; use " #name \
                                      "_sync with a mask: 0xffffffff where the whole warp takes part");
SMEMKIT_REMOVED(__shfl)
SMEMKIT_REMOVED(__shfl_up)
SMEMKIT_REMOVED(__shfl_down)
SMEMKIT_REMOVED(__shfl_xor)
SMEMKIT_REMOVED(__ballot)
SMEMKIT_REMOVED(__any)
SMEMKIT_REMOVED(__all)
#undef SMEMKIT_REMOVED

#endif
