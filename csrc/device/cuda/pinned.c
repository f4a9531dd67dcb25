/* Pinned host memory for results.
 *
 * DMA writes pinned memory at the link's speed, where other memory takes a copy by the host. But to pin memory
 * takes longer than many such copies. So a result gets pinned memory only if one of about its size has been freed
 * before, and the memory is kept for the next one: loops whose results die are faster from their second or third
 * result on, and programs that keep their results never wait for memory to be pinned.
 *
 * The memory is the process's own, registered with CUDA, and not CUDA's: a forked child has a copy of it, as of
 * all other results. After a fork DMA may write pages that the parent no longer sees, if its kernel is older than
 * Linux 5.10; no memory pinned before a fork is used for another result after it.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "gpu.h"

enum { MAX_BUFFERS = 64, MAX_FREED_SIZES = 32, PAGE_BYTES = 4096 };

static const size_t HUGE_PAGE_BYTES = (size_t)2 << 20;
static const size_t MOST_BYTES = (size_t)64 << 20;         /* larger ones are faulted in while the kernel runs */
static const size_t ALL_BUFFERS_BYTES = (size_t)256 << 20; /* pinned memory is lost to other processes */

struct buffer {
    char *memory; /* NULL: an unused slot */
    size_t bytes;
    bool in_use;
    int forks; /* of this process, when the memory was pinned */
    unsigned long long last_use;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer buffers[MAX_BUFFERS];
static size_t freed_sizes[MAX_FREED_SIZES]; /* of results without pinned memory, the last ones; 0: none */
static int next_freed_size;
static size_t pinned_bytes; /* of all buffers */
static unsigned long long uses;
static bool refused; /* CUDA has refused to pin memory: it is not asked again */
static atomic_int forks;

void gpu_count_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

/* Whether memory of `bytes` may be used for a result of `wanted` bytes: at most a quarter is wasted. */
static bool is_fitting(size_t bytes, size_t wanted)
{
    return bytes >= wanted && bytes - wanted <= wanted / 4;
}

static void unpin(struct buffer *buffer)
{
    (void)cudaHostUnregister(buffer->memory);
    (void)munmap(buffer->memory, buffer->bytes);
    pinned_bytes -= buffer->bytes;
    buffer->memory = NULL;
}

/* Whole pages, on whole huge pages if they are large enough. NULL if there are none. */
static char *map_pages(size_t bytes)
{
    const size_t alignment = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : PAGE_BYTES, mapped = bytes + alignment;
    char *const memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    const size_t before = (alignment - (uintptr_t)memory % alignment) % alignment, after = alignment - before;

    if (before)
        (void)munmap(memory, before);
    (void)munmap(memory + before + bytes, after);
#ifdef MADV_HUGEPAGE
    if (alignment == HUGE_PAGE_BYTES)
        (void)madvise(memory + before, bytes, MADV_HUGEPAGE);
#endif
    return memory + before;
}

static bool pin(struct buffer *buffer, size_t bytes)
{
    char *const memory = map_pages(bytes);

    if (!memory)
        return false;
    if (cudaHostRegister(memory, bytes, cudaHostRegisterPortable) != cudaSuccess) {
        (void)cudaGetLastError();
        (void)munmap(memory, bytes);
        refused = true;
        return false;
    }
    *buffer = (struct buffer){.memory = memory, .bytes = bytes, .forks = atomic_load(&forks)};
    pinned_bytes += bytes;
    return true;
}

/* The buffer that has been free for the longest time. NULL if none is free. */
static struct buffer *oldest_free_buffer(void)
{
    struct buffer *oldest = NULL;

    for (struct buffer *buffer = buffers; buffer < buffers + MAX_BUFFERS; buffer++)
        if (buffer->memory && !buffer->in_use && (!oldest || buffer->last_use < oldest->last_use))
            oldest = buffer;
    return oldest;
}

static struct buffer *unused_slot(void)
{
    for (struct buffer *buffer = buffers; buffer < buffers + MAX_BUFFERS; buffer++)
        if (!buffer->memory)
            return buffer;
    return NULL;
}

/* A new buffer, at the expense of others that are free. NULL if those in use leave no room. */
static struct buffer *new_buffer(size_t bytes)
{
    struct buffer *slot, *oldest;

    while ((!(slot = unused_slot()) || pinned_bytes + bytes > ALL_BUFFERS_BYTES) &&
           (oldest = oldest_free_buffer()))
        unpin(oldest);
    return slot && pinned_bytes + bytes <= ALL_BUFFERS_BYTES && pin(slot, bytes) ? slot : NULL;
}

/* Forgets one freed result of about this size; false if there was none. */
static bool take_freed_size(size_t bytes)
{
    for (int i = 0; i < MAX_FREED_SIZES; i++) {
        if (is_fitting(freed_sizes[i], bytes) || is_fitting(bytes, freed_sizes[i])) {
            freed_sizes[i] = 0;
            return true;
        }
    }
    return false;
}

static struct buffer *smallest_fitting(size_t bytes)
{
    struct buffer *best = NULL;

    for (struct buffer *buffer = buffers; buffer < buffers + MAX_BUFFERS; buffer++)
        if (buffer->memory && !buffer->in_use && buffer->forks == atomic_load(&forks) &&
            is_fitting(buffer->bytes, bytes) && (!best || buffer->bytes < best->bytes))
            best = buffer;
    return best;
}

void *cuda_allocate_pinned(struct device *device, size_t bytes)
{
    const size_t pages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    struct failure ignored;
    struct saved_context saved;
    struct buffer *buffer;
    void *memory = NULL;

    if (bytes > MOST_BYTES || !gpu_make_current(device, &saved, &ignored))
        return NULL;
    pthread_mutex_lock(&lock);
    buffer = smallest_fitting(pages);
    if (!buffer && !refused && take_freed_size(pages)) {
        const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();

        buffer = new_buffer(pages);
        gpu_restore_capture_mode(mode);
    }
    if (buffer) {
        buffer->in_use = true;
        memory = buffer->memory;
    }
    pthread_mutex_unlock(&lock);
    gpu_restore_context(&saved);
    return memory;
}

static struct buffer *buffer_of(const void *memory)
{
    for (struct buffer *buffer = buffers; buffer < buffers + MAX_BUFFERS; buffer++)
        if (buffer->memory == memory && memory)
            return buffer;
    return NULL;
}

size_t cuda_pinned_bytes(const void *memory)
{
    pthread_mutex_lock(&lock);
    const struct buffer *buffer = buffer_of(memory);
    const size_t bytes = buffer ? buffer->bytes : 0;

    pthread_mutex_unlock(&lock);
    return bytes;
}

bool cuda_release_pinned(void *memory, size_t bytes)
{
    struct buffer *buffer;

    if (gpu_is_forked()) /* the buffers are the parent's, and one of its threads may have held the lock */
        return buffer_of(memory) != NULL;
    pthread_mutex_lock(&lock);
    buffer = buffer_of(memory);
    if (buffer) {
        buffer->in_use = false;
        buffer->last_use = ++uses;
    } else if (bytes <= MOST_BYTES) {
        freed_sizes[next_freed_size] = bytes;
        next_freed_size = (next_freed_size + 1) % MAX_FREED_SIZES;
    }
    pthread_mutex_unlock(&lock);
    return buffer != NULL;
}

void cuda_unpin_free_memory(void)
{
    struct buffer *buffer;

    pthread_mutex_lock(&lock);
    while ((buffer = oldest_free_buffer()))
        unpin(buffer);
    pthread_mutex_unlock(&lock);
}
