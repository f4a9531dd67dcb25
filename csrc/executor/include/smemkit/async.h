/* Asynchronous copies of any number of bytes, divided into the sizes of cp.async. */
#ifndef SMEMKIT_ASYNC_H
#define SMEMKIT_ASYNC_H

namespace cuda
{

/* A number of bytes, and the promise that both addresses are aligned to Alignment */
template <size_t Alignment>
struct aligned_size_t {
    static constexpr size_t align = Alignment;
    size_t value;
    SMEMKIT_NO_HOOKS explicit aligned_size_t(size_t bytes) : value(bytes)
    {
    }
    SMEMKIT_NO_HOOKS operator size_t() const
    {
        return value;
    }
};

} // namespace cuda

namespace smemkit
{

/* The path that CUDA's functions choose for a copy: whole packs of 16 bytes go past the L1 cache. */
SMEMKIT_INLINE smemkit_copy_path path_of(size_t bytes, bool or_zero)
{
    return bytes < 16 ? SMEMKIT_THROUGH_L1 : or_zero ? SMEMKIT_PAST_L1_OR_ZERO : SMEMKIT_PAST_L1;
}

/* Thread `rank`'s share of a copy by `threads` threads: pieces of 16, 8 or 4 bytes, as the alignment allows. The
 * remaining bytes are copied at once. */
SMEMKIT_INLINE void copy_async(unsigned rank, unsigned threads, void *to, const void *from, size_t bytes,
                               const void *pc, const char *file, int line)
{
    const uintptr_t both = (uintptr_t)to | (uintptr_t)from;
    const unsigned piece = both % 16 == 0 ? 16 : both % 8 == 0 ? 8 : both % 4 == 0 ? 4 : 1;
    char *target = (char *)to;
    const char *source = (const char *)from;
    const size_t pieces = piece == 1 ? 0 : bytes / piece;

    for (size_t i = rank; i < pieces; i += threads)
        smemkit_async_copy(target + i * piece, source + i * piece, piece, 0, path_of(piece, false), pc, file,
                           line);
    size_t done = pieces * piece;
    for (unsigned small = 8; small >= 4; small /= 2)
        if (small < piece && bytes - done >= small) {
            if (rank == 0)
                smemkit_async_copy(target + done, source + done, small, 0, SMEMKIT_THROUGH_L1, pc, file, line);
            done += small;
        }
    for (size_t i = done + rank; i < bytes; i += threads) {
        report_read(source + i, 1, pc);
        report_write(target + i, 1, pc);
        target[i] = source[i];
    }
}

} // namespace smemkit

#endif
