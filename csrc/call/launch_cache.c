/* The launch cache: the arguments of earlier launches, for calls like them.
 *
 * A small call takes longer to validate than to launch. If it leaves its options to smemkit, and its operands and
 * `out` are Arrays in the layout that the kernel wants, everything that is decided before the launch depends only
 * on the operation, the device, the dtypes and the shapes. So the launch arguments are cached under these, and the
 * next such call only fills in its addresses and launches. The result is the same. A call that is not in the cache
 * takes the full path, as does every call with stream=, under timed(), or in place.
 */
#include "python/state.h"

#include <string.h>

#include "array/array.h"
#include "array/stream.h"
#include "base/failure.h"
#include "base/scope.h"
#include "call.h"
#include "device/allocation.h"
#include "device/device.h"
#include "kernels.h"
#include "launch_cache.h"
#include "python/dtypes.h"

enum {
    CACHE_SLOTS = 128,
    MAX_KEY_OPERANDS = MAX_INPUTS + 1,
    MAX_KEY_DIMENSIONS = 9,
    MAX_ADDRESSES = MAX_KEY_OPERANDS + 1
};

/* Compared and hashed as bytes: make_key sets all of them. */
struct key {
    const struct device *device;
    npy_intp shape[MAX_KEY_DIMENSIONS];
    uint16_t operation;
    uint16_t dtype[MAX_KEY_OPERANDS];
    uint8_t ndim[MAX_KEY_OPERANDS];
    uint8_t count;
};

struct cached_launch {
    struct key key;
    struct launch_record record;
    size_t scratch_bytes;
    enum dtype result_dtype; /* of a new 0-dimensional result; 0 if out is given */
};

/* Of the process, protected by the lock. An entry is replaced by the next one with the same slot. */
static struct cached_launch cache[CACHE_SLOTS];
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t args_bytes(enum op op)
{
    switch (op) {
    case OP_matmul:
        return sizeof(struct matmul_args);
    case OP_reduce:
        return sizeof(struct reduce_args);
    case OP_transpose:
        return sizeof(struct transpose_args);
    default:
        return 0;
    }
}

void launch_record_add(struct launch_record *record, const struct kernel_row *row, const void *args)
{
    const size_t bytes = args_bytes(row->op);

    record->launches++;
    record->row = row;
    if (bytes && bytes <= sizeof record->args)
        memcpy(record->args.bytes, args, bytes);
    else
        record->launches++; /* not cacheable: more than one launch */
}

/* NumPy has two types of 8-byte integers, which the key does not distinguish. */
static bool has_longlong_type(const struct array *array)
{
    return array->descr->type_num == NPY_LONGLONG || array->descr->type_num == NPY_ULONGLONG;
}

/* Makes the key of a call from its operands and, last, out, which is NULL if a result has to be allocated. False
 * if the call cannot be cached. */
static bool make_key(const struct module_state *state, unsigned operation, PyObject *const *operands, int count,
                     struct key *key)
{
    struct array *out = (struct array *)operands[count - 1];
    int dimensions = 0;

    memset(key, 0, sizeof *key);
    key->operation = (uint16_t)operation;
    key->count = (uint8_t)count;
    for (int i = 0; i < count - !out; i++) {
        struct array *array = (struct array *)operands[i];

        if (!Py_IS_TYPE(operands[i], state->array_type) || array->owning_stream || has_longlong_type(array) ||
            !array->size || !array_is_contiguous(array) || dimensions + array->ndim > MAX_KEY_DIMENSIONS ||
            (i && array->device != key->device))
            return false;
        key->device = array->device;
        key->dtype[i] = (uint16_t)array->dtype;
        key->ndim[i] = (uint8_t)array->ndim;
        memcpy(key->shape + dimensions, array_shape(array), (size_t)array->ndim * sizeof(npy_intp));
        dimensions += array->ndim;
    }
    for (int i = 0; out && i < count - 1; i++) {
        const struct array *array = (struct array *)operands[i];

        if (out->data < array->data + array->bytes && array->data < out->data + out->bytes)
            return false;
    }
    return !(out && out->readonly) && !current_scope()->timing && !current_scope()->recorder &&
           !stream_is_entered();
}

static struct cached_launch *slot_of(const struct key *key)
{
    uint64_t words[sizeof *key / sizeof(uint64_t)], hash = 0;

