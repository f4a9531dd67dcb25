/* The clocks, which determine whether two accesses are ordered: see races.c. */
#define _GNU_SOURCE
#include "shadow.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "executor/block.h"

/* Protects all sync_objects and their releases. */
static pthread_mutex_t objects_lock = PTHREAD_MUTEX_INITIALIZER;

void races_after_fork(void)
{
    pthread_mutex_init(&objects_lock, NULL);
    shadow_after_fork();
}

/* What one thread released at one address: its accesses up to `epoch` and its block's before `base`; or everything
 * that it had acquired from `elsewhere`. */
struct release {
    uint32_t block, base[2], epoch[2]; /* [0] for its own block, [1] for the device */
    uint16_t thread;
    struct sync_object *elsewhere; /* with `count` and `block_scope_count` as in struct seen */
    uint32_t count, block_scope_count;
    uint64_t visited; /* number of the last search that visited it */
};

struct sync_object {
    struct sync_object *next; /* in its list of the launch */
    uintptr_t address;
    uint32_t block; /* of shared memory; 0: global memory */
    struct release *releases;
    uint32_t count, capacity;
    uint64_t visited;       /* number of the last search, which */
    uint32_t visited_count; /* visits its first visited_count releases */
    uint64_t block_visited; /* the same of a search among the releases of one block */
    uint32_t visited_block, block_visited_count;
};

/* A thread is ordered after the first `count` releases of an object. By block-scope fences alone, it is also
 * ordered after those of its own block among the first `block_scope_count`. */
struct seen {
    struct sync_object *object;
    uint32_t count, block_scope_count;
};

/* A cached result: whether a thread of the block is ordered after an access. Once true, it stays true; false stays
 * false until a thread acquires something. */
struct ordered_pair {
    uint32_t block, epoch; /* of the earlier access; 0: none */
    uint16_t thread, now;
    uint64_t unordered; /* false as long as this is `acquired`; 0: true */
};
enum { ORDERED_PAIRS = 4096 };

/* Number of the last search for a chain of releases. */
static uint64_t searches;

/* Whether `seen`, of a thread of `block`, orders `by` after `earlier`. A search visits each release once: what
 * follows from it does not depend on how the search reached it. */
static bool search_releases(const struct seen *seen, uint32_t block, const struct access *by,
                            const struct access *earlier, int depth)
{
    struct sync_object *object = seen->object;
    const uint32_t end = seen->block_scope_count > seen->count ? seen->block_scope_count : seen->count;
    const uint32_t visited = object->visited == searches ? object->visited_count : 0;
    const uint32_t in_block =
        object->block_visited == searches && object->visited_block == block ? object->block_visited_count : 0;

    if (depth > 4096)
        return false;
    object->block_visited = searches;
    object->visited_block = block;
    object->block_visited_count = in_block > end ? in_block : end;
    object->visited = searches;
    object->visited_count = visited > seen->count ? visited : seen->count;
    for (uint32_t i = end; i-- > visited;) {
        struct release *release = &object->releases[i];

        if (i >= seen->count && i < in_block) { /* those of the block have been visited */
            i = seen->count > visited ? seen->count : visited;
            continue;
        }
        /* a copy releases to the whole cluster, and to waits of any scope */
        if (release->visited == searches ||
            (i >= seen->count && release->block != block && release->thread < COPIES))
            continue;
        release->visited = searches;
        if (release->elsewhere) {
            const struct seen other = {release->elsewhere, release->count, release->block_scope_count};

            if (search_releases(&other, release->block, by, earlier, depth + 1))
                return true;
        } else if (release->block == earlier->block) {
            const int scope = by->block != release->block;

            if (earlier->thread >= COPIES) {
                if (earlier->thread == release->thread && earlier->epoch == release->epoch[scope])
                    return true;
            } else if (earlier->epoch < release->base[scope] ||
                       (earlier->thread == release->thread && earlier->epoch <= release->epoch[scope]))
                return true;
        }
    }
    return false;
}

