/* The stacks of the workers' threads: their address space, their guard pages. */
#define _GNU_SOURCE
#include "block.h"
#include "bulk.h"
#include "cluster.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "schedule.h"
#include "wgmma.h"

/* Number of guard pages of all workers. */
static atomic_int guards;

/* Address space for stacks, one region per worker; reserved once per process and kept. */
char *smemkit_stacks;
static atomic_bool region_taken[MAX_WORKERS];

static void reserve_stacks(void)
{
    const size_t bytes = STACKS_BYTES + STACK_REGION;
    char *mapped = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mapped != MAP_FAILED)
        smemkit_stacks = mapped + (-(uintptr_t)mapped & (STACK_REGION - 1));
}

static char *map_region(void)
{
    static pthread_once_t reserved = PTHREAD_ONCE_INIT;

    pthread_once(&reserved, reserve_stacks);
    for (int i = 0; smemkit_stacks && i < MAX_WORKERS; i++) {
        char *region = smemkit_stacks + (uintptr_t)i * STACK_REGION;

        if (atomic_exchange(&region_taken[i], true))
            continue;
        if (mmap(region, STACK_REGION, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
            return region;
        region_taken[i] = false;
        break;
    }
    return NULL;
}

static void unmap_region(char *region)
{
    mmap(region, STACK_REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    region_taken[(region - smemkit_stacks) / (ptrdiff_t)STACK_REGION] = false;
}

bool worker_prepare(struct worker *w)
{
    bool ok;

    w->page = (size_t)sysconf(_SC_PAGESIZE);
    w->stacks = map_region();
    w->signal_stack = malloc(SIGNAL_STACK_BYTES);
    ok = shared_prepare(w) && w->stacks && w->signal_stack;
    if (ok)
        *(struct stack_region *)w->stacks = (struct stack_region){.worker = w};
    else
        worker_dispose(w);
    return ok;
}

void worker_dispose(struct worker *w)
{
    if (w->stacks) {
        fiber_forget_stacks(w->stacks, (w->guarded + 2) * stack_stride(w));
        unmap_region(w->stacks);
    }
    shared_dispose(w);
    atomic_fetch_sub(&guards, (int)w->guarded);
    free(w->signal_stack);
    async_dispose(w);
    bulk_dispose(w);
    wgmma_dispose(w);
    cluster_dispose(w);
    w->stacks = NULL;
    w->signal_stack = NULL;
}

void guard_stacks(struct worker *w, unsigned number)
{
    for (; w->guarded <= number; w->guarded++)
        if (atomic_fetch_add(&guards, 1) < MAX_GUARDS)
            mprotect(w->stacks + (w->guarded + 1) * stack_stride(w), w->page, PROT_NONE);
}
