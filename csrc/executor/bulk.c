/* Bulk copies, cp.async.bulk, and the transactions of mbarriers, which count their bytes. (PTX ISA, "Data Movement
 * and Conversion Instructions: Asynchronous copy", "mbarrier: Tracking asynchronous operations by the mbarrier
 * object")
 *
 * The bytes move as late as a wait allows: those that arrive at an mbarrier when a wait finds a phase that lacks
 * nothing else, the others when their thread waits for its bulk group, or exits. The observer may have them moved
 * at once instead; to the observer they can be seen only after the wait, whenever they moved.
 *
 * A phase of an mbarrier is complete when no arrivals are pending and as many bytes have arrived as were expected,
 * in either order. Objects at which the two differ are in a list.
 */
#define _GNU_SOURCE
#include "bulk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "mbarrier.h"
#include "schedule.h"
#include "tensor_map.h"

enum { TYPE_TF32 = 11 }; /* CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 */
enum { MAX_BULKS = 1 << 16, MAX_TRANSACTION = (1 << 20) - 1, GRAIN = 16, TENSOR_GRAIN = 128 };

struct transactions {
    const void *object;
    long long expected, received; /* bytes of the current phase; they differ */
};

/* A copy whose source is known to be read, in a check: a wait for its write may follow. */
struct read_copy {
    unsigned thread;
    uint32_t group, epoch;
};

struct bulk_copies {
    struct bulk *items; /* in the order of their issue */
    unsigned count, capacity;
    struct read_copy *read;
    unsigned read_count, read_capacity;
    struct transactions *open;
    unsigned open_count, open_capacity;
    uint32_t groups[MAX_THREADS]; /* commits of each thread */
};

static struct bulk_copies *own_copies(struct worker *w)
{
    if (!w->bulk)
        w->bulk = calloc(1, sizeof *w->bulk);
    if (!w->bulk)
        worker_fail(w, KIND_TRAP, "no memory for bulk copies", __FILE__, __LINE__);
    w->bulk_used = true;
    return w->bulk;
}

/* Returns `items` with space for one more. */
static void *grow(struct worker *w, void *items, unsigned count, unsigned *capacity, size_t bytes)
{
    void *larger;

    if (count < *capacity)
        return items;
    larger = realloc(items, (*capacity ? *capacity * 2 : 16) * bytes);
    if (!larger)
        worker_fail(w, KIND_TRAP, "no memory for bulk copies", __FILE__, __LINE__);
    *capacity = *capacity ? *capacity * 2 : 16;
    return larger;
}

void bulk_dispose(struct worker *w)
{
    if (w->bulk) {
        free(w->bulk->items);
        free(w->bulk->open);
        free(w->bulk->read);
    }
    free(w->bulk);
    w->bulk = NULL;
}

void bulk_forget(struct worker *w)
{
    w->bulk->count = w->bulk->open_count = w->bulk->read_count = 0;
    memset(w->bulk->groups, 0, sizeof w->bulk->groups);
    w->bulk_used = false;
}

/* ---- transactions ---- */

/* The block that has the object keeps its transactions. */
static struct worker *keeper(struct worker *w, const void *object)
{
    struct worker *owner = w->in_cluster ? cluster_owner(w, object) : w;

    return owner ? owner : w;
}

static struct transactions *find_open(const struct worker *w, const void *object)
{
    for (unsigned i = 0; w->bulk_used && i < w->bulk->open_count; i++)
        if (w->bulk->open[i].object == object)
            return &w->bulk->open[i];
    return NULL;
}

void bulk_forget_object(struct worker *w, const void *object)
{
    struct transactions *open = find_open(w, object);

    if (open)
        *open = w->bulk->open[--w->bulk->open_count];
}

bool bulk_is_open(struct worker *w, const void *object)
{
    return find_open(keeper(w, object), object) != NULL;
}

/* Counts bytes that the object's phase expects, and bytes that have arrived. Returns false if they differ by more
 * than an mbarrier can count. */
