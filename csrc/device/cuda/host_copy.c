/* Copies between pageable memory and pinned staging buffers, by the threads of a pool. */
#define _GNU_SOURCE
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "copy_pool.h"

/* Non-temporal stores: DMA reads lines that are modified in a core's cache at half the link's speed. */
static void copy_nontemporal(char *to, const char *from, size_t bytes)
{
#ifdef __SSE2__
    size_t i = 0;

    for (; i + 64 <= bytes; i += 64) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(from + i));
        const __m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
        const __m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
        const __m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));

        _mm_stream_si128((__m128i *)(to + i), a);
        _mm_stream_si128((__m128i *)(to + i + 16), b);
        _mm_stream_si128((__m128i *)(to + i + 32), c);
        _mm_stream_si128((__m128i *)(to + i + 48), d);
    }
    memcpy(to + i, from + i, bytes - i);
    _mm_sfence();
#else
    memcpy(to, from, bytes);
#endif
}

/* For memory that is faulted in during the copy, where the C library's non-temporal stores are slow. */
static void copy_to_unfaulted(char *to, const char *from, size_t bytes)
{
#ifdef __x86_64__
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
    memcpy(to, from, bytes);
#endif
}

void chunk_range(const struct job *job, size_t index, size_t *begin, size_t *end)
{
    *begin = index ? job->first_chunk + (index - 1) * job->chunk : 0;
    *end = job->first_chunk + index * job->chunk;
    if (*end > job->bytes)
        *end = job->bytes;
}

void copy_to_staging(const struct job *job, char *slot, size_t begin, size_t end)
{
    if (job->segments.ndim == 0)
        copy_nontemporal(slot, job->segments.data + begin, end - begin);
    else
        segments_copy(&job->segments, begin, end, slot, true);
}

void copy_from_staging(const struct job *job, char *slot, size_t begin, size_t end)
{
    if (job->segments.ndim == 0 && job->fresh)
        copy_to_unfaulted(job->segments.data + begin, slot, end - begin);
    else
        segments_copy(&job->segments, begin, end, slot, false);
}
