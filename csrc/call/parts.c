/* Divides a call with large host arrays into parts. */
#include "python/state.h"

#include <stdatomic.h>

#include "array/operand.h"
#include "base/scope.h"
#include "base/strided_copy.h"
#include "call.h"
#include "device/recorder.h"
#include "kernels.h"
#include "part.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "steps.h"

bool call_has_host_operands(const struct call *call)
{
    return call->in[0].device == NULL;
}

bool has_host_array(const struct call *call)
{
    bool host = !call->out.device;

    for (int i = 0; i < call->inputs; i++)
        host = host || !call->in[i].device;
    return host;
}

size_t saturated_bytes(npy_intp elements, enum dtype dtype)
{
    size_t bytes;

    return __builtin_mul_overflow((size_t)elements, (size_t)dtype_bytes(dtype), &bytes) ? SIZE_MAX : bytes;
}

/* For tests: the bytes per part, also on the CPU device; 0: the default for a GPU. If it is negative, its absolute
 * value is used, and calls that would be slow in parts are done whole, as on a GPU. */
static atomic_llong part_bytes_override;

PyObject *core_set_part_bytes(PyObject *module, PyObject *bytes)
{
    const long long override = PyLong_AsLongLong(bytes);

    (void)module;
    if (override == -1 && PyErr_Occurred())
        return NULL;
    return PyLong_FromLongLong(atomic_exchange(&part_bytes_override, override));
}

npy_intp call_test_bytes(npy_intp usual)
{
    const npy_intp override = (npy_intp)atomic_load(&part_bytes_override);

    return override > 0 ? override : usual;
}

npy_intp call_part_bytes(const struct call *call, npy_intp bytes, npy_intp least)
{
    const npy_intp override = (npy_intp)atomic_load(&part_bytes_override), most = 1 << 25;

    if (!has_host_array(call) || (!override && device_is_host(call->device)))
        return NPY_MAX_INTP;
    if (override)
        return override < 0 ? -override : override;
    return bytes / 8 < least ? least : bytes / 8 > most ? most : bytes / 8;
}

bool is_partitioned(const struct partition *partition)
{
    return partition->step > 0 && partition->step < partition->length;
}

bool call_is_partitioned(const struct call *call)
{
    return is_partitioned(&call->partitions[0]) || is_partitioned(&call->partitions[1]);
}

bool is_invariant(const struct call *call, int i)
{
    return !is_partitioned(&call->partitions[1]) || call->partitions[1].in[i] < 0;
}

bool accumulates_parts(const struct call *call)
{
    return is_partitioned(&call->partitions[1]) && call->partitions[1].out < 0;
}

bool is_last_part(const struct part *part)
{
    const struct partition *inner = &part->call->partitions[1];

    return !is_partitioned(inner) || part->begin[1] + part->length[1] == inner->length;
}

struct device *call_target(const struct call *call)
{
    struct recorder *recorder = current_scope()->recorder;

    return recorder ? recorder_device(recorder, call->device) : call->device;
}

struct part part_of_call(const struct call *call)
{
    struct part part = {.call = call, .device = call_target(call), .stream = call->stream};

    part.buffers.device = part.device;
    part.buffers.stream = part.stream;
    for (int loop = 0; loop < 2; loop++)
        part.length[loop] = call->partitions[loop].length;
    for (int i = 0; i < call->inputs; i++) {
        part.in[i] = call->in[i].data;
        part.in_view[i] = call->in_view[i];
    }
    part.out = call->out.data;
    part.out_view = call->out_view;
    return part;
}

static void slice(struct layout *layout, char **data, int dimension, npy_intp at, npy_intp length)
{
    if (dimension < 0)
        return;
    layout->shape[dimension] = length;
    *data += at * layout->strides[dimension];
}

void part_slice(struct part *part, int loop, npy_intp at)
{
    const struct partition *partition = &part->call->partitions[loop];

    if (!is_partitioned(partition))
        return;
    part->begin[loop] = at;
    part->length[loop] = partition->length - at < partition->step ? partition->length - at : partition->step;
    for (int i = 0; i < part->call->inputs; i++)
        slice(&part->in_view[i], &part->in[i], partition->in[i], at, part->length[loop]);
    slice(&part->out_view, &part->out, partition->out, at, part->length[loop]);
}

/* Whether a part consists of contiguous segments that are too short to be copied fast. */
static bool has_short_segments(const struct layout *layout, const struct operand *operand, bool with_gaps)
{
    enum { SHORT = 256 };
    struct layout device_layout;
    struct segments segments;
    npy_intp first;

    return !operand->device &&
           layout_segments(layout, dtype_bytes(operand->dtype), NULL, with_gaps, &segments, &device_layout,
                           &first) &&
           segments.ndim && segments.segment_bytes < SHORT;
}

size_t call_available_bytes(const struct call *call, size_t enough)
{
    size_t available_bytes;

    Py_BEGIN_ALLOW_THREADS
    available_bytes = call->device->type->available_bytes(call->device, enough);
    Py_END_ALLOW_THREADS
    return available_bytes;
}

/* Cancels the operation's partition where the call is faster whole: if the parts of an array consist of short
 * segments, unless the whole arrays, with the scratch memory of the whole call, do not fit on the device. */
void call_cancel_slow_partition(struct call *call)
{
    size_t bytes = saturated_bytes(call->out.size, call->result) + call->scratch_bytes;
    struct part part;
    bool slow;

    if (!call_is_partitioned(call) || atomic_load(&part_bytes_override) > 0)
        return;
    part = part_of_call(call);
    for (int loop = 0; loop < 2; loop++)
        part_slice(&part, loop, 0);
    slow = has_short_segments(&part.out_view, &call->out, false);
    for (int i = 0; i < call->inputs; i++) {
        bytes += saturated_bytes(call->in[i].size, call->in[i].dtype);
        slow = slow || has_short_segments(&part.in_view[i], &call->in[i], true);
    }
    /* a converted operand takes memory twice */
    if (slow && bytes < call_available_bytes(call, bytes < SIZE_MAX / 4 ? 4 * bytes : SIZE_MAX) / 3)
        call->partitions[0].step = call->partitions[1].step = 0;
}
