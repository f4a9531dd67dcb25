/* Guarded buffers: see memory.h.
 *
 *   | guard, no access | slack | the buffer, 256-byte aligned | slack | guard, no access |
 *
 * A buffer ends at most 255 bytes before a guard. The bytes in between, and those before the buffer, hold a
 * pattern, which is compared after every launch.
 */
#define _GNU_SOURCE
#include "memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 256, SLACK_BYTE = 0xFE };
static const size_t GUARD = (size_t)1 << 24; /* address space only; large, so that wild indices hit it too */

struct buffer {
    struct buffer *next;
    char *base; /* start of the mapping */
    size_t mapped;
    char *page, *start, *end, *limit; /* page <= start < end <= limit; [page, limit) is accessible */
    bool foreign;                     /* another owner's memory, without guards */
    bool of_kernel;                   /* a kernel has allocated it, and may free it */
    bool freed; /* by a kernel that still runs: inaccessible, and its address not given again */
    struct poisoned_pages poisoned; /* guard pages that a check may read */
};

/* All live buffers of the process. It is global because the signal handler must find the buffer of an address. */
static struct buffer *buffers;
static size_t used, peak; /* bytes, without foreign buffers */
static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;

static void add(struct buffer *buffer)
{
    pthread_mutex_lock(&buffers_lock);
    buffer->next = buffers;
    buffers = buffer;
    if (!buffer->foreign)
        used += (size_t)(buffer->end - buffer->start);
    if (peak < used)
        peak = used;
    pthread_mutex_unlock(&buffers_lock);
}

/* Call with the lock held. */
static struct buffer *unlink_buffer(struct buffer **link)
{
    struct buffer *buffer = *link;

    *link = buffer->next;
    return buffer;
}

/* The buffer that has the address, in it or in its guards, or NULL. Call with the lock held. */
static struct buffer *buffer_at(const void *address)
{
    const char *at = address;
    struct buffer *buffer = buffers;

    while (buffer && (at < buffer->base || at >= buffer->base + buffer->mapped))
        buffer = buffer->next;
    return buffer;
}

static void destroy(struct buffer *buffer)
{
    munmap(buffer->base, buffer->mapped);
    free(buffer);
}

