/* Pinned host memory for results.
 *
 * DMA writes pinned memory at the link's speed, where other memory takes a copy by the host. But to pin memory
 * takes longer than many such copies. So a result gets pinned memory only if one of about its size has been freed
 * before, and the memory is kept for the next one: loops whose results die are faster from their third result on,
 * and programs that keep their results never wait for memory to be pinned.
 *
 * Other libraries copy from pinned memory asynchronously, and their copies may be pending when a result dies:
 * memory is used again, or unpinned, only after all GPUs have been synchronised.
 *
 * The memory is the process's own, registered with CUDA, and not CUDA's: a forked child has a copy of it, as of
 * all other results. Linux copies pinned pages at the fork since 5.9; before, the parent could lose the pages that
 * DMA knows, so nothing is pinned there.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "gpu.h"

enum { MAX_BUFFERS = 64, MAX_FREED_SIZES = 32 };

static const size_t MOST_BYTES = (size_t)64 << 20;         /* larger ones are faulted in while the kernel runs */
static const size_t ALL_BUFFERS_BYTES = (size_t)256 << 20; /* pinned memory is lost to other processes */

struct buffer {
    char *memory; /* NULL: an unused slot, or one that is being filled or emptied */
    size_t bytes; /* 0: an unused slot */
    bool in_use;
};

/* Held for no CUDA call: threads that free results wait for it with the GIL. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer buffers[MAX_BUFFERS];
static size_t freed_sizes[MAX_FREED_SIZES]; /* of results without pinned memory, the last ones; 0: none */
static int next_freed_size;
static size_t pinned_bytes; /* of all buffers */
static bool refused;        /* CUDA has refused to pin memory: it is not asked again */

/* Whether memory of `bytes` may be used for a result of `wanted` bytes: at most a quarter is wasted. */
static bool is_fitting(size_t bytes, size_t wanted)
{
    return bytes >= wanted && bytes - wanted <= wanted / 4;
}

/* Whether the system copies pinned pages when a process forks. */
static bool forks_copy_pinned_pages(void)
{
    static atomic_int known; /* 1: yes, 2: no */
    struct utsname system;
    int major = 0, minor = 0;

    if (!atomic_load(&known)) {
        const bool read = uname(&system) == 0 && sscanf(system.release, "%d.%d", &major, &minor) == 2;

        atomic_store(&known, read && (major > 5 || (major == 5 && minor >= 9)) ? 1 : 2);
    }
    return atomic_load(&known) == 1;
}

/* Waits until no copy of any library is pending on any GPU that this process uses. The calling thread has a
 * context. False if that is not possible, as while a stream is being captured, which waiting would break. */
static bool synchronize_all_gpus(void)
{
    int count = 0, current = 0;
    bool ok = cudaGetDeviceCount(&count) == cudaSuccess && cudaGetDevice(&current) == cudaSuccess;

    for (int i = 0; i < count && i < MAX_GPUS; i++)
        ok = ok && atomic_load(&gpus[i].captures) == 0;
    for (int i = 0; ok && i < count; i++)
        if (gpu_has_context(i))
            ok = cudaSetDevice(i) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
    if (!ok)
        (void)cudaGetLastError();
    return cudaSetDevice(current) == cudaSuccess && ok;
}

/* Gives memory back to the system, after all GPUs have been synchronised. What CUDA does not unpin stays mapped
 * and unused: DMA could still write its pages, whoever had the address. */
static void unpin(char *memory, size_t bytes)
{
    if (cudaHostUnregister(memory) == cudaSuccess)
        (void)munmap(memory, bytes);
    else
        (void)cudaGetLastError();
}

/* Whole pages, on whole huge pages if they are large enough. NULL if there are none. */
static char *map_pages(size_t bytes, size_t page)
{
    const size_t alignment = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : page, mapped = bytes + alignment;
    char *const memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    const size_t before = (alignment - (uintptr_t)memory % alignment) % alignment;

    if (before)
        (void)munmap(memory, before);
    (void)munmap(memory + before + bytes, alignment - before);
#ifdef MADV_HUGEPAGE
    if (alignment == HUGE_PAGE_BYTES)
        (void)madvise(memory + before, bytes, MADV_HUGEPAGE);
#endif
    return memory + before;
}

/* NULL if CUDA refuses. */
static char *pin_pages(size_t bytes, size_t page)
{
    char *const memory = map_pages(bytes, page);

    if (!memory || cudaHostRegister(memory, bytes, cudaHostRegisterPortable) == cudaSuccess)
        return memory;
    (void)cudaGetLastError();
    (void)munmap(memory, bytes);
    return NULL;
}

/* ---- with the lock held ---- */

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
        if (buffer->memory && !buffer->in_use && is_fitting(buffer->bytes, bytes) &&
            (!best || buffer->bytes < best->bytes))
            best = buffer;
    return best;
}