    _Static_assert(sizeof *key % sizeof(uint64_t) == 0, "a key is whole words");
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = (hash ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return &cache[(hash >> 32) % CACHE_SLOTS];
}

static bool find_cached(const struct key *key, struct cached_launch *cached_launch)
{
    const struct cached_launch *slot = slot_of(key);
    bool found;

    pthread_mutex_lock(&cache_lock);
    found = memcmp(&slot->key, key, sizeof *key) == 0;
    if (found)
        *cached_launch = *slot;
    pthread_mutex_unlock(&cache_lock);
    return found;
}

/* Launches with new addresses, which are the first members of all launch arguments: operands, out, scratch. */
static void launch_cached(struct cached_launch *cached_launch, PyObject *const *operands, int count,
                          struct failure *failure)
{
    struct device *device = ((struct array *)operands[0])->device;
    void *scratch = NULL;

    for (int i = 0; i < count; i++)
        cached_launch->record.args.addresses[i] = ((struct array *)operands[i])->data;
    if (cached_launch->scratch_bytes &&
        !device_allocate(device, cached_launch->scratch_bytes, NULL, &scratch, failure))
        return;
    if (cached_launch->scratch_bytes)
        cached_launch->record.args.addresses[count] = scratch;
    device->type->launch(device, cached_launch->record.row, cached_launch->record.args.bytes, NULL, failure);
    if (scratch)
        device_release(device, scratch, NULL);
}

/* A new 0-dimensional result. NULL with an exception. */
static struct array *make_result(const struct module_state *state, struct device *device, enum dtype dtype)
{
    PyArray_Descr *descr = dtype_descr(dtype);
    struct array *array = descr ? array_new_in_result_slot(state, device, descr, 0, NULL) : NULL;

    Py_XDECREF(descr);
    return array;
}

bool launch_cache_run(const struct module_state *state, unsigned operation, PyObject *const *given, int count,
                      PyObject **result)
{
    struct failure failure = {.kind = FAILURE_NONE};
    PyObject *operands[MAX_KEY_OPERANDS], *out = given[count - 1];
    struct cached_launch cached_launch;
    struct key key;

    if (!make_key(state, operation, given, count, &key) || !find_cached(&key, &cached_launch))
        return false;
    *result = NULL;
    memcpy(operands, given, (size_t)count * sizeof *operands);
    for (int i = 0; i < count - !out; i++)
        array_require_sync((struct array *)given[i]);
    if (out)
        Py_INCREF(out);
    else if (!(out =
                   (PyObject *)make_result(state, ((struct array *)given[0])->device, cached_launch.result_dtype)))
        return true;
    operands[count - 1] = out;
    Py_BEGIN_ALLOW_THREADS
    launch_cached(&cached_launch, operands, count, &failure);
    Py_END_ALLOW_THREADS
    if (failure.kind == FAILURE_NONE) {
        *result = out;
    } else {
        Py_DECREF(out);
        raise_call_failure(state, &failure, failure.ran && given[count - 1]);
    }
    return true;
}

void launch_cache_store(const struct module_state *state, unsigned operation, PyObject *const *given, int count,
                        const struct launch_record *record, size_t scratch_bytes, PyObject *result)
{
    struct cached_launch cached_launch = {.record = *record, .scratch_bytes = scratch_bytes};
    struct array *out = (struct array *)result;
    PyObject *operands[MAX_KEY_OPERANDS];

    if (record->launches != 1 || !make_key(state, operation, given, count, &cached_launch.key))
        return;
    if (!given[count - 1]) {
        if (out->ndim || out->result == NO_RESULT_SLOT)
            return;
        cached_launch.result_dtype = out->dtype;
    }
    memcpy(operands, given, (size_t)count * sizeof *operands);
    operands[count - 1] = result;
    for (int i = 0; i < count; i++)
        if (record->args.addresses[i] != ((struct array *)operands[i])->data)
            return; /* an operand was converted before the launch */
    pthread_mutex_lock(&cache_lock);
    *slot_of(&cached_launch.key) = cached_launch;
    pthread_mutex_unlock(&cache_lock);
}

void launch_cache_clear(void)
{
    pthread_mutex_lock(&cache_lock);
    memset(cache, 0, sizeof cache);
    pthread_mutex_unlock(&cache_lock);
}