static void *allocate(size_t bytes, bool of_kernel)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t accessible = (padded + page - 1) / page * page;
    struct buffer *buffer = NULL;

    if (bytes > SIZE_MAX / 2 || !(buffer = calloc(1, sizeof *buffer)))
        return NULL;
    buffer->of_kernel = of_kernel;
    buffer->mapped = accessible + 2 * GUARD;
    buffer->base = mmap(NULL, buffer->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (buffer->base == MAP_FAILED) {
        free(buffer);
        return NULL;
    }
    buffer->page = buffer->base + GUARD;
    buffer->limit = buffer->page + accessible;
    buffer->start = buffer->limit - padded;
    buffer->end = buffer->start + bytes;
    /* a separate mapping, so that missing memory is refused now, and not at its first use */
    if (accessible && mmap(buffer->page, accessible, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
        destroy(buffer);
        return NULL;
    }
    memset(buffer->page, SLACK_BYTE, (size_t)(buffer->start - buffer->page));
    memset(buffer->end, SLACK_BYTE, (size_t)(buffer->limit - buffer->end));

    add(buffer);
    return buffer->start;
}

void *memory_allocate(size_t bytes)
{
    return allocate(bytes, false);
}

void *memory_allocate_in_kernel(size_t bytes)
{
    return allocate(bytes, true);
}

void memory_release(void *memory)
{
    struct buffer *buffer = NULL;

    pthread_mutex_lock(&buffers_lock);
    for (struct buffer **link = &buffers; *link; link = &(*link)->next) {
        if ((*link)->start == memory && !(*link)->foreign) {
            buffer = unlink_buffer(link);
            used -= (size_t)(buffer->end - buffer->start);
            break;
        }
    }
    pthread_mutex_unlock(&buffers_lock);
    if (buffer)
        destroy(buffer);
}

bool memory_free_in_kernel(void *memory)
{
    struct buffer *buffer;

    pthread_mutex_lock(&buffers_lock);
    for (buffer = buffers; buffer && (buffer->start != memory || !buffer->of_kernel || buffer->freed);)
        buffer = buffer->next;
    if (buffer) {
        const size_t accessible = (size_t)(buffer->limit - buffer->page);

        used -= (size_t)(buffer->end - buffer->start);
        if (accessible && /* a mapping like the guards beside it, with which it is joined */
            mmap(buffer->page, accessible, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                 0) == MAP_FAILED)
            (void)mprotect(buffer->page, accessible, PROT_NONE);
        buffer->page = buffer->end = buffer->limit = buffer->start;
        buffer->freed = true;
    }
    pthread_mutex_unlock(&buffers_lock);
    return buffer != NULL;
}

void memory_collect(void)
{
    pthread_mutex_lock(&buffers_lock);
    for (struct buffer **link = &buffers; *link;) {
        if ((*link)->freed)
            destroy(unlink_buffer(link));
        else
            link = &(*link)->next;
    }
    pthread_mutex_unlock(&buffers_lock);
}

bool memory_is_freed(const void *address)
{
    const struct buffer *buffer;
    bool freed;

    pthread_mutex_lock(&buffers_lock);
    buffer = buffer_at(address);
    freed = buffer && buffer->freed;
    pthread_mutex_unlock(&buffers_lock);
    return freed;
}

void memory_usage(size_t *now, size_t *most)
{
    pthread_mutex_lock(&buffers_lock);
    *now = used;
    *most = peak;
    pthread_mutex_unlock(&buffers_lock);
}

bool memory_register(void *start, size_t bytes, void **registration)
{
    struct buffer *buffer = NULL;
    char *const from = start;
    bool ours = false;

    *registration = NULL;
    pthread_mutex_lock(&buffers_lock);
    for (buffer = buffers; buffer && !ours; buffer = buffer->next)
        ours = !buffer->foreign && from >= buffer->start && from < buffer->end;
    pthread_mutex_unlock(&buffers_lock);
    if (ours)
        return true;
    buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return false;
    *buffer = (struct buffer){.base = from,
                              .mapped = bytes,
                              .page = from,
                              .start = from,
                              .end = from + bytes,
                              .limit = from + bytes,
                              .foreign = true};
    add(buffer);
    *registration = buffer;
    return true;
}

void memory_unregister(void *registration)
{
    pthread_mutex_lock(&buffers_lock);
    for (struct buffer **link = &buffers; registration && *link; link = &(*link)->next) {
        if (*link == registration) {
            unlink_buffer(link);
            break;
        }
    }
    pthread_mutex_unlock(&buffers_lock);
    free(registration);
}

bool memory_find(const void *address, uintptr_t *start, uintptr_t *end)
{
    const struct buffer *buffer;

    pthread_mutex_lock(&buffers_lock);
    buffer = buffer_at(address);
    if (buffer) {
        *start = (uintptr_t)buffer->start;
        *end = (uintptr_t)buffer->end;
    }
    pthread_mutex_unlock(&buffers_lock);
    return buffer != NULL;
}

/* ---- guards that may be read ---- */

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Maps one page of ones, unless it is in the list already. */
static bool poison_page(struct poisoned_pages *pages, char *page)
{
    for (unsigned i = 0; i < pages->count; i++)
        if (pages->page[i] == page)
            return true;
    if (pages->count == POISONED || mmap(page, page_size(), PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return false;
    memset(page, 0xFF, page_size());
    pages->page[pages->count++] = page;
    return mprotect(page, page_size(), PROT_READ) == 0;
}

bool poison_pages(struct poisoned_pages *pages, const char *first, const char *last)
{
    const uintptr_t size = page_size();

    for (uintptr_t at = (uintptr_t)first & ~(size - 1); at <= (uintptr_t)last; at += size)
        if (!poison_page(pages, (char *)at))
            return false;
    return true;
}

bool unpoison_page(char *page)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

    return mmap(page, page_size(), PROT_NONE, flags, -1, 0) != MAP_FAILED || /* which also gives the memory back */
           mprotect(page, page_size(), PROT_NONE) == 0;
}

/* Poisons what is in a buffer's guards of the bytes from `first` to `last`. */
static bool poison_guard(struct buffer *buffer, const char *first, const char *last)
{
    if (buffer->foreign || last >= buffer->base + buffer->mapped)
        return false;
    if (last < buffer->page || first >= buffer->limit)
        return poison_pages(&buffer->poisoned, first, last);
    return (first >= buffer->page || poison_pages(&buffer->poisoned, first, first)) &&
           (last < buffer->limit || poison_pages(&buffer->poisoned, last, last));
}

bool memory_poison_guard(const void *address, size_t bytes)
{
    const char *first = address, *last = first + bytes - 1;
    struct buffer *buffer;
    bool done;

    pthread_mutex_lock(&buffers_lock);
    buffer = buffer_at(first);
    done = buffer && poison_guard(buffer, first, last);
    pthread_mutex_unlock(&buffers_lock);
    return done;
}

bool memory_restore_guards(void)
{
    bool restored = true;

    pthread_mutex_lock(&buffers_lock);
    for (struct buffer *buffer = buffers; buffer; buffer = buffer->next)
        while (buffer->poisoned.count)
            restored &= unpoison_page(buffer->poisoned.page[--buffer->poisoned.count]);
    pthread_mutex_unlock(&buffers_lock);
    return restored;
}

/* The halves of the product, of which every bit depends on both factors (a technique of Wang Yi's wyhash). */
static inline uint64_t folded_product(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Not sanitized, because it also hashes threads' stacks. */
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
__attribute__((no_sanitize("address")))
#endif
uint64_t
memory_hash(const void *start, size_t bytes)
{
    enum { WORD = sizeof(uint64_t), WORDS = 4 };
    /* so that words of zeros, which are frequent, are no factors of zero */
    const uint64_t first = UINT64_C(0x9E3779B97F4A7C15), second = UINT64_C(0xD1B54A32D192ED03);
    const unsigned char *at = start, *end = at + bytes;
    uint64_t sums[2] = {bytes, 1}, words[WORDS], hash; /* two sums, so that multiplications overlap */

    for (; end - at >= WORDS * WORD; at += WORDS * WORD) {
        __builtin_memcpy(words, at, WORDS * WORD);
        sums[0] = folded_product(words[0] ^ first, words[1] ^ sums[0]);
        sums[1] = folded_product(words[2] ^ second, words[3] ^ sums[1]);
    }
    hash = folded_product(sums[0] ^ first, sums[1] ^ second);
    for (; end - at >= WORD; at += WORD) {
        __builtin_memcpy(words, at, WORD);
        hash = folded_product(words[0] ^ first, hash ^ second);
    }
    for (; at < end; at++)
        hash = folded_product(*at ^ first, hash ^ second);
    return hash;
}

uint64_t memory_hash_of_buffers(void)
{
    uint64_t hash = 0;

    pthread_mutex_lock(&buffers_lock);
    for (const struct buffer *buffer = buffers; buffer; buffer = buffer->next)
        hash = hash * 31 + memory_hash(buffer->start, (size_t)(buffer->end - buffer->start));
    pthread_mutex_unlock(&buffers_lock);
    return hash;
}

void memory_describe(const void *address, char *text, size_t length)
{
    const char *at = address;
    const struct buffer *buffer;

    if ((uintptr_t)at < 65536) {
        snprintf(text, length, "address %p: a null pointer", address);
        return;
    }
    snprintf(text, length, "address %p, which belongs to no buffer", address);
    pthread_mutex_lock(&buffers_lock);
    buffer = buffer_at(address);
    if (buffer && buffer->freed)
        snprintf(text, length, "address %p, which the kernel has freed", address);
    else if (buffer && at >= buffer->end)
        snprintf(text, length, "%zu bytes past the end of a buffer of %zu bytes", (size_t)(at - buffer->end),
                 (size_t)(buffer->end - buffer->start));
    else if (buffer && at < buffer->start)
        snprintf(text, length, "%zu bytes before a buffer of %zu bytes", (size_t)(buffer->start - at),
                 (size_t)(buffer->end - buffer->start));
    pthread_mutex_unlock(&buffers_lock);
}

/* Returns the first overwritten slack byte in [from, to), or NULL, and restores the slack. At most ALIGNMENT
 * bytes. */
static char *find_overwritten(char *from, char *to)
{
    static const char slack[ALIGNMENT] = {[0 ... ALIGNMENT - 1] = (char)SLACK_BYTE};
    char *at = from;

    if (memcmp(from, slack, (size_t)(to - from)) == 0)
        return NULL;
    while ((unsigned char)*at == SLACK_BYTE)
        at++;
    memset(from, SLACK_BYTE, (size_t)(to - from));
    return at;
}

bool memory_check_slack(char *text, size_t length)
{
    const char *at = NULL;
    const struct buffer *buffer;

    pthread_mutex_lock(&buffers_lock);
    for (buffer = buffers; buffer && !at; buffer = buffer->next) {
        const bool page_begins = buffer->start - buffer->page < ALIGNMENT;
        const char *before =
            find_overwritten(page_begins ? buffer->page : buffer->start - ALIGNMENT, buffer->start);

        at = find_overwritten(buffer->end, buffer->limit);
        at = at ? at : before;
    }
    pthread_mutex_unlock(&buffers_lock);
    if (at)
        memory_describe(at, text, length);
    return !at;
}

void memory_after_fork(void)
{
    pthread_mutex_init(&buffers_lock, NULL);
}
