/* The data path of a call, the same for every operation: upload, conversion to the layout, dtype and byte order
 * that the kernel wants, launch, download.
 *
 * One kernel, `convert`, handles layouts, byte orders and casts; the operations' kernels see contiguous arrays of
 * one dtype, except those that accept strides. The host only moves bytes: a NumPy array is uploaded in memory
 * order, without the gaps between its elements where that is faster, and is reordered on the device.
 *
 * A call with large host arrays is done in parts if its operation says how: while the kernel works on one part,
 * the next is being uploaded and the previous one downloaded. So a call takes as long as the slowest of the three,
 * and needs device memory for a few parts only.
 */
#include "python/state.h"

#include <stdio.h>
#include <string.h>

#include "array/array.h"
#include "array/operand.h"
#include "array/retirement.h"
#include "array/stream.h"
#include "base/failure.h"
#include "base/scope.h"
#include "call.h"
#include "python/errors.h"
#include "steps.h"
#include "timing.h"

void call_dispose(struct call *call)
{
    for (int i = 0; i < call->inputs; i++)
        drop_operand(&call->in[i]);
    Py_CLEAR(call->bounce_buffer);
    drop_operand(&call->out);
}

PyObject *call_fail(struct call *call)
{
    call_dispose(call);
    return NULL;
}

bool check_no_capture(const struct module_state *state, const struct call *call)
{
    return !has_host_array(call) ||
           refuse_capture(state, call->device, call->stream,
                          "nothing can be copied from or to the host; expected arrays on the device");
}

void keep_owners_alive(struct call *call)
{
    PyObject *owners[MAX_KEPT_ALIVE];
    int count = 0;

    _Static_assert(MAX_KEPT_ALIVE == MAX_INPUTS + 1, "one for each operand, and one for out");
    for (int i = 0; i <= call->inputs; i++) {
        struct operand *operand = i < call->inputs ? &call->in[i] : &call->out;

        if (operand->device && operand->retire && operand->owner) {
            owners[count++] = Py_NewRef(operand->owner);
            operand->retire = false;
        }
    }
    if (count)
        foreign_keep_alive(call->device, call->stream, owners, count);
}

static const char IN_PART[] = "out has been written in part";

/* Adds IN_PART to the exception that a signal handler has raised. */
static void add_partly_written(void)
{
    PyObject *type, *error, *traceback, *args, *done = NULL;

    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    args = error ? PyObject_GetAttrString(error, "args") : NULL;
    if (args && PyTuple_Check(args) && !PyTuple_GET_SIZE(args)) {
        Py_SETREF(args, Py_BuildValue("(s)", IN_PART));
        if (args)
            (void)PyObject_SetAttrString(error, "args", args);
    } else if (args) {
        done = PyObject_CallMethod(error, "add_note", "s", IN_PART); /* not in CPython 3.10 */
    }
    PyErr_Clear();
    Py_XDECREF(done);
    Py_XDECREF(args);
    PyErr_Restore(type, error, traceback);
}

void raise_call_failure(const struct module_state *state, struct failure *failure, bool out_written)
{
    const bool raised = PyErr_Occurred() || failure->kind == FAILURE_INTERRUPTED;

    if (out_written && !raised) {
        const size_t length = strlen(failure->text);

        snprintf(failure->text + length, sizeof failure->text - length, "; %s", IN_PART);
    }
    raise_failure(state, failure);
    if (out_written && raised)
        add_partly_written();
}

PyObject *call_finish(const struct module_state *state, struct call *call, bool out_given)
{
    PyObject *result;

    if (call->failure.kind != FAILURE_NONE) {
        raise_call_failure(state, &call->failure, call->out_written && out_given && !call->bounce_buffer);
        return call_fail(call);
    }
    if (call->bounce_buffer && !current_scope()->recorder &&
        PyArray_CopyInto((PyArrayObject *)call->out.owner, call->bounce_buffer) < 0)
        return call_fail(call);
    result = Py_NewRef(call->out.caller_object ? call->out.caller_object : call->out.owner);
    if (!call->out.device && !out_given && !call->keeps_0d_array)
        result = PyArray_Return((PyArrayObject *)result);
    call_dispose(call);
    return result;
}

/* Executes the call; if the device runs out of memory, again in smaller parts. Not again if `out` overwrites
 * operands: the first try may have changed them. */
static void execute_with_retries(struct call *call, call_launcher launch, void *context)
{
    const bool may_repeat = call->take_less_memory && (!call->overlapping || call->bounce_buffer);
    const struct timing before = call->timing ? *call->timing : (struct timing){0};

    call_execute(call, launch, context);
    while (may_repeat && call->failure.kind == FAILURE_MEMORY && call->take_less_memory(call, context)) {
        call->failure = (struct failure){0};
        if (call->timing)
            *call->timing = before;
        call_execute(call, launch, context);
    }
}

PyObject *call_run(const struct module_state *state, struct call *call, call_launcher launch, void *context,
                   bool out_given)
{
    if (call->out.size) {
        call->timing = current_scope()->timing;
        call->synchronous = !current_scope()->recorder && stream_is_synchronous(state, call->device, call->stream);
        call->out_is_new = !out_given;
        call->overlapping = out_overlaps_operand(call);
        call_cancel_slow_partition(call);
        if (!check_no_capture(state, call) || !call_prepare(call))
            return call_fail(call);
        Py_BEGIN_ALLOW_THREADS
        execute_with_retries(call, launch, context);
        Py_END_ALLOW_THREADS
        keep_owners_alive(call);
    }
    return call_finish(state, call, out_given);
}