/* Reserves a slot for a new buffer. NULL if there is no room. */
static struct buffer *reserve_slot(size_t bytes)
{
    for (struct buffer *buffer = buffers; buffer < buffers + MAX_BUFFERS; buffer++) {
        if (buffer->bytes == 0 && pinned_bytes + bytes <= ALL_BUFFERS_BYTES) {
            *buffer = (struct buffer){.bytes = bytes, .in_use = true};
            pinned_bytes += bytes;
            return buffer;
        }
    }
    return NULL;
}

static void free_slot(struct buffer *buffer)
{
    pinned_bytes -= buffer->bytes;
    *buffer = (struct buffer){0};
}

static struct buffer *buffer_of(const void *memory)
{
    for (struct buffer *buffer = buffers; buffer < buffers + MAX_BUFFERS; buffer++)
        if (buffer->memory == memory && memory)
            return buffer;
    return NULL;
}

/* ---- without the lock ---- */

/* Unpins all memory that no result has. All GPUs have been synchronised. */
static void unpin_free_buffers(void)
{
    for (struct buffer *buffer = buffers; buffer < buffers + MAX_BUFFERS; buffer++) {
        pthread_mutex_lock(&lock);
        char *const memory = buffer->in_use ? NULL : buffer->memory;
        const size_t bytes = buffer->bytes;

        if (memory)
            free_slot(buffer);
        pthread_mutex_unlock(&lock);
        if (memory)
            unpin(memory, bytes);
    }
}

/* Pins memory for the buffer, or makes its slot free again. */
static char *fill_slot(struct buffer *buffer, size_t page)
{
    char *const memory = pin_pages(buffer->bytes, page);

    pthread_mutex_lock(&lock);
    buffer->memory = memory;
    if (!memory) {
        refused = true;
        free_slot(buffer);
    }
    pthread_mutex_unlock(&lock);
    return memory;
}

/* Memory for a result of whole pages: that of a former one, or new memory. The device is current. */
static char *find_memory(size_t bytes, size_t page)
{
    pthread_mutex_lock(&lock);
    struct buffer *buffer = smallest_fitting(bytes);
    const bool pays = !buffer && !refused && take_freed_size(bytes);
    char *memory = buffer ? buffer->memory : NULL;

    if (buffer)
        buffer->in_use = true;
    pthread_mutex_unlock(&lock);
    if ((!buffer && !pays) || !synchronize_all_gpus()) {
        if (buffer)
            (void)cuda_release_pinned(memory, 0);
        return NULL;
    }
    if (buffer)
        return memory;
    for (int tries = 0; tries < 2 && !buffer; tries++) {
        if (tries > 0)
            unpin_free_buffers();
        pthread_mutex_lock(&lock);
        buffer = reserve_slot(bytes);
        pthread_mutex_unlock(&lock);
    }
    return buffer ? fill_slot(buffer, page) : NULL;
}

void *cuda_allocate_pinned(struct device *device, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page * page;
    struct failure ignored;
    struct saved_context saved;

    if (bytes > MOST_BYTES || !forks_copy_pinned_pages() || !gpu_make_current(device, &saved, &ignored))
        return NULL;
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();
    void *const memory = find_memory(pages, page);

    gpu_restore_capture_mode(mode);
    gpu_restore_context(&saved);
    return memory;
}

/* In a forked child nothing else runs, but a thread of the parent may have held the lock at the fork. */
static void lock_buffers(void)
{
    if (!gpu_is_forked())
        pthread_mutex_lock(&lock);
}

static void unlock_buffers(void)
{
    if (!gpu_is_forked())
        pthread_mutex_unlock(&lock);
}

size_t cuda_pinned_bytes(const void *memory)
{
    lock_buffers();
    const struct buffer *buffer = buffer_of(memory);
    const size_t bytes = buffer ? buffer->bytes : 0;

    unlock_buffers();
    return bytes;
}

bool cuda_release_pinned(void *memory, size_t bytes)
{
    lock_buffers();
    struct buffer *buffer = buffer_of(memory);

    if (buffer) { /* in a forked child nobody uses it again */
        buffer->in_use = false;
    } else if (bytes && bytes <= MOST_BYTES) {
        freed_sizes[next_freed_size] = bytes;
        next_freed_size = (next_freed_size + 1) % MAX_FREED_SIZES;
    }
    unlock_buffers();
    return buffer != NULL;
}

void cuda_unpin_free_memory(void)
{
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();

    if (synchronize_all_gpus())
        unpin_free_buffers();
    gpu_restore_capture_mode(mode);
    pthread_mutex_lock(&lock);
    memset(freed_sizes, 0, sizeof freed_sizes);
    refused = false;
    pthread_mutex_unlock(&lock);
}