static bool count_bytes(struct worker *w, void *object, uint64_t expected, uint64_t received)
{
    struct worker *owner = keeper(w, object);
    struct bulk_copies *all = own_copies(owner);
    struct transactions *open = find_open(owner, object);
    bool counted;

    if (!open) {
        all->open = grow(w, all->open, all->open_count, &all->open_capacity, sizeof *all->open);
        open = &all->open[all->open_count++];
        *open = (struct transactions){.object = object};
    }
    open->expected += (long long)expected;
    open->received += (long long)received;
    counted = llabs(open->expected - open->received) <= MAX_TRANSACTION;
    if (open->expected == open->received) {
        *open = all->open[--all->open_count];
        mbarrier_settle(object);
    }
    note_change(owner);
    return counted;
}

static void count_transaction(void *object, uint64_t expected, uint64_t received, const char *instruction,
                              const char *file, int line)
{
    struct worker *w = own_worker();
    char what[MESSAGE_BYTES];

    mbarrier_checked_phase(object, instruction, file, line);
    if (count_bytes(w, object, expected, received))
        return;
    snprintf(what, sizeof what,
             "%s of %llu bytes at %.200s:%d: an mbarrier counts at most %d bytes that are expected and have not "
             "arrived",
             instruction, (unsigned long long)(expected | received), file, line, MAX_TRANSACTION);
    worker_fail(w, KIND_BARRIER, what, file, line);
}

void smemkit_mbarrier_expect(void *object, uint64_t bytes, const char *file, int line)
{
    count_transaction(object, bytes, 0, "mbarrier.expect_tx", file, line);
}

void smemkit_mbarrier_complete(void *object, uint64_t bytes, const char *file, int line)
{
    count_transaction(object, 0, bytes, "mbarrier.complete_tx", file, line);
}

void bulk_describe(const struct worker *w, const void *object, char *text, size_t length)
{
    const struct transactions *open = find_open(w, object);
    long long received;

    if (!open)
        return;
    received = open->received;
    for (unsigned i = 0; i < w->bulk->count; i++)
        if (w->bulk->items[i].copy.mbarrier == object && !w->bulk->items[i].moved)
            received += (long long)w->bulk->items[i].copy.bytes;
    if (received < open->expected)
        snprintf(text, length, " and %lld of %lld bytes", open->expected - received, open->expected);
    else if (received > open->expected)
        snprintf(text, length, ", and has received %lld bytes where %lld are expected", received, open->expected);
}

/* ---- tensors ---- */

/* A row of 128 bytes of shared memory, in chunks of 16: the number of a chunk is XORed with bits of the row's. */
static uintptr_t swizzled(const struct smemkit_tensor *tensor, uintptr_t address)
{
    const uintptr_t chunks = ((uintptr_t)1 << tensor->swizzle) - 1;

    return address ^ (address >> 7 & chunks) << 4;
}

/* The pieces of one chunk of shared memory: elements before the tensor's first one, inside, and after its last.
 * `first`: the coordinate of the chunk's first element; row: the address of the row's element 0, NULL if the row
 * is outside. */
static void each_of_chunk(const struct smemkit_tensor *tensor, int64_t first, char *row, char *shared,
                          bulk_piece_function function, void *context)
{
    const int64_t element = tensor->element, count = GRAIN / element, end = tensor->shape[0];
    const int64_t before = !row || first + count <= 0 ? count : first < 0 ? -first : 0;
    const int64_t inside = first + count <= end ? count : first < end ? end - first : before;
    const int64_t borders[] = {0, before, inside < before ? before : inside, count};

    for (int i = 0; i < 3; i++) {
        const struct bulk_piece piece = {i == 1 ? row + (first + borders[1]) * element : NULL,
                                         shared + borders[i] * element,
                                         (size_t)((borders[i + 1] - borders[i]) * element)};

        if (piece.bytes)
            function(context, &piece);
    }
}