static bool any_release_orders(const struct clock_list *list, const struct access *by,
                               const struct access *earlier)
{
    for (int i = 0; i < list->count; i++) {
        searches++;
        if (search_releases(&list->items[i], by->block, by, earlier, 0))
            return true;
    }
    return false;
}

static struct ordered_pair *pair_slot(const struct tracer *t, const struct ordered_pair *pair)
{
    const uint64_t both = (uint64_t)pair->epoch << 32 | pair->block;

    return &t->ordered[mix(both + ((uint64_t)pair->thread << 16 | pair->now) * 977) % ORDERED_PAIRS];
}

bool ordered(struct tracer *t, const struct access *now, const struct access *earlier)
{
    struct ordered_pair pair = {earlier->block, earlier->epoch, (uint16_t)earlier->thread, (uint16_t)now->thread,
                                0};
    struct ordered_pair *slot;
    bool found;

    if (now->block == earlier->block && earlier->thread < COPIES &&
        (earlier->thread == now->thread || earlier->epoch < t->base_epoch ||
         (t->known_used && earlier->epoch < t->known_epochs[now->thread * t->worker->count + earlier->thread])))
        return true;
    if (!t->seen_used)
        return false;
    slot = pair_slot(t, &pair);
    if (slot->block == pair.block && slot->epoch == pair.epoch && slot->thread == pair.thread &&
        slot->now == pair.now && (!slot->unordered || slot->unordered == t->acquired))
        return !slot->unordered;
    pthread_mutex_lock(&objects_lock);
    found = any_release_orders(&t->threads[now->thread].seen, now, earlier) ||
            any_release_orders(&t->seen, now, earlier);
    pthread_mutex_unlock(&objects_lock);
    pair.unordered = found ? 0 : t->acquired;
    *slot = pair;
    return found;
}

/* When the threads have arrived at each named barrier, in its phase and in the last complete one. */
struct named_epochs {
    uint32_t now[NAMED_BARRIERS][MAX_THREADS], last[NAMED_BARRIERS][MAX_THREADS];
};

bool clocks_prepare(struct tracer *t)
{
    t->threads = calloc(MAX_THREADS, sizeof *t->threads);
    t->ordered = calloc(ORDERED_PAIRS, sizeof *t->ordered);
    t->named = calloc(1, sizeof *t->named);
    return t->threads && t->ordered && t->named;
}

static void list_free(struct clock_list *list)
{
    free(list->items);
    *list = (struct clock_list){0};
}

void clocks_dispose(struct tracer *t)
{
    for (unsigned i = 0; t->threads && i < MAX_THREADS; i++) {
        list_free(&t->threads[i].seen);
        list_free(&t->threads[i].pending);
        free(t->threads[i].shared_fences.epochs);
        free(t->threads[i].global_fences.epochs);
        free(t->threads[i].map_releases.epochs);
    }
    list_free(&t->seen);
    free(t->map_acquires.items);
    free(t->named);
    free(t->threads);
    free(t->ordered);
    if (t->known_epochs)
        munmap(t->known_epochs, (size_t)MAX_THREADS * MAX_THREADS * sizeof *t->known_epochs);
}

void clocks_block_begin(struct tracer *t)
{
    const struct worker *w = t->worker;
    const unsigned *grid = t->trace->grid;

    t->block_number = 1 + w->block.x + grid[0] * (w->block.y + grid[1] * w->block.z);
    t->clock = t->base_epoch = 1;
    t->acquired++;
    t->interval = 0;
    t->published = 0;
    if (t->known_used)
        memset(t->known_epochs, 0, (size_t)w->count * w->count * sizeof *t->known_epochs);
    if (t->seen_used)
        memset(t->ordered, 0, ORDERED_PAIRS * sizeof *t->ordered);
    t->known_used = t->fences_used = t->seen_used = false;
    t->seen.count = t->map_acquires.count = 0;
    for (unsigned i = 0; i < w->count; i++) {
        struct thread_clock *thread = &t->threads[i];

        thread->epoch = 1;
        memset(thread->fence, 0, sizeof thread->fence);
        memset(thread->fence_base, 0, sizeof thread->fence_base);
        thread->plain_since = false;
        thread->shared_fences.count = thread->global_fences.count = thread->map_releases.count = 0;
        thread->seen.count = thread->pending.count = 0;
    }
}

