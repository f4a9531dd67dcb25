/* Launch plans: what a call has launched, for the next call like it.
 *
 * A small call takes longer to be understood than to be launched. Where it leaves its options to smemkit, and its
 * operands and `out` are Arrays that lie as the kernels want them, all that is decided on the way to the launch
 * depends on the operation, the device, the dtypes and the shapes. So the arguments of the launch are kept under
 * these, and the next such call fills in its addresses and launches. What comes out is the same; a call that is
 * not found here goes the long way, and so does one that must not be mistaken: with a stream of its own, under
 * timed(), or in place.
 */
#include "smemkit.h"

#include <pthread.h>
#include <string.h>

enum { PLANS = 128, MOST_OPERANDS = MAX_INPUTS + 1, MOST_DIMENSIONS = 9, MOST_ADDRESSES = MOST_OPERANDS + 1 };

/* Compared and hashed as bytes: every one of them is set. */
struct key {
    const struct device *device;
    npy_intp shape[MOST_DIMENSIONS];
    uint16_t what;
    uint16_t dtype[MOST_OPERANDS];
    uint8_t ndim[MOST_OPERANDS];
    uint8_t count;
};

struct plan {
    struct key key;
    struct plan_note note;
    size_t scratch_bytes;
    enum dtype made; /* of a new result, one number; 0 where out is given */
};

/* Of the process, under the lock; one is overwritten by the next that falls in its place. */
static struct plan plans[PLANS];
static pthread_mutex_t planning = PTHREAD_MUTEX_INITIALIZER;

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

void plan_note_launch(struct plan_note *note, const struct kernel_row *row, const void *args)
{
    const size_t bytes = args_bytes(row->op);

    note->launches++;
    note->row = row;
    if (bytes && bytes <= sizeof note->args)
        memcpy(note->args.bytes, args, bytes);
    else
        note->launches++; /* it is no plan */
}

/* One of NumPy's two types of integers of 8 bytes is not told from the other by a key. */
static bool has_other_type(const struct array *array)
{
    return array->descr->type_num == NPY_LONGLONG || array->descr->type_num == NPY_ULONGLONG;
}

/* The operands and, last, out as a key; out is NULL where it is to be made. False where they are not what a plan
 * is for. */
static bool make_key(const struct module_state *state, unsigned what, PyObject *const *operands, int count,
                     struct key *key)
{
    struct array *out = (struct array *)operands[count - 1];
    int dimensions = 0;

    memset(key, 0, sizeof *key);
    key->what = (uint16_t)what;
    key->count = (uint8_t)count;
    for (int i = 0; i < count - !out; i++) {
        struct array *array = (struct array *)operands[i];

        if (!Py_IS_TYPE(operands[i], state->array_type) || array->home || has_other_type(array) || !array->size ||
            !array_is_contiguous(array) || dimensions + array->ndim > MOST_DIMENSIONS ||
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
    return !(out && out->readonly) && !current_timing() && !is_rehearsal() && !stream_is_entered();
}

static struct plan *place_of(const struct key *key)
{
    uint64_t words[sizeof *key / sizeof(uint64_t)], hash = 0;

    _Static_assert(sizeof *key % sizeof(uint64_t) == 0, "a key is whole words");
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = (hash ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return &plans[(hash >> 32) % PLANS];
}

static bool find_plan(const struct key *key, struct plan *plan)
{
    const struct plan *place = place_of(key);
    bool found;

    pthread_mutex_lock(&planning);
    found = memcmp(&place->key, key, sizeof *key) == 0;
    if (found)
        *plan = *place;
    pthread_mutex_unlock(&planning);
    return found;
}

/* The addresses come first in the arguments of every launch: of the operands, of out, of the scratch. */
static void launch_plan(struct plan *plan, PyObject *const *operands, int count, struct failure *failure)
{
    struct device *device = ((struct array *)operands[0])->device;
    void *scratch = NULL;

    for (int i = 0; i < count; i++)
        plan->note.args.addresses[i] = ((struct array *)operands[i])->data;
    if (plan->scratch_bytes && !device_allocate(device, plan->scratch_bytes, NULL, &scratch, failure))
        return;
    if (plan->scratch_bytes)
        plan->note.args.addresses[count] = scratch;
    call_count_launch();
    device->type->launch(device, plan->note.row, plan->note.args.bytes, NULL, failure);
    if (scratch)
        device_release(device, scratch, NULL);
}

/* The one number that a plan makes. NULL with an exception. */
static struct array *make_result(const struct module_state *state, struct device *device, enum dtype dtype)
{
    PyArray_Descr *descr = dtype_descr(dtype);
    struct array *array = descr ? array_new_result(state, device, descr, 0, NULL) : NULL;

    Py_XDECREF(descr);
    return array;
}

bool plan_run(const struct module_state *state, unsigned what, PyObject *const *given, int count,
              PyObject **result)
{
    struct failure failure = {.kind = FAILURE_NONE};
    PyObject *operands[MOST_OPERANDS], *out = given[count - 1];
    struct plan plan;
    struct key key;

    if (!make_key(state, what, given, count, &key) || !find_plan(&key, &plan))
        return false;
    *result = NULL;
    memcpy(operands, given, (size_t)count * sizeof *operands);
    for (int i = 0; i < count - !out; i++)
        array_settle((struct array *)given[i]);
    if (out)
        Py_INCREF(out);
    else if (!(out = (PyObject *)make_result(state, ((struct array *)given[0])->device, plan.made)))
        return true;
    operands[count - 1] = out;
    Py_BEGIN_ALLOW_THREADS
    launch_plan(&plan, operands, count, &failure);
    Py_END_ALLOW_THREADS
    if (failure.kind == FAILURE_NONE) {
        *result = out;
    } else {
        Py_DECREF(out);
        raise_failure_of(state, &failure, failure.ran && given[count - 1]);
    }
    return true;
}

void plan_keep(const struct module_state *state, unsigned what, PyObject *const *given, int count,
               const struct plan_note *note, size_t scratch_bytes, PyObject *result)
{
    struct plan plan = {.note = *note, .scratch_bytes = scratch_bytes};
    struct array *out = (struct array *)result;
    PyObject *operands[MOST_OPERANDS];

    if (note->launches != 1 || !make_key(state, what, given, count, &plan.key))
        return;
    if (!given[count - 1]) {
        if (out->ndim || out->result == NO_RESULT)
            return;
        plan.made = out->dtype;
    }
    memcpy(operands, given, (size_t)count * sizeof *operands);
    operands[count - 1] = result;
    for (int i = 0; i < count; i++)
        if (note->args.addresses[i] != ((struct array *)operands[i])->data)
            return; /* it was converted on the way */
    pthread_mutex_lock(&planning);
    *place_of(&plan.key) = plan;
    pthread_mutex_unlock(&planning);
}