/* The elements of the box in a dimension, of which it takes one in `steps` */
static unsigned rows_of(const struct smemkit_tensor *tensor, int dimension)
{
    const unsigned step = tensor->steps[dimension];

    return (tensor->box[dimension] + step - 1) / step;
}

static void each_of_tensor(const struct bulk *bulk, char *shared, bulk_piece_function function, void *context)
{
    const struct smemkit_tensor *tensor = &bulk->tensor;
    const int64_t row_bytes = (int64_t)tensor->box[0] * tensor->element;
    const int64_t pattern = tensor->swizzle ? (int64_t)GRAIN << tensor->swizzle : row_bytes;
    unsigned index[SMEMKIT_TENSOR_RANK] = {0};
    uintptr_t to = (uintptr_t)shared;
    int dimension;

    do { /* one row of the box */
        char *row = tensor->address;

        for (dimension = 1; dimension < tensor->rank; dimension++) {
            const int64_t at = (int64_t)bulk->copy.at[dimension] + index[dimension] * tensor->steps[dimension];

            row = row && at >= 0 && at < tensor->shape[dimension] ? row + at * (int64_t)tensor->strides[dimension]
                                                                  : NULL;
        }
        for (int64_t at = 0; at < row_bytes; at += GRAIN, to += GRAIN)
            each_of_chunk(tensor, bulk->copy.at[0] + at / tensor->element, row, (char *)swizzled(tensor, to),
                          function, context);
        to += (uintptr_t)(pattern - row_bytes); /* shorter rows are as far apart (measured on an H100) */
        for (dimension = 1; dimension < tensor->rank && ++index[dimension] == rows_of(tensor, dimension);
             dimension++)
            index[dimension] = 0;
    } while (dimension < tensor->rank);
}

bool bulk_is_of_registers(const struct smemkit_bulk *copy)
{
    return strncmp(copy->instruction, "cp.", 3) != 0;
}

void bulk_each_piece(const struct bulk *bulk, bulk_piece_function function, void *context)
{
    const struct smemkit_bulk *copy = &bulk->copy;
    char *const to = copy->to, *const from = (char *)(uintptr_t)copy->from;

    if (copy->tensor)
        each_of_tensor(bulk, copy->mbarrier ? to : from, function, context);
    else if (bulk_is_of_registers(copy))
        function(context, &(struct bulk_piece){(char *)(uintptr_t)copy->value, to, copy->bytes});
    else
        function(context,
                 &(struct bulk_piece){copy->mbarrier ? from : to, copy->mbarrier ? to : from, copy->bytes});
}

static void move_piece(void *context, const struct bulk_piece *piece)
{
    const struct bulk *bulk = context;
    const struct smemkit_bulk *copy = &bulk->copy;

    if (!copy->mbarrier && piece->global && copy->combine)
        copy->combine(piece->global, piece->shared, piece->bytes);
    else if (!copy->mbarrier && piece->global)
        memcpy(piece->global, piece->shared, piece->bytes);
    else if (copy->mbarrier && piece->global && copy->combine)
        copy->combine(piece->shared, piece->global, piece->bytes);
    else if (copy->mbarrier && piece->global && copy->tensor && bulk->tensor.type == TYPE_TF32)
        tensor_round(piece->shared, piece->global, piece->bytes);
    else if (copy->mbarrier && piece->global)
        memcpy(piece->shared, piece->global, piece->bytes);
    else if (copy->mbarrier)
        tensor_fill(&bulk->tensor, piece->shared, piece->bytes);
}

/* ---- copies ---- */

static bool completes_early(struct worker *w)
{
    return w->tracer && smemkit_observer->completes_early(w);
}