static void list_add(struct tracer *t, struct clock_list *list, const struct seen *seen)
{
    t->acquired++;
    for (int i = 0; i < list->count; i++) {
        struct seen *item = &list->items[i];

        if (item->object == seen->object) {
            item->count = item->count < seen->count ? seen->count : item->count;
            item->block_scope_count = item->block_scope_count < seen->block_scope_count ? seen->block_scope_count
                                                                                        : item->block_scope_count;
            return;
        }
    }
    if (list->count == list->capacity) {
        const int capacity = list->capacity ? list->capacity * 2 : 4;
        struct seen *items = realloc(list->items, (size_t)capacity * sizeof *items);

        if (!items) {
            t->trace->observed.out_of_memory = true;
            return;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = *seen;
}

static void list_join(struct tracer *t, struct clock_list *list, struct clock_list *from)
{
    for (int i = 0; i < from->count; i++)
        list_add(t, list, &from->items[i]);
    from->count = 0;
}

void clock_barrier(struct tracer *t)
{
    const unsigned count = t->worker->count;

    if (t->seen_used) {
        for (unsigned i = 0; i < count; i++) {
            list_join(t, &t->seen, &t->threads[i].seen);
            list_join(t, &t->seen, &t->threads[i].pending);
        }
    }
    if (t->fences_used) {
        uint32_t least = UINT32_MAX;

        for (unsigned i = 0; i < count; i++)
            least = t->threads[i].fence[1] < least ? t->threads[i].fence[1] : least;
        if (least + 1 > t->published)
            t->published = least + 1;
    }
    t->base_epoch = ++t->clock;
    t->interval++;
    for (unsigned i = 0; i < count; i++)
        t->threads[i].epoch = t->base_epoch;
}

static bool enable_known_epochs(struct tracer *t)
{
    if (!t->known_epochs) {
        void *memory = mmap(NULL, (size_t)MAX_THREADS * MAX_THREADS * sizeof *t->known_epochs,
                            PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (memory == MAP_FAILED) {
            t->trace->observed.out_of_memory = true;
            return false;
        }
        t->known_epochs = memory;
    }
    t->known_used = true;
    return true;
}

void clock_join(struct tracer *t, const uint64_t *from, const uint64_t *to)
{
    const unsigned count = t->worker->count;
    uint32_t joined[MAX_THREADS] = {0};
    struct clock_list seen = {0};

    if (!enable_known_epochs(t))
        return;
    for (unsigned i = 0; i < count; i++) {
        struct thread_clock *thread = &t->threads[i];

        if (!(from[i >> 6] >> (i & 63) & 1))
            continue;
        for (unsigned j = 0; j < count; j++)
            joined[j] = t->known_epochs[i * count + j] > joined[j] ? t->known_epochs[i * count + j] : joined[j];
        if (thread->arrived + 1 > joined[i])
            joined[i] = thread->arrived + 1;
        if (t->seen_used)
            for (int k = 0; k < thread->seen.count; k++)
                list_add(t, &seen, &thread->seen.items[k]);
    }
    for (unsigned i = 0; i < count; i++) {
        if (!(to[i >> 6] >> (i & 63) & 1))
            continue;
        memcpy(&t->known_epochs[i * count], joined, count * sizeof *joined);
        for (int k = 0; k < seen.count; k++)
            list_add(t, &t->threads[i].seen, &seen.items[k]);
    }
    list_free(&seen);
}

void clock_arrive(struct tracer *t, unsigned thread)
{
    t->threads[thread].arrived = t->threads[thread].epoch;
    t->threads[thread].epoch = ++t->clock;
}

void clock_named_arrive(struct tracer *t, unsigned thread, int id)
{
    t->named->now[id][thread] = t->threads[thread].arrived;
}

void clock_named_complete(struct tracer *t, int id)
{
    memcpy(t->named->last[id], t->named->now[id], sizeof t->named->last[id]);
}

bool clock_follows(struct tracer *t, unsigned thread, int id, const uint64_t *threads)
{
    const struct access now = {.thread = thread, .block = t->block_number};

    for (unsigned i = 0; i < t->worker->count; i++) {
        const struct access arrival = {.thread = i, .block = t->block_number, .epoch = t->named->last[id][i]};

        if (threads[i >> 6] >> (i & 63) & 1 && !ordered(t, &now, &arrival))
            return false;
    }
    return true;
}

void clock_fence(struct tracer *t, unsigned number, int scope)
{
    struct thread_clock *thread = &t->threads[number];

    for (int i = 0; i < (scope > 1 ? 2 : 1); i++) {
        thread->fence[i] = thread->epoch;
        thread->fence_base[i] = t->base_epoch;
    }
    thread->epoch = ++t->clock;
    thread->plain_since = false;
    thread->fence_scope = scope > 1;
    t->fences_used = true;
    if (scope > 1)
        list_join(t, &thread->seen, &thread->pending);
    for (int i = 0; i < thread->pending.count; i++) /* a block fence; releases of other blocks stay pending */
        list_add(t, &thread->seen,
                 &(struct seen){thread->pending.items[i].object, 0, thread->pending.items[i].block_scope_count});
}

static struct sync_object *object_at(struct tracer *t, uintptr_t address)
{
    struct trace *trace = t->trace;
    const struct tracer *remote = remote_tracer(t, address);
    const uint32_t block = remote                                       ? remote->block_number
                           : library_has_data(&trace->library, address) ? 0
                           : t->spans[0].bytes && address - t->spans[0].start < t->spans[0].bytes ? t->block_number
                           : t->spans[1].bytes && address - t->spans[1].start < t->spans[1].bytes ? t->block_number
                                                                                                  : 0;
    struct sync_object **link = &trace->objects[(address >> 2 ^ block) % OBJECT_LISTS], *object;

    for (object = *link; object; object = object->next)
        if (object->address == address && object->block == block)
            return object;
    object = calloc(1, sizeof *object);
    if (!object) {
        trace->observed.out_of_memory = true;
        return NULL;
    }
    object->address = address;
    object->block = block;
    object->next = *link;
    *link = object;
    return object;
}

static void add_release(struct tracer *t, struct sync_object *object, const struct release *release)
{
    if (object->count == object->capacity) {
        const uint32_t capacity = object->capacity ? object->capacity * 2 : 4;
        struct release *releases = realloc(object->releases, capacity * sizeof *releases);

        if (!releases) {
            t->trace->observed.out_of_memory = true;
            return;
        }
        object->releases = releases;
        object->capacity = capacity;
    }
    object->releases[object->count++] = *release;
}

/* Releases at `object` also what the thread has acquired elsewhere. */
static void forward_releases(struct tracer *t, struct sync_object *object, const struct clock_list *list)
{
    for (int i = 0; i < list->count; i++) {
        const struct seen *seen = &list->items[i];
        const struct release release = {.block = t->block_number,
                                        .elsewhere = seen->object,
                                        .count = seen->count,
                                        .block_scope_count = seen->block_scope_count};
        bool known = seen->object == object && seen->count >= seen->block_scope_count;

        for (uint32_t j = object->count; j-- > 0 && !known && object->count - j < 64;) {
            const struct release *other = &object->releases[j];

            known = other->elsewhere == release.elsewhere && other->block == release.block &&
                    other->count >= release.count && other->block_scope_count >= release.block_scope_count;
        }
        if (!known)
            add_release(t, object, &release);
    }
}

static void record_release(struct tracer *t, unsigned number, struct sync_object *object, bool fenced)
{
    struct thread_clock *thread = &t->threads[number];
    struct release release = {.block = t->block_number, .thread = (uint16_t)number};

    for (int i = 0; i < 2; i++) {
        const bool now =
            fenced || (!thread->plain_since && t->fences_used && thread->fence[i] && i <= thread->fence_scope);

        /* includes the atomic itself, unless plain accesses come between it and the fence */
        release.epoch[i] = now ? thread->epoch : thread->fence[i];
        release.base[i] = fenced ? t->base_epoch : thread->fence_base[i];
        if (t->published > release.base[i])
            release.base[i] = t->published;
    }
    if (!release.epoch[0] && !release.base[0])
        return;
    add_release(t, object, &release);
    forward_releases(t, object, &t->seen);
    forward_releases(t, object, &thread->seen);
    if (t->known_used) { /* what __syncwarp and named barriers have ordered */
        for (unsigned i = 0; i < t->worker->count; i++) {
            const uint32_t known = t->known_epochs[number * t->worker->count + i];

            if (i != number && known > t->base_epoch && known > 0) {
                const struct release also = {
                    .block = t->block_number, .thread = (uint16_t)i, .epoch = {known - 1, known - 1}};

                add_release(t, object, &also);
            }
        }
    }
    thread->epoch = ++t->clock;
}

void clock_atomic_begin(struct tracer *t)
{
    pthread_mutex_lock(&objects_lock);
    t->in_atomic = true;
}

void clock_atomic(struct tracer *t, unsigned number, uintptr_t address, bool wrote, int order)
{
    struct thread_clock *thread = &t->threads[number];
    struct sync_object *object;

    object = object_at(t, address);
    if (object) {
        if (object->count && !(order & 16)) {
            if (order & 8)
                list_add(t, &thread->seen, &(struct seen){object, 0, object->count});
            list_add(t, order & 1 ? &thread->seen : &thread->pending,
                     &(struct seen){object, object->count, object->count});
            t->seen_used = true;
        }
        if (wrote && (order & 2 || t->fences_used))
            record_release(t, number, object, order & 2);
    }
    t->in_atomic = false;
    pthread_mutex_unlock(&objects_lock);
}

void clock_copy(struct tracer *t, unsigned thread, uintptr_t address, bool seen, unsigned copy, uint32_t epoch,
                bool written)
{
    struct sync_object *object;

    pthread_mutex_lock(&objects_lock);
    object = object_at(t, address);
    for (uint32_t i = 0; object && i < (written ? 2 : 1); i++) {
        const struct release release = {
            .block = t->block_number, .thread = (uint16_t)copy, .epoch = {epoch + i, epoch + i}};

        add_release(t, object, &release);
    }
    if (object && seen)
        list_add(t, &t->threads[thread].seen, &(struct seen){object, object->count, object->count});
    t->seen_used = true;
    pthread_mutex_unlock(&objects_lock);
}

void clock_release(struct tracer *t, uintptr_t address, uint32_t block, unsigned thread, uint32_t epoch)
{
    const struct release release = {.block = block, .thread = (uint16_t)thread, .epoch = {epoch, epoch}};
    struct sync_object *object;

    pthread_mutex_lock(&objects_lock);
    object = object_at(t, address);
    if (object)
        add_release(t, object, &release);
    t->seen_used = true;
    pthread_mutex_unlock(&objects_lock);
}

void clock_acquire(struct tracer *t, unsigned thread, uintptr_t address)
{
    struct sync_object *object;

    pthread_mutex_lock(&objects_lock);
    object = object_at(t, address);
    if (object)
        list_add(t, &t->threads[thread].seen, &(struct seen){object, object->count, object->count});
    t->seen_used = true;
    pthread_mutex_unlock(&objects_lock);
}

void clocks_free_objects(struct trace *trace)
{
    for (int i = 0; i < OBJECT_LISTS; i++) {
        while (trace->objects[i]) {
            struct sync_object *object = trace->objects[i];

            trace->objects[i] = object->next;
            free(object->releases);
            free(object);
        }
    }
}