/* Moves the bytes of a copy, and lets them arrive at its mbarrier. */
static void perform(struct worker *w, struct bulk *bulk)
{
    const struct smemkit_bulk *copy = &bulk->copy;

    bulk_each_piece(bulk, move_piece, bulk);
    bulk->moved = true;
    if (!copy->mbarrier)
        return;
    bulk->phase = mbarrier_checked_phase(copy->mbarrier, copy->instruction, bulk->file, bulk->line);
    count_bytes(w, copy->mbarrier, 0, copy->bytes);
}

/* Removes the copies that are marked by a length of SIZE_MAX. */
static void remove_marked(struct bulk_copies *all)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < all->count; i++)
        if (all->items[i].copy.bytes != UINT64_MAX)
            all->items[kept++] = all->items[i];
    all->count = kept;
}

static void mark(struct bulk *bulk)
{
    bulk->copy.bytes = UINT64_MAX;
}

/* Those that a block has started */
static bool complete_in_block(struct worker *w, void *object)
{
    const uint32_t phase = mbarrier_phase(object);
    bool found = false;

    for (unsigned i = 0; w->bulk_used && i < w->bulk->count; i++) {
        struct bulk *bulk = &w->bulk->items[i];

        if (bulk->copy.mbarrier != object || bulk->moved)
            continue;
        if (!mbarrier_lacks_bytes(object) || mbarrier_phase(object) != phase)
            break;
        perform(w, bulk);
        found = true;
    }
    return found;
}

bool bulk_complete_for(struct worker *w, void *object)
{
    const struct cluster *c = cluster_of(w);
    bool found = complete_in_block(w, object);

    for (unsigned rank = 0; c && rank < c->size; rank++)
        found |= complete_in_block(c->members[rank], object);
    return found;
}

static void observe_phase_in_block(struct worker *w, void *object)
{
    const uint32_t phase = mbarrier_phase(object);
    bool any = false;

    for (unsigned i = 0; w->bulk_used && i < w->bulk->count; i++) {
        struct bulk *bulk = &w->bulk->items[i];

        if (bulk->copy.mbarrier != object || !bulk->moved || bulk->phase == phase)
            continue;
        if (w->tracer)
            smemkit_observer->bulk_seen(w, bulk, true);
        mark(bulk);
        any = true;
    }
    if (any)
        remove_marked(w->bulk);
}

void bulk_observed(struct worker *w, void *object)
{
    const struct cluster *c = cluster_of(w);

    observe_phase_in_block(w, object);
    for (unsigned rank = 0; c && rank < c->size; rank++)
        observe_phase_in_block(c->members[rank], object);
}

static void refuse(struct worker *w, enum fault_kind kind, const struct bulk *bulk, const char *why)
{
    char what[MESSAGE_BYTES];

    snprintf(what, sizeof what, "%s %s at %.200s:%d", bulk->copy.instruction, why, bulk->file, bulk->line);
    worker_fail(w, kind, what, bulk->file, bulk->line);
}

static void check_alignment(struct worker *w, const struct bulk *bulk)
{
    const struct smemkit_bulk *copy = &bulk->copy;
    char why[100];

    if (bulk_is_of_registers(copy)) {
        snprintf(why, sizeof why, "to an address that is not a multiple of %llu", (unsigned long long)copy->bytes);
        if ((uintptr_t)copy->to % copy->bytes)
            refuse(w, KIND_MISALIGNED, bulk, why);
        if (w->in_cluster && cluster_owner(w, copy->to) != cluster_owner(w, copy->mbarrier))
            refuse(w, KIND_TRAP, bulk, "to another block than that of its mbarrier");
        return;
    }
    if (copy->bytes % GRAIN) {
        snprintf(why, sizeof why, "of %llu bytes, not a multiple of 16,", (unsigned long long)copy->bytes);
        refuse(w, KIND_MISALIGNED, bulk, why);
    }
    if ((uintptr_t)copy->to % GRAIN)
        refuse(w, KIND_MISALIGNED, bulk, "to an address that is not a multiple of 16");
    if ((uintptr_t)copy->from % GRAIN)
        refuse(w, KIND_MISALIGNED, bulk, "from an address that is not a multiple of 16");
}

/* Copies the tensor map that the copy names, and counts the bytes of its box. */
static void read_tensor(struct worker *w, struct bulk *bulk, int rank)
{
    const void *const shared = bulk->copy.mbarrier ? bulk->copy.to : bulk->copy.from;
    char why[160] = "with a tensor map ";

    memcpy(&bulk->tensor, bulk->copy.tensor, sizeof bulk->tensor);
    if (bulk->tensor.magic != SMEMKIT_TENSOR_MAGIC)
        refuse(w, KIND_TRAP, bulk, "with 128 bytes that are no tensor map");
    if ((uintptr_t)bulk->copy.tensor % 64)
        refuse(w, KIND_MISALIGNED, bulk, "with a tensor map at an address that is not a multiple of 64");
    if (smemkit_is_shared(bulk->copy.tensor))
        refuse(w, KIND_TRAP, bulk, "with a tensor map in shared memory, where the hardware cannot read it,");
    if (!smemkit_tensor_is_valid(&bulk->tensor, why + strlen(why), sizeof why - strlen(why)))
        refuse(w, KIND_TRAP, bulk, why);
    if (bulk->tensor.rank != rank) {
        snprintf(why, sizeof why, "of %d dimensions with a tensor map of %d", rank, bulk->tensor.rank);
        refuse(w, KIND_TRAP, bulk, why);
    }
    if (bulk->tensor.type == TYPE_TF32 && !bulk->copy.mbarrier)
        refuse(w, KIND_TRAP, bulk, "with a tensor map of TF32, which the executor knows for loads only");
    if ((uintptr_t)shared % TENSOR_GRAIN)
        refuse(w, KIND_MISALIGNED, bulk, "with an address in shared memory that is not a multiple of 128");
    if ((int64_t)bulk->copy.at[0] * bulk->tensor.element % GRAIN) { /* an H100 reports an illegal instruction */
        snprintf(why, sizeof why,
                 "of a box that begins at %d in dimension 0, at no multiple of 16 bytes: elements have %u",
                 bulk->copy.at[0], bulk->tensor.element);
        refuse(w, KIND_MISALIGNED, bulk, why);
    }
    bulk->copy.bytes = bulk->tensor.element;
    for (int i = 0; i < rank; i++) {
        if (!bulk->copy.mbarrier && bulk->copy.at[i] < 0) { /* CUDA C++ Programming Guide, on tensor copies */
            snprintf(why, sizeof why, "to a box that begins at %d in dimension %d: only a load may begin before 0",
                     bulk->copy.at[i], i);
            refuse(w, KIND_OUT_OF_BOUNDS, bulk, why);
        }
        bulk->copy.bytes *= rows_of(&bulk->tensor, i);
    }
}

void smemkit_bulk_copy(const struct smemkit_bulk *copy, int rank, const void *code, const char *file, int line)
{
    struct worker *w = own_worker();
    struct bulk_copies *all = own_copies(w);
    struct bulk bulk = {
        .copy = *copy, .file = file, .line = line, .thread = w->current, .group = all->groups[w->current]};

    if (copy->tensor)
        read_tensor(w, &bulk, rank);
    else
        check_alignment(w, &bulk);
    if (!copy->tensor && !bulk_is_of_registers(copy) && copy->bytes && (!copy->from || !copy->to))
        refuse(w, KIND_OUT_OF_BOUNDS, &bulk, copy->from ? "to a null pointer" : "from a null pointer");
    if (copy->tensor && copy->combine_of && !(bulk.copy.combine = copy->combine_of(bulk.tensor.type)))
        refuse(w, KIND_TRAP, &bulk, "of elements whose type has no such reduction");
    if (copy->mbarrier)
        mbarrier_checked_phase(copy->mbarrier, copy->instruction, file, line);
    if (all->count == MAX_BULKS)
        refuse(w, KIND_TRAP, &bulk, "after too many without a wait");
    if (w->tracer)
        bulk.epoch = smemkit_observer->bulk_issued(w, &bulk, code);
    all->items = grow(w, all->items, all->count, &all->capacity, sizeof *all->items);
    all->items[all->count++] = bulk;
    if (completes_early(w))
        perform(w, &all->items[all->count - 1]);
}

void smemkit_bulk_prefetch(const void *from, uint64_t bytes, const char *file, int line)
{
    struct bulk bulk = {.copy = {.instruction = "cp.async.bulk.prefetch", .from = from, .bytes = bytes},
                        .file = file,
                        .line = line};

    check_alignment(own_worker(), &bulk);
}

void smemkit_bulk_commit(void)
{
    struct worker *w = own_worker();

    own_copies(w)->groups[w->current]++;
}

/* A wait of the running thread for all but its last `groups` groups covers this one. */
static bool is_awaited(const struct worker *w, uint32_t group, unsigned groups)
{
    return w->bulk->groups[w->current] - group > groups;
}

/* Reports to the observer that the running thread sees the writes of copies for whose reads alone it has waited
 * before. */
static void see_writes(struct worker *w, unsigned groups)
{
    struct bulk_copies *all = w->bulk;
    unsigned kept = 0;

    for (unsigned i = 0; i < all->read_count; i++) {
        const struct read_copy one = all->read[i];

        if (one.thread == w->current && is_awaited(w, one.group, groups))
            smemkit_observer->bulk_seen(w, &(struct bulk){.thread = one.thread, .epoch = one.epoch}, true);
        else
            all->read[kept++] = one;
    }
    all->read_count = kept;
}

static void see_read(struct worker *w, const struct bulk *bulk)
{
    struct bulk_copies *all = w->bulk;

    all->read = grow(w, all->read, all->read_count, &all->read_capacity, sizeof *all->read);
    all->read[all->read_count++] = (struct read_copy){bulk->thread, bulk->group, bulk->epoch};
}

void smemkit_bulk_wait(unsigned groups, int read)
{
    struct worker *w = own_worker();
    struct bulk_copies *all = own_copies(w);

    if (w->tracer)
        smemkit_observer->copies_awaited(w, w->current);
    for (unsigned i = 0; i < all->count; i++) {
        struct bulk *bulk = &all->items[i];

        if (bulk->copy.mbarrier || bulk->thread != w->current || !is_awaited(w, bulk->group, groups))
            continue;
        if (!bulk->moved)
            perform(w, bulk);
        if (w->tracer)
            smemkit_observer->bulk_seen(w, bulk, !read);
        if (w->tracer && read)
            see_read(w, bulk);
        mark(bulk);
    }
    remove_marked(all);
    if (w->tracer && !read)
        see_writes(w, groups);
}

static void report_unfinished(struct worker *w, const struct bulk *bulk, const char *who)
{
    char what[MESSAGE_BYTES];

    if (!w->tracer)
        return;
    snprintf(what, sizeof what, "%s without a wait for the asynchronous copy that was started at %.200s:%d", who,
             bulk->file, bulk->line);
    smemkit_observer->fault(w, KIND_LEAK, what, !bulk->copy.mbarrier, bulk->file, bulk->line, NULL, 0);
}

void bulk_exit(struct worker *w, unsigned thread)
{
    for (unsigned i = 0; i < w->bulk->count; i++) {
        struct bulk *bulk = &w->bulk->items[i];

        if (bulk->copy.mbarrier || bulk->thread != thread)
            continue;
        report_unfinished(w, bulk, "a thread exits");
        if (!bulk->moved)
            perform(w, bulk);
        mark(bulk);
    }
    remove_marked(w->bulk);
}

void bulk_finish(struct worker *w)
{
    for (unsigned i = 0; i < w->bulk->count; i++)
        report_unfinished(w, &w->bulk->items[i], "the block ends");
}
